"""What a one-shot costs the scheduler in pure code: read, armed, fired, queued, ended, forgotten. No server, no loop.

Each step is timed by itself, in microseconds of CPU a run; `domain` is the sum of what is decided, without decoding and
encoding. Prints one JSON line for jobs that are due at once and one for those that are due later.

    python -m bench.one_shots [RUNS] [--profile]
"""

import cProfile
import gc
import json
import pstats
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from bench.jobs import PAYLOAD
from waterclock.core.domain.instants import MINUTE, SECOND, datetime_of
from waterclock.core.domain.partition.decisions import Pass
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.jetstream.protocol import publish_command
from waterclock.proto.codec import decode_frame, decode_job_frame, encode
from waterclock.proto.events import Frame, JobCreated, JobFrame, RunEvent, RunSucceeded
from waterclock.proto.spec import Handler, JobSpec, Schedule
from waterclock.scheduler.credit import Credit
from waterclock.scheduler.jetstream.work_queue import work_message
from waterclock.scheduler.work_items import packed, work_item

_BATCH = 64
_DECIDED = ("observe", "tick", "take", "appended", "own_frame", "apply", "follow")
_START = 1_800_000_000 * SECOND


class Steps:
    """CPU time by step."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()

    def time(self, step: str, what: Callable[[], Any]) -> Any:
        began = time.thread_time_ns()
        result = what()
        self.spent[step] += time.thread_time_ns() - began
        return result


class Partition:
    """One owner, and executors that succeed at once."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        credit = Credit(1, clock=lambda: 0.0)
        self.owner = Owner(0, PartitionState(), _START, credit.open())
        self.owner.wake(_START)
        self.owner.loaded(_START + 100 * MINUTE)
        self.sequence = 0

    def define(self, frame: bytes, now: int) -> None:
        self.sequence += 1
        sequence, owner = self.sequence, self.owner
        events = self.steps.time("decode_jobs", lambda: decode_job_frame(frame)).events

        def observe() -> None:
            for event in events:
                owner.observe_job(event, sequence, now)

        self.steps.time("observe", observe)

    def one_pass(self, now: int) -> Pass:
        owner, steps = self.owner, self.steps
        steps.time("tick", lambda: owner.tick(now))
        decided: Pass = steps.time("take", owner.take_pass)
        if decided.events:
            self.sequence += 1
            frame = Frame(writer="bench/1", events=tuple(decided.events), cursor=owner.state.cursor)
            steps.time("encode_frame", lambda: encode(frame))
            steps.time("appended", lambda: owner.appended(self.sequence, decided.events))
            steps.time("work_items", lambda: _work(decided))
            steps.time("own_frame", lambda: owner.observe_own_frame(self.sequence))
        return decided

    def end(self, decided: Pass, now: int) -> None:
        outcomes: list[RunEvent] = [
            RunSucceeded(
                run_id=event.run_id,
                at=now,
                attempt=1,
                executor_id="executor-1",
                started=now - 100,
                exit_code=0,
            )
            for event, _ in decided.queued
        ]
        data = encode(Frame(writer="executor-1", events=tuple(outcomes)))
        frame = self.steps.time("decode_outcomes", lambda: decode_frame(data))
        self.sequence += 1
        self.steps.time("apply", lambda: self.owner.observe_frame(frame, self.sequence))
        self.steps.time("follow", lambda: self.owner.follow_up(now))


def _work(decided: Pass) -> list[bytes]:
    items = [(event.parcel, work_item(event, spec)) for event, spec in decided.queued]
    messages = [work_message(message) for message in packed(items)]
    return [publish_command(message.subject, "", None, message.data) for message in messages]


def immediate(runs: int, steps: Steps) -> None:
    partition = Partition(steps)
    now = _START
    for start in range(0, runs, _BATCH):
        now += 20_000
        jobs = [_job(start + n, now - 5_000 + n, Schedule()) for n in range(min(_BATCH, runs - start))]
        partition.define(_frame(jobs), now)
        partition.end(partition.one_pass(now), now + 5_000)
    _check(partition)


def later(runs: int, steps: Steps) -> None:
    """All are defined, then all come due over time."""
    partition = Partition(steps)
    now = _START
    first = _START + 60 * SECOND
    for start in range(0, runs, _BATCH):
        jobs = [
            _job(
                start + n,
                now,
                Schedule(schedule_type="FUTURE", schedule_time=datetime_of(first + n * 311 + start * 311)),
            )
            for n in range(min(_BATCH, runs - start))
        ]
        partition.define(_frame(jobs), now)
        partition.one_pass(now)
    now = first
    while partition.owner.schedules.armed:
        now += 20_000
        partition.end(partition.one_pass(now), now + 5_000)
    _check(partition)


def _check(partition: Partition) -> None:
    if partition.owner.state.runs or partition.owner.backlog:
        raise RuntimeError("something has not ended")


def _job(number: int, at: int, schedule: Schedule) -> JobCreated:
    spec = JobSpec(name="noop", task=Handler(handler="noop"), schedule=schedule, payload=PAYLOAD)
    return JobCreated(job_id=f"01jd{number:016d}", at=at, created_at=at, spec=spec, actor="bench")


def _frame(jobs: Sequence[JobCreated]) -> bytes:
    return encode(JobFrame(events=tuple(jobs)))


def measure(kind: Callable[[int, Steps], None], runs: int) -> dict[str, Any]:
    kind(min(runs, 2_000), Steps())
    gc.collect()
    steps = Steps()
    kind(runs, steps)
    each = {step: round(spent / runs / 1000, 2) for step, spent in steps.spent.items()}
    decided = round(sum(each.get(step, 0.0) for step in _DECIDED), 2)
    return {
        "name": f"one_shots/{kind.__name__}",
        "runs": runs,
        **each,
        "domain": decided,
        "all": round(sum(each.values()), 2),
    }


def main() -> None:
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    runs = numbers[0] if numbers else 50_000
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    for kind in (immediate, later):
        if "--profile" in sys.argv:
            profile = cProfile.Profile()
            profile.runcall(kind, runs, Steps())
            pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        else:
            print(json.dumps(measure(kind, runs)), flush=True)


if __name__ == "__main__":
    main()
