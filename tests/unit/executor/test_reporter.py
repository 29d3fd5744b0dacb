"""How often progress is written to the log."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from executor_rig.builders import NOON, attempt
from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.messages import Delivery
from waterclock.executor.attempt.reporter import ProgressReports
from waterclock.executor.in_flight import InFlight, Receipt, RunningAttempt
from waterclock.proto.events import RunReported
from waterclock.proto.heartbeats import Progress

NOBODY = Delivery(subject="", data=b"", reply="", sequence=1, delivered=1, pending=0, timestamp_ns=0)


class ProgressLog:
    def __init__(self) -> None:
        self.events: list[RunReported] = []
        self.in_flight = InFlight()
        self.reports = ProgressReports(
            self.in_flight, lambda _, event: self.events.append(event), lambda _: 3
        )

    def notes_at(self, seconds: float) -> list[str]:
        self.events.clear()
        self.reports.report(NOON + round(seconds * SECOND))
        return [event.note for event in self.events]


@contextmanager
def running(log: ProgressLog, run_id: str = "job@now-1") -> Iterator[RunningAttempt]:
    done = attempt(run={"run_id": run_id})
    one = RunningAttempt(done.item, (run_id, 0), Receipt(NOBODY), 1)
    one.attempt = done
    one.task = asyncio.get_running_loop().create_task(asyncio.sleep(0))
    one.receipt.running = [one]
    log.in_flight.add(one.receipt)
    yield one
    one.task.cancel()


async def test_only_the_last_progress_is_written_and_only_if_it_changed() -> None:
    log = ProgressLog()
    with running(log) as one:
        assert log.notes_at(5) == []
        for n in range(1000):
            one.progress = Progress(done=n / 1000, note=f"{n}")
        assert log.notes_at(5) == ["999"]
        assert (log.events[0].run_id, log.events[0].attempt, log.events[0].done) == ("job@now-1", 1, 0.999)
        assert log.notes_at(7) == []
        one.progress = Progress(done=1.0, note="all")
        assert log.notes_at(9) == ["all"]


async def test_nothing_is_written_of_a_young_attempt_or_of_one_that_has_ended() -> None:
    log = ProgressLog()
    with running(log) as one:
        one.progress = Progress(done=0.5)
        assert log.notes_at(0.9) == []
        assert one.task is not None
        await one.task
        assert log.notes_at(5) == []


async def test_many_at_once_take_turns() -> None:
    log = ProgressLog()
    with ExitStack() as all_of_them:
        for n in range(101):
            one = all_of_them.enter_context(running(log, f"job@now-{n}"))
            one.progress = Progress(done=0.1, note="b" if n else "a")
        seen = log.notes_at(2)
        assert len(seen) == 100
        assert sorted(seen + log.notes_at(4)) == ["a"] + ["b"] * 100
