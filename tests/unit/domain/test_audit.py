"""Faults planted in a copied log: the auditor names each, and is silent about the original."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from waterclock.core.domain import ids
from waterclock.core.domain.explain.audit import Auditor
from waterclock.core.domain.explain.audit_report import AuditReport
from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.proto.events import (
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunCancelled,
    RunEvent,
    RunFailed,
    RunQueued,
    RunSkipped,
    RunsMissed,
    RunStarted,
    RunSucceeded,
    RunWaiting,
    ScheduleEnded,
)
from waterclock.proto.spec import JobSpec, Schedule, Shell

NOON = 1_790_000_040_000_000
"""A whole minute."""
Log = list[RunEvent]


def minutely(**schedule: Any) -> JobSpec:
    cron = Schedule(schedule_type="CRON", cron_expression=("* * * * *",))
    return JobSpec(
        name="clock", task=Shell(command="true"), schedule=msgspec.structs.replace(cron, **schedule)
    )


def definitions() -> list[tuple[int, JobEvent]]:
    """A minutely job, paused from the 6th minute to the 8th; one with three fires; one for now."""
    spec, limited = minutely(), minutely(max_fires=3)
    now = JobSpec(name="now", task=Shell(command="true"), schedule=Schedule(schedule_type="IMMEDIATE"))
    born: Any = {"created_at": NOON}
    return [
        (1, JobCreated(job_id="clock", spec=spec, at=NOON, **born)),
        (2, JobCreated(job_id="thrice", spec=limited, at=NOON, **born)),
        (3, JobCreated(job_id="now", spec=now, at=NOON + 7, **born)),
        (4, JobPaused(job_id="clock", spec=spec, at=fire(6) - SECOND, **born)),
        (5, JobResumed(job_id="clock", spec=spec, at=fire(8) - SECOND, **born)),
        (6, JobUpdated(job_id="clock", spec=minutely(), at=fire(9) + SECOND, **born)),
    ]


def fire(minute: int) -> int:
    return NOON + minute * MINUTE


def queued(job_id: str, scheduled: int, *, version: int = 1, **fields: Any) -> RunQueued:
    run_id = ids.run_id(job_id, scheduled)
    return RunQueued(
        run_id=run_id, at=scheduled, version=version, scheduled=scheduled, due=scheduled, **fields
    )


def ended(job_id: str, scheduled: int, attempt: int = 1) -> RunSucceeded:
    at = scheduled + SECOND
    run_id = ids.run_id(job_id, scheduled)
    return RunSucceeded(run_id=run_id, at=at, attempt=attempt, executor_id="e", started=at)


def history() -> Log:
    """What a scheduler and an executor wrote in ten minutes: all that can become of a fire."""
    clock = [ids.run_id("clock", fire(minute)) for minute in range(11)]
    missed = RunsMissed(
        run_id=clock[3], at=fire(5), version=1, scheduled=fire(3), until=fire(4), count=2, reason="down"
    )
    skipped = RunSkipped(
        run_id=clock[2], at=fire(2), version=1, scheduled=fire(2), due=fire(2), reason="overlap"
    )
    waiting = RunWaiting(
        run_id=clock[5], at=fire(5), version=1, scheduled=fire(5), due=fire(5), reason="overlap"
    )
    failed = RunFailed(
        run_id=clock[8],
        at=fire(8) + 5,
        attempt=1,
        executor_id="e",
        started=fire(8),
        reason="exit 1",
        retry_at=fire(8) + 9,
    )
    log: Log = [
        queued("now", NOON + 7, version=3),
        ended("now", NOON + 7),
        queued("clock", fire(1)),
        RunStarted(run_id=clock[1], at=fire(1), attempt=1, executor_id="e"),
        skipped,
        ended("clock", fire(1)),
        missed,
        waiting,
        RunCancelled(run_id=clock[5], at=fire(5) + SECOND),
        queued("clock", fire(8), version=5),
        failed,
        queued("clock", fire(8), version=5, attempt=2, again=True),
        ended("clock", fire(8), 2),
        queued("clock", fire(9), version=5),
        ended("clock", fire(9)),
        queued("clock", fire(10), version=6),
        ended("clock", fire(10)),
    ]
    for minute in (1, 2, 3):
        log += [queued("thrice", fire(minute), version=2, fire=minute), ended("thrice", fire(minute))]
    log.append(ScheduleEnded(run_id="thrice", at=fire(3), version=2, reason="max_fires of 3 reached"))
    return log


def audit(
    log: Log, *, start: int = 0, end: int = fire(11), decided: int = fire(11), settled: bool = True
) -> AuditReport:
    auditor = Auditor(start, end)
    for version, event in definitions():
        auditor.job_event(version, event)
    for run_event in log:
        auditor.run_event(run_event)
    return auditor.report(decided=decided, settled=settled)


def is_about(job_id: str, minute: int, *kinds: type) -> Callable[[RunEvent], bool]:
    run_id = ids.run_id(job_id, fire(minute))
    return lambda event: event.run_id == run_id and (not kinds or isinstance(event, kinds))


def without(log: Log, matches: Callable[[RunEvent], bool]) -> Log:
    left = [event for event in log if not matches(event)]
    assert len(left) < len(log)
    return left


def test_an_untouched_log_is_clean() -> None:
    report = audit(history())
    assert report.findings == []
    assert report.accounted == {"ran": 8, "skipped": 1, "missed": 2, "cancelled": 1}
    assert (report.jobs, report.expected, report.pending, report.under_way) == (3, 12, 0, 0)


def test_what_waits_since_its_definition_was_read_is_pending() -> None:
    without_two = without(history(), is_about("thrice", 3))
    auditor = Auditor(0, fire(11))
    for version, event in definitions():
        auditor.job_event(version, event)
    for run_event in without_two:
        auditor.run_event(run_event)
    [lost] = auditor.report(decided=fire(11), settled_jobs=2).findings
    assert (lost.fault, lost.job_id, lost.scheduled) == ("unaccounted", "thrice", fire(3))
    waits = auditor.report(decided=fire(11), settled_jobs=1)
    assert (waits.findings, waits.pending) == ([], 1)


FAULTS: dict[str, tuple[Callable[[Log], Log], list[tuple[str, str, int]]]] = {
    "a frame is gone: the decision and its outcome": (
        lambda log: without(log, is_about("clock", 9)),
        [("unaccounted", "clock", 9)],
    ),
    "the decision alone is gone": (
        lambda log: without(log, is_about("clock", 9, RunQueued)),
        [("unaccounted", "clock", 9), ("orphaned", "clock", 9)],
    ),
    "the outcome alone is gone": (
        lambda log: without(log, is_about("clock", 10, RunSucceeded)),
        [("unfinished", "clock", 10)],
    ),
    "a decision stands twice": (
        lambda log: [*log, queued("clock", fire(9), version=5)],
        [("decided_twice", "clock", 9)],
    ),
    "a fire was skipped and run": (
        lambda log: [*log, queued("clock", fire(2))],
        [("decided_twice", "clock", 2)],
    ),
    "a run between the fires": (
        lambda log: [
            *log,
            queued("clock", fire(9) + 30 * SECOND, version=6),
            ended("clock", fire(9) + 30 * SECOND),
        ],
        [("invented", "clock", 9)],
    ),
    "a run while the job was paused": (
        lambda log: [*log, queued("clock", fire(7)), ended("clock", fire(7))],
        [("invented", "clock", 7)],
    ),
    "a fire beyond the limit": (
        lambda log: [*log, queued("thrice", fire(4), version=2, fire=4), ended("thrice", fire(4))],
        [("invented", "thrice", 4)],
    ),
    "a run of a job nobody defined": (
        lambda log: [*log, ended("ghost", fire(4))],
        [("orphaned", "ghost", 4)],
    ),
    "missed fires are not spoken of": (
        lambda log: without(log, is_about("clock", 3, RunsMissed)),
        [("unaccounted", "clock", 3), ("unaccounted", "clock", 4)],
    ),
    "a skip is not spoken of": (
        lambda log: without(log, is_about("clock", 2, RunSkipped)),
        [("unaccounted", "clock", 2)],
    ),
    "an immediate job never ran": (
        lambda log: [event for event in log if not event.run_id.startswith("now@")],
        [("unaccounted", "now", 0)],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    plant, expected = FAULTS[name]
    found = audit(plant(history())).findings
    seen = [(item.fault, item.job_id, ((item.scheduled or 0) - NOON) // MINUTE) for item in found]
    assert sorted(seen) == sorted(expected)


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "the outcome alone is gone"])
def test_a_fault_outside_the_range_is_not_judged(name: str) -> None:
    plant, _ = FAULTS[name]
    assert audit(plant(history()), start=fire(10)).findings == []


def test_the_limit_counts_fires_before_the_range() -> None:
    report = audit(history(), start=fire(3))
    assert report.clean
    assert report.expected == 7


def test_a_range_keeps_nothing_of_other_times() -> None:
    auditor = Auditor(fire(9), fire(10))
    for version, event in definitions():
        auditor.job_event(version, event)
    for run_event in history():
        auditor.run_event(run_event)
    kept = [run_id for run_id in auditor._runs if not run_id.startswith("thrice")]
    assert kept == [ids.run_id("clock", fire(9))]
    assert auditor.counts_from() == NOON


def test_what_no_owner_has_come_to_is_pending() -> None:
    log = [event for event in history() if event.at < fire(9)]
    report = audit(log, decided=fire(9) - 1, settled=False)
    assert report.clean
    assert report.pending == 2


def test_reports_of_partitions_add_up() -> None:
    whole, part = audit(history()), audit(without(history(), is_about("clock", 9)))
    whole.add(part)
    assert (whole.jobs, whole.expected, len(whole.findings)) == (6, 24, 1)
    assert whole.accounted == {"ran": 15, "skipped": 2, "missed": 4, "cancelled": 2}
