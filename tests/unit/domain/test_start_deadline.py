"""What an executor takes too late is missed, and that is seen by everybody who reads the log."""

from typing import Any

import pytest
from msgspec.structs import replace

from waterclock.core.domain import ids
from waterclock.core.domain.explain.audit import Auditor
from waterclock.core.domain.explain.explanation import Recorded
from waterclock.core.domain.explain.why_run import explain_run
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.run.deadlines import missed_in_queue
from waterclock.projector.alerts.alert import AlertState
from waterclock.projector.alerts.rules import AlertRules, Thresholds
from waterclock.proto.events import JobCreated, RunEvent, RunQueued, RunsMissed
from waterclock.proto.spec import JobSpec, Schedule, Shell
from waterclock.proto.work import WorkItem

NOON = 1_790_000_040_000_000
RUN = ids.run_id("nightly", NOON)
SPEC = JobSpec(
    name="nightly",
    task=Shell(command="true"),
    schedule=Schedule(schedule_type="CRON", cron_expression=("* * * * *",)),
    start_deadline_seconds=30,
)


def item(spec: JobSpec = SPEC, **fields: Any) -> WorkItem:
    given = {"scheduled": NOON, "due": NOON, "queued": NOON + 1, **fields}
    return WorkItem(run_id=RUN, job_id="nightly", version=7, spec=spec, **given)


def late() -> RunsMissed:
    event = missed_in_queue(item(), 0, NOON + 31 * SECOND, "an executor")
    assert event is not None
    return event


def test_it_is_missed_from_the_deadline_on_and_says_how_late_it_was() -> None:
    assert missed_in_queue(item(), 0, NOON + 30 * SECOND) is None
    event = late()
    assert (event.run_id, event.version, event.scheduled, event.until, event.count) == (RUN, 7, NOON, NOON, 1)
    assert event.reason == (
        "start deadline of 30 s passed in the queue: it was due 31.0 s before an executor had room"
    )


def test_jitter_moves_the_deadline_too() -> None:
    assert missed_in_queue(item(due=NOON + 5 * SECOND), 0, NOON + 34 * SECOND) is None


@pytest.mark.parametrize(
    ("work", "crash_count"),
    [
        (item(JobSpec(name="free", task=Shell(command="true"))), 0),
        (item(attempt=2), 0),
        (item(), 1),
        (item(trigger="backfill"), 0),
        (item(trigger="workflow"), 0),
        (item(trigger="fan_out"), 0),
    ],
    ids=["no deadline", "a retry", "its executor died", "a backfill", "a node", "a member"],
)
def test_what_has_started_before_or_has_no_deadline_of_its_own_is_not_missed(
    work: WorkItem, crash_count: int
) -> None:
    assert missed_in_queue(work, crash_count, NOON + 3600 * SECOND) is None


@pytest.mark.parametrize("redriven", [item(trigger="now"), item(attempt=4, first_attempt=4, trigger="now")])
def test_what_somebody_asked_for_has_a_deadline_from_then_on(redriven: WorkItem) -> None:
    assert missed_in_queue(redriven, 0, NOON + 31 * SECOND) is not None


def queued() -> RunQueued:
    return RunQueued(run_id=RUN, at=NOON + SECOND, version=7, scheduled=NOON, due=NOON)


def test_why_tells_of_the_queue() -> None:
    events: list[RunEvent] = [queued(), late()]
    records = [Recorded(sequence=n, writer="w", event=event) for n, event in enumerate(events)]
    job = [(7, JobCreated(job_id="nightly", spec=SPEC, at=1, created_at=1, actor="ada"))]
    found = explain_run(RUN, records, job, NOON + 60 * SECOND)
    assert found.reason == "missed"
    assert found.answer.startswith(
        "it is MISSED: the fire was missed: start deadline of 30 s passed in the queue"
    )
    assert "97% of its time (30 s): queued, until an executor took it" in found.answer


def test_why_does_not_tell_of_an_executor_where_there_was_none() -> None:
    events: list[RunEvent] = [queued(), replace(late(), executor_id="")]
    records = [Recorded(sequence=n, writer="w", event=event) for n, event in enumerate(events)]
    job = [(7, JobCreated(job_id="nightly", spec=SPEC, at=1, created_at=1, actor="ada"))]
    found = explain_run(RUN, records, job, NOON + 60 * SECOND)
    assert "97% of its time (30 s): queued, and no executor took it" in found.answer


def test_the_audit_counts_it_as_missed_and_finds_nothing_wrong() -> None:
    auditor = Auditor()
    auditor.job_event(7, JobCreated(job_id="nightly", spec=SPEC, at=NOON - 1, created_at=NOON - 1))
    auditor.run_event(queued())
    auditor.run_event(late())
    report = auditor.report(end=NOON + 1, decided=NOON + 60 * SECOND, settled=True)
    assert (report.findings, report.accounted) == ([], {"missed": 1})


def test_it_is_told_as_missed_and_no_longer_waits_for_an_executor() -> None:
    rules = AlertRules(AlertState(), Thresholds())
    rules.on_event(1, queued())
    assert [alert.rule for alert in rules.on_event(2, late())] == ["missed"]
    assert not rules.has_overdue(NOON + 3600 * SECOND)
