"""What is written of attempts: starts of those that last, the outcomes of a parcel together, and each counted once."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as some

from executor_rig.builders import NOON, work_item
from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.errors import LogError, LogUnavailable
from waterclock.core.jetstream.frame_writer import FrameWriter, OnResult
from waterclock.core.jetstream.messages import Delivery
from waterclock.core.runtime.clock import now_us
from waterclock.executor.attempt.reporter import Reporter
from waterclock.executor.attempt_record import Attempt, FinalEvent
from waterclock.executor.in_flight import InFlight, Receipt, RunningAttempt, work_key
from waterclock.executor.metrics import ExecutorMetrics
from waterclock.proto.events import RunEvent, RunFailed, RunReturned, RunSucceeded

NOBODY = Delivery(subject="", data=b"", reply="", sequence=1, delivered=1, pending=0, timestamp_ns=0)


def metrics() -> ExecutorMetrics:
    return ExecutorMetrics(slots=lambda: (1, 0), in_flight=lambda: 0)


class Frames:
    """Keeps what is written, and answers when it is told to."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.frames: list[list[str]] = []
        self.waiting: list[OnResult] = []

    def append(self, _partition: int, event: RunEvent) -> None:
        self.starts.append(event.run_id)

    def submit_all(self, _partition: int, events: Sequence[RunEvent], on_result: OnResult) -> None:
        self.frames.append([event.run_id for event in events])
        self.waiting.append(on_result)

    def answer(self, result: int | LogError = 1) -> None:
        waiting, self.waiting = self.waiting, []
        for on_result in waiting:
            on_result(result)


class Rig:
    def __init__(self, count: int) -> None:
        self.frames = Frames()
        self.in_flight = InFlight()
        self.reporter = Reporter(
            cast(FrameWriter, self.frames), self.in_flight, metrics(), executor_id="executor-1", partitions=4
        )
        self.acked: list[int] = []
        self.receipt = Receipt(NOBODY, in_parcel=True)
        self.runnings = [self._attempt(f"parcel~{n}@now-1") for n in range(count)]
        self.receipt.attempts = count
        self.receipt.running = self.runnings
        self.in_flight.add(self.receipt)

    def _attempt(self, run_id: str) -> RunningAttempt:
        item = work_item(run={"run_id": run_id})
        return RunningAttempt(item, work_key(item), self.receipt, 1)

    def start(self, *numbers: int, at: int = 1) -> None:
        """Long ago, if nothing else is said."""
        for running in [self.runnings[n] for n in numbers]:
            running.attempt = Attempt(item=running.item, executor_id="executor-1", started=at)
            self.reporter.report_start(running)

    def end(self, *numbers: int) -> None:
        for running in [self.runnings[n] for n in numbers]:
            event = RunSucceeded(
                run_id=running.item.run_id, at=NOON, attempt=1, executor_id="executor-1", started=NOON
            )
            self.reporter.report_outcome(running, event, lambda _, count: self.acked.append(count))

    @property
    def known(self) -> list[bool]:
        return [self.reporter.has_reported(running.key) for running in self.runnings]


async def test_starts_of_those_that_last_are_written_once() -> None:
    rig = Rig(4)
    rig.start(0, 1)
    rig.start(2, at=now_us() + 60 * SECOND)
    rig.end(1)
    rig.reporter._report_starts()
    assert rig.frames.starts == ["parcel~0@now-1"]
    rig.start(3)  # it had to wait for a slot
    rig.reporter._report_starts()
    assert rig.frames.starts == ["parcel~0@now-1", "parcel~3@now-1"]
    rig.end(0, 2, 3)
    rig.reporter._report_starts()
    assert len(rig.frames.starts) == 2
    assert rig.reporter._starts_timer is None, "there is nothing more to look for"


async def test_when_the_only_one_has_ended_nobody_looks_for_starts() -> None:
    rig = Rig(2)
    rig.start(0, 1)
    rig.end(0)
    assert rig.reporter._starts_timer is not None
    rig.end(1)
    assert rig.reporter._starts_timer is None
    rig.reporter._report_starts()
    assert rig.frames.starts == []


async def test_a_parcel_that_ends_at_once_is_one_frame_and_one_ack() -> None:
    rig = Rig(3)
    rig.end(0, 1, 2)
    assert [len(frame) for frame in rig.frames.frames] == [3]
    assert list(rig.in_flight) == rig.receipt.running == []
    assert len(rig.in_flight) == 3, "they are held until the log has them"
    assert rig.known == [False] * 3
    rig.frames.answer()
    assert (rig.acked, len(rig.in_flight), rig.known) == ([3], 0, [True] * 3)


async def test_what_ends_later_is_reported_when_all_of_the_rest_has_ended() -> None:
    rig = Rig(5)
    rig.end(0, 1)
    rig.reporter.report_rest()
    assert [running.key for running in rig.in_flight] == [running.key for running in rig.runnings[2:]]
    rig.in_flight.drop(rig.runnings[4])
    rig.end(2)
    assert len(rig.frames.frames) == 1
    rig.end(3)
    assert [len(frame) for frame in rig.frames.frames] == [2, 2]
    rig.frames.answer()
    assert (rig.acked, len(rig.in_flight)) == ([2, 2], 0)


async def test_what_the_log_does_not_have_is_not_acked_and_not_held() -> None:
    rig = Rig(2)
    rig.end(0, 1)
    rig.frames.answer(LogUnavailable("away"))
    assert (rig.acked, len(rig.in_flight), rig.known) == ([], 0, [False, False])


async def test_the_last_outcomes_are_remembered(monkeypatch: Any) -> None:
    monkeypatch.setattr("waterclock.executor.attempt.reporter._REMEMBERED_OUTCOMES", 2)
    rig = Rig(7)
    for n in range(7):
        rig.end(n)
        rig.reporter.report_rest()
        rig.frames.answer()
    assert rig.known[-2:] == [True, True]
    assert sum(rig.known) <= 4


MOMENTS = some.integers(min_value=NOON - 100, max_value=NOON + 5_000_000)


@some.composite
def ended_attempts(draw: some.DrawFn) -> RunningAttempt:
    times = {name: draw(MOMENTS) for name in ("scheduled", "due", "queued")}
    if draw(some.booleans()):
        times["scheduled"] = times["due"]
    item = work_item(run={**times, "attempt": draw(some.sampled_from([1, 1, 1, 2]))})
    running = RunningAttempt(item, work_key(item), Receipt(NOBODY), 1)
    succeeded = RunSucceeded(
        run_id=item.run_id, at=draw(MOMENTS), attempt=1, executor_id="executor-1", started=draw(MOMENTS)
    )
    fields = msgspec.structs.asdict(succeeded)
    others: list[FinalEvent] = [RunFailed(**fields, reason=""), RunReturned(**fields)]
    running.outcome = draw(some.sampled_from([succeeded, succeeded, *others]))
    return running


@given(some.lists(ended_attempts(), min_size=1, max_size=10), MOMENTS)
def test_many_are_counted_as_each_would_be(ended: list[RunningAttempt], pulled: int) -> None:
    together, one_by_one = metrics(), metrics()
    together.count_outcomes(ended, pulled)
    for running in ended:
        assert running.outcome is not None
        one_by_one.count_outcome(running.item, running.outcome, pulled)
    assert _samples(together) == _samples(one_by_one)


def _samples(counted: ExecutorMetrics) -> list[str]:
    return sorted(map(str, (sample for family in counted.collect() for sample in family.samples)))
