"""A history of jobs and runs, drawn from a seed: every kind of event, in an order that could happen."""

import random
from collections.abc import Iterator
from typing import Any

from projector_rig.builders import EVERY_MINUTE, T0, spec
from waterclock.core.domain.ids import run_id
from waterclock.core.domain.instants import MINUTE, SECOND, datetime_of
from waterclock.proto.events import (
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunCancelled,
    RunCancelRequested,
    RunEvent,
    RunFailed,
    RunLost,
    RunQueued,
    RunRequested,
    RunRetryRequested,
    RunReturned,
    RunSkipped,
    RunsMissed,
    RunSnoozed,
    RunStarted,
    RunSucceeded,
    RunTimedOut,
    RunWaiting,
    ScheduleEnded,
    Trigger,
)
from waterclock.proto.spec import Handler, Schedule

Step = tuple[str, tuple[JobEvent, ...] | tuple[RunEvent, ...]]
"""`jobs` or `runs`, and the events of one message of that stream."""

_CRON = Schedule(schedule_type="CRON", cron_expression=("*/5 * * * *",), timezone="Europe/Paris")


class RandomHistory:
    def __init__(self, seed: int, jobs: int = 20, start: int = T0) -> None:
        self._random = random.Random(seed)
        self._jobs = jobs
        self._now = start
        self._fires = 0

    def steps(self, runs: int) -> Iterator[Step]:
        """Definitions, then runs with edits in between."""
        births = [self._birth(f"job{number}") for number in range(self._jobs)]
        for birth in births:
            yield "jobs", (birth,)
        yield "jobs", tuple(self._birth(f"frame~{number}") for number in range(5))
        names = [birth.job_id for birth in births] + [f"frame~{number}" for number in range(5)]
        open_runs: list[Iterator[RunEvent]] = []
        while runs or open_runs:
            self._now += self._random.randrange(1, 30) * SECOND
            if runs:
                runs -= 1
                open_runs.append(self._run(self._random.choice(names)))
            frame = []
            for life in self._random.sample(open_runs, k=min(len(open_runs), self._random.randrange(1, 6))):
                event = next(life, None)
                if event is None:
                    open_runs.remove(life)
                else:
                    frame.append(event)
            if frame:
                yield "runs", tuple(frame)
            if self._random.random() < 0.1:
                yield "jobs", (self._edit(self._random.choice(births)),)

    def _birth(self, job_id: str) -> JobCreated:
        soon = Schedule(schedule_type="FUTURE", schedule_time=datetime_of(self._now + MINUTE))
        schedule = self._random.choice([Schedule(), soon, EVERY_MINUTE, _CRON])
        definition = spec(
            name=f"{job_id} of {self._random.choice(['alice', 'bob'])}",
            task=Handler(handler="noop"),
            schedule=schedule,
            namespace=self._random.choice(["default", "research"]),
            payload=self._random.choice([None, {"n": 1}, "text"]),
            labels=self._random.choice([{}, {"team": "data"}]),
        )
        return JobCreated(job_id=job_id, spec=definition, at=self._now, created_at=self._now)

    def _edit(self, birth: JobCreated) -> JobEvent:
        base: dict[str, Any] = {
            "job_id": birth.job_id,
            "spec": birth.spec,
            "at": self._now,
            "created_at": birth.created_at,
        }
        kinds: list[type[JobUpdated | JobPaused | JobResumed | JobCancelled]]
        kinds = [JobUpdated, JobPaused, JobResumed, JobCancelled]
        return self._random.choice(kinds)(**base, note=self._random.choice(["", "by hand"]))

    def _run(self, job_id: str) -> Iterator[RunEvent]:
        """The events of one run, one at a time, each at the moment it is asked for."""
        draw = self._random.random
        self._fires += 1
        scheduled = T0 + self._fires * MINUTE
        self._now = max(self._now, scheduled)  # a run is decided when it is due and not before
        name = run_id(job_id, scheduled)
        kind = draw()
        fire: dict[str, Any] = {"version": 1, "scheduled": scheduled, "due": scheduled + SECOND}
        if kind < 0.05:
            yield RunSkipped(run_id=name, at=self._now, **fire, reason="overlap", because_of="x")
            return
        if kind < 0.1:
            yield RunsMissed(
                run_id=name,
                at=self._now,
                version=1,
                scheduled=scheduled,
                until=scheduled,
                count=1,
                reason="away",
            )
            return
        if kind < 0.13:
            yield ScheduleEnded(
                run_id=job_id, at=self._now, version=self._random.randrange(1, 40), reason="end"
            )
            return
        trigger: Trigger = "schedule"
        if kind < 0.25:
            name, trigger = f"{job_id}@now-{self._fires}", "now"
            yield RunRequested(run_id=name, at=self._now, version=1, actor="alice")
        elif kind < 0.3:
            yield RunWaiting(run_id=name, at=self._now, **fire, reason="overlap: waits")
        attempt, crashes = 0, 0
        while True:
            attempt += 1
            yield RunQueued(
                run_id=name,
                at=self._now,
                **fire,
                attempt=attempt,
                crash_count=crashes,
                trigger=trigger,
                handler="noop",
                parent="flow@1" if draw() < 0.1 else None,
            )
            executor = f"executor-{self._random.randrange(3)}"
            begun = self._now
            if draw() < 0.5:
                yield RunStarted(run_id=name, at=begun, attempt=attempt, executor_id=executor)
            outcome: dict[str, Any] = {
                "run_id": name,
                "attempt": attempt,
                "executor_id": executor,
                "started": begun,
            }
            fate = draw()
            if fate < 0.5:
                yield RunSucceeded(
                    **outcome, at=self._now, output={"n": attempt}, exit_code=0, cpu_seconds=0.1
                )
                return
            if fate < 0.65:
                yield RunFailed(
                    **outcome, at=self._now, reason="exit code 1", exit_code=1, retry_at=self._now + MINUTE
                )
            elif fate < 0.7:
                yield RunSnoozed(**outcome, at=self._now, until=self._now + MINUTE)
                attempt -= 1
            elif fate < 0.75:
                yield RunReturned(**outcome, at=self._now)
                attempt -= 1
            elif fate < 0.8:
                crashes += 1
                yield RunLost(
                    run_id=name,
                    at=self._now,
                    attempt=attempt,
                    crash_count=crashes,
                    executor_id=executor,
                    dead=crashes > 2,
                )
                if crashes > 2:
                    return
                yield RunSucceeded(**{**outcome, "executor_id": "executor-9"}, at=self._now)
                return
            elif fate < 0.9:
                yield RunCancelRequested(run_id=name, at=self._now, actor="bob")
                yield RunCancelled(
                    run_id=name, at=self._now, attempt=attempt, executor_id=executor, started=begun
                )
                return
            else:
                end = RunTimedOut if draw() < 0.5 else RunFailed
                yield end(**outcome, at=self._now, reason="no attempts left", error_message="boom")
                if draw() < 0.5:
                    return
                yield RunRetryRequested(
                    run_id=name, at=self._now, version=1, scheduled=scheduled, attempt=attempt, actor="bob"
                )
