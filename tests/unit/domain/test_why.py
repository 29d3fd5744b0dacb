"""Why a run is as it is, and why a moment had none: each answer from the events that make it true."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from waterclock.core.domain import ids
from waterclock.core.domain.explain.explanation import Destination, Explanation, JobHistory, Recorded
from waterclock.core.domain.explain.why_moment import explain_moment
from waterclock.core.domain.explain.why_run import explain_run
from waterclock.core.domain.instants import SECOND, instant_of
from waterclock.proto.events import (
    JobCancelled,
    JobCreated,
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
    RunSkipped,
    RunsMissed,
    RunSnoozed,
    RunStarted,
    RunSucceeded,
    RunWaiting,
    ScheduleEnded,
    SkipRequested,
)
from waterclock.proto.spec import JobSpec, Schedule, Shell

DAY = datetime(2026, 11, 16, tzinfo=UTC)
THREE = instant_of(DAY.replace(hour=3))
RUN = ids.run_id("nightly", THREE)
NOW = THREE + 3600 * SECOND
BORN = instant_of(datetime(2026, 1, 1, tzinfo=UTC))


def spec(**schedule: Any) -> JobSpec:
    fields = {"schedule_type": "CRON", "cron_expression": ("0 3 * * *",), **schedule}
    return JobSpec(
        name="nightly", task=Shell(command="true"), schedule=Schedule(**fields), max_retries=2, overlap="skip"
    )


def defined(at: int = BORN, **schedule: Any) -> JobHistory:
    return [(7, JobCreated(job_id="nightly", spec=spec(**schedule), at=at, created_at=at, actor="ada"))]


def log(*events: RunEvent, writer: str = "scheduler-a/12") -> list[Recorded]:
    return [Recorded(sequence=100 + n, writer=writer, event=event) for n, event in enumerate(events)]


def queued(after: float = 0.002, attempt: int = 1, **fields: Any) -> RunQueued:
    given = {"run_id": RUN, "version": 7, "scheduled": THREE, "due": THREE, "again": attempt > 1, **fields}
    return RunQueued(at=later(after), attempt=attempt, **given)


def later(seconds: float) -> int:
    return THREE + round(seconds * SECOND)


def outcome(kind: type, started: float, at: float, attempt: int = 1, **fields: Any) -> Any:
    return kind(
        run_id=RUN,
        at=later(at),
        attempt=attempt,
        executor_id=fields.pop("executor_id", "executor-1"),
        started=later(started),
        **fields,
    )


def spent(found: Explanation) -> list[tuple[str, float]]:
    return [(delay.kind, (delay.end - delay.start) / SECOND) for delay in found.delays]


# --- runs ------------------------------------------------------------------------------------------------


def test_a_run_that_went_well_names_definition_owner_executor_and_where_the_time_went() -> None:
    found = explain_run(RUN, log(queued(1), outcome(RunSucceeded, 2, 10)), defined(), NOW)
    assert found.reason == "ran"
    assert found.answer.startswith("it is SUCCESS: attempt 1 succeeded on executor-1 after 8.000 s")
    assert found.definition is not None
    assert (found.definition.version, found.definition.actor) == (7, "ada")
    assert "overlap skip" in found.definition.policy
    assert "2 retries" in found.definition.policy
    assert (found.decided_by, found.executors) == ("scheduler-a", ("executor-1",))
    assert spent(found) == [("scheduler", 1), ("queue", 1), ("execution", 8)]
    assert [delay.share for delay in found.delays] == [0.1, 0.1, 0.8]
    assert [step.sequence for step in found.steps] == [None, 100, 101]
    assert "ada defined the job (version 7): cron 0 3 * * * in UTC" in found.steps[0].what


def test_a_part_waits_for_those_before_it_and_is_not_moved_by_jitter() -> None:
    found = explain_run(RUN, log(queued(30, due=later(29), trigger="workflow")), defined(), later(40))
    assert spent(found) == [("waiting", 29), ("scheduler", 1), ("queue", 10)]
    assert found.delays[0].what == "other parts came before it"


def test_jitter_waiting_and_retries_each_have_their_share() -> None:
    found = explain_run(
        RUN,
        log(
            RunWaiting(
                run_id=RUN,
                at=later(10),
                version=7,
                scheduled=THREE,
                due=later(5),
                reason="overlap: waits for x",
            ),
            queued(30, due=later(5)),
            RunStarted(run_id=RUN, at=later(31), attempt=1, executor_id="executor-1"),
            outcome(RunFailed, 31, 41, reason="exit 1", retry_at=later(43)),
            queued(44, attempt=2),
            outcome(RunSucceeded, 45, 50, attempt=2, executor_id="executor-2"),
        ),
        defined(),
        NOW,
    )
    assert spent(found) == [
        ("jitter", 5),
        ("scheduler", 5),
        ("waiting", 20),
        ("queue", 1),
        ("execution", 10),
        ("backoff", 2),
        ("scheduler", 1),
        ("queue", 1),
        ("execution", 5),
    ]
    assert sum(delay.share for delay in found.delays) == pytest.approx(1)
    assert "40% of its time (20 s): overlap: waits for x" in found.answer
    assert found.executors == ("executor-1", "executor-2")
    assert [delay.attempt for delay in found.delays][-1] == 2


def test_a_dead_executor_a_snooze_and_a_redrive_are_told_apart() -> None:
    found = explain_run(
        RUN,
        log(
            queued(0),
            RunStarted(run_id=RUN, at=later(1), attempt=1, executor_id="executor-1"),
            RunLost(run_id=RUN, at=later(7), attempt=1, crash_count=1, executor_id="executor-1"),
            outcome(RunSnoozed, 8, 9, executor_id="executor-1", until=later(20)),
            queued(20, attempt=1, again=True),
            outcome(RunFailed, 21, 22, reason="exit 1", retry_at=None),
            RunRetryRequested(
                run_id=RUN, at=later(100), version=7, scheduled=THREE, attempt=1, actor="grace"
            ),
            queued(101, attempt=2),
        ),
        defined(),
        later(103),
    )
    assert spent(found) == [
        ("queue", 1),
        ("lost", 6),
        ("queue", 1),
        ("execution", 1),
        ("snooze", 11),
        ("queue", 1),
        ("execution", 1),
        ("ended", 78),
        ("scheduler", 1),
        ("queue", 2),
    ]
    assert sum(delay.share for delay in found.delays) == pytest.approx(1)
    assert found.reason == "under_way"
    assert any("grace asked for another attempt" in step.what for step in found.steps)


def test_a_dead_letter_took_no_time_after_its_end() -> None:
    found = explain_run(RUN, log(queued(0), outcome(RunFailed, 1, 2, reason="exit 1")), defined(), NOW)
    assert spent(found) == [("queue", 1), ("execution", 1)]
    assert found.answer.startswith(
        "it is FAILED: attempt 1 failed after 1.000 s: exit 1; no attempts are left"
    )


def test_a_run_asked_for_counts_from_the_request() -> None:
    run_id = ids.requested_run_id("nightly", "c1")
    events = log(
        RunRequested(run_id=run_id, at=THREE, version=7, actor="ada"),
        queued(2, run_id=run_id, trigger="now"),
    )
    found = explain_run(run_id, events, defined(), later(3))
    assert spent(found) == [("scheduler", 2), ("queue", 1)]
    assert found.definition is not None


def test_a_run_the_log_does_not_know() -> None:
    found = explain_run(RUN, [], defined(), NOW)
    assert (found.reason, found.answer, found.steps) == ("unknown", "nothing is known of it", ())


def test_a_late_word_of_a_replaced_executor_does_not_change_the_answer() -> None:
    events = log(
        queued(0),
        outcome(RunFailed, 1, 2, reason="exit 1", retry_at=later(3)),
        queued(3, attempt=2),
        outcome(RunSucceeded, 1, 4, attempt=1),
    )
    assert explain_run(RUN, events, defined(), NOW).answer.startswith("it is QUEUED")


# --- moments ---------------------------------------------------------------------------------------------


def ask(
    job: JobHistory,
    *events: RunEvent,
    at: int = THREE,
    now: int = NOW,
    decided: int | None = NOW,
    records: list[Recorded] | None = None,
    behind_seconds: float = 0.0,
    waiting: int = 0,
    settled_jobs: int | None = None,
) -> Explanation:
    found = records or log(*events)
    return explain_moment("nightly", job, found, at, now, decided, behind_seconds, waiting, settled_jobs)


def changed(job: JobHistory, kind: type, at: int, **fields: Any) -> JobHistory:
    last = job[-1][1]
    event = kind(
        job_id="nightly", spec=fields.pop("spec", last.spec), at=at, created_at=BORN, actor="grace", **fields
    )
    return [*job, (job[-1][0] + 1, event)]


def test_a_moment_with_a_run_is_that_run() -> None:
    found = ask(defined(), queued(), outcome(RunSucceeded, 1, 2))
    assert (found.reason, found.run_id) == ("ran", RUN)
    assert found.subject == "nightly at 2026-11-16T03:00:00Z"


def test_overlap_names_the_run_in_the_way() -> None:
    other = "nightly@20261115T030000Z"
    skipped = RunSkipped(
        run_id=RUN,
        at=THREE,
        version=7,
        scheduled=THREE,
        due=THREE,
        reason=f"overlap: {other} has not ended",
        because_of=other,
    )
    found = ask(defined(), skipped)
    assert found.reason == "skipped"
    assert other in found.answer


def test_missed_tells_since_when_nobody_decided_and_who_took_over() -> None:
    missed = RunsMissed(
        run_id=RUN,
        at=later(1800),
        version=7,
        scheduled=THREE - 86400 * SECOND,
        until=THREE,
        count=2,
        reason="catch-up none: nobody decided it in time",
    )
    record = Recorded(
        sequence=9,
        writer="scheduler-b/44",
        event=missed,
        owner_before="scheduler-a/12",
        decided_before=THREE - 90000 * SECOND,
    )
    found = ask(defined(), records=[record])
    assert found.reason == "missed"
    assert "from 2026-11-15T02:00:00Z to 2026-11-16T03:30:00Z" in found.answer
    assert "when scheduler-b took over from scheduler-a" in found.answer


def test_paused_says_by_whom_since_when_and_whether_it_was_due() -> None:
    job = changed(defined(), JobPaused, later(-600), note="maintenance")
    edited = changed(job, JobUpdated, later(-300), paused_at=later(-600))
    for history in (job, edited):
        found = ask(history)
        assert found.reason == "paused"
        assert found.answer == (
            "it would have been due, but grace had paused the job at 2026-11-16T02:50:00Z: maintenance"
        )
    assert ask(job, at=later(5)).answer.startswith("it was not due then, and grace had paused")
    resumed = changed(job, JobResumed, later(-60))
    assert ask(resumed).reason == "undecided"


def test_before_its_creation_and_after_its_cancellation() -> None:
    assert ask(defined(at=later(60))).answer == "it did not exist yet: it was created at 2026-11-16T03:01:00Z"
    cancelled = changed(defined(), JobCancelled, later(-60), note="obsolete")
    found = ask(cancelled)
    assert (found.reason, found.answer) == (
        "job_cancelled",
        "grace cancelled the job at 2026-11-16T02:59:00Z: obsolete",
    )


def test_not_due_names_the_fires_around() -> None:
    found = ask(defined(), at=later(1800))
    assert found.reason == "not_due"
    assert (found.previous, found.following) == (THREE, THREE + 86400 * SECOND)
    assert "the fire before is at 2026-11-16T03:00:00Z; the next at 2026-11-17T03:00:00Z" in found.answer


def test_due_but_nobody_has_come_that_far() -> None:
    found = ask(defined(), decided=later(-30))
    assert found.reason == "undecided"
    assert "decided up to 2026-11-16T02:59:30Z" in found.answer


def test_due_and_not_decided_because_the_system_is_behind() -> None:
    found = ask(defined(), now=later(8), decided=later(-1), behind_seconds=9.0)
    assert (found.reason, found.answer) == (
        "undecided",
        "due 2026-11-16T03:00:00Z, not decided yet: the system is 9 s behind",
    )
    long_ago = ask(defined(), now=later(3600), behind_seconds=9.0)
    assert "9 s behind" not in long_ago.answer
    at_once = defined(THREE, schedule_type="IMMEDIATE", cron_expression=())
    assert "9 s behind" in ask(at_once, now=later(8), behind_seconds=9.0).answer
    assert ask(at_once, now=later(3600), behind_seconds=9.0).reason == "no_schedule"


def test_due_and_not_decided_because_it_waits_for_a_slot() -> None:
    at_once = defined(THREE, schedule_type="IMMEDIATE", cron_expression=())
    for job in (defined(), defined(max_fires=3), at_once):
        found = ask(job, now=later(3600), decided=later(-1), waiting=7_000)
        assert (found.reason, found.answer) == (
            "undecided",
            "due 2026-11-16T03:00:00Z, not decided yet: it waits for a slot; 7,000 are due in its partition",
        )
    assert ask(at_once, decided=later(10), waiting=7_000).reason == "no_schedule"
    assert ask(at_once, decided=later(10), waiting=7_000, settled_jobs=6).reason == "undecided"
    assert ask(at_once, decided=later(10), settled_jobs=6).reason == "undecided"
    assert ask(at_once, decided=later(10), waiting=7_000, settled_jobs=7).reason == "no_schedule"


@pytest.mark.parametrize(
    ("behind_ms", "slowed", "words"),
    [
        (0, False, "it waited 14 s: all slots for its work were taken"),
        (9_000, False, "it waited 14 s: the system was 9 s behind"),
        (12_000, True, "it waited 14 s: the system was 12 s behind, callers were slowed down"),
    ],
)
def test_a_run_that_was_queued_late_says_that_the_system_was_behind(
    behind_ms: int, slowed: bool, words: str
) -> None:
    queued = RunQueued(
        run_id=RUN,
        at=later(14),
        version=7,
        scheduled=THREE,
        due=THREE,
        behind_ms=behind_ms,
        slowed=slowed,
    )
    found = explain_run(RUN, log(queued), defined(), later(15))
    assert found.answer.endswith(words)
    waited = next(delay for delay in found.delays if delay.kind == "scheduler")
    assert waited.what in words
    on_time = explain_run(
        RUN, log(RunQueued(run_id=RUN, at=THREE, version=7, scheduled=THREE, due=THREE)), defined(), later(1)
    )
    assert "behind" not in on_time.answer


def test_due_in_the_future_and_a_wish_to_leave_it_out() -> None:
    wish = SkipRequested(run_id=RUN, at=later(-60), scheduled=THREE, actor="ada", note="holiday")
    found = ask(defined(), wish, now=later(-30))
    assert found.reason == "future"
    assert "ada asked to leave out 2026-11-16T03:00:00Z: holiday" in found.answer


def test_the_limit_on_fires_was_reached() -> None:
    ended = ScheduleEnded(run_id="nightly", at=later(-86400), version=7, reason="max_fires of 3 reached")
    assert ask(defined(max_fires=3), ended).answer == "the schedule ended: max_fires of 3 reached"
    assert ask(defined(max_fires=3)).answer == "its max_fires of 3 were reached"


def test_excluded_and_outside_its_bounds() -> None:
    assert ask(defined(exclude=("2026-11-16",))).reason == "excluded"
    assert ask(defined(start_at=datetime(2026, 12, 1, tzinfo=UTC))).answer == (
        "its schedule starts only at 2026-12-01T00:00:00Z"
    )
    assert ask(defined(end_at=datetime(2026, 11, 1, tzinfo=UTC))).answer == (
        "it would have been due, but its schedule ended at 2026-11-01T00:00:00Z"
    )


@pytest.mark.parametrize(
    ("schedule", "at", "reason", "says"),
    [
        ({"dst_gap": "skip"}, "2026-03-29T01:30:00Z", "dst_gap", "did not exist that day in Europe/Paris"),
        ({}, "2026-03-29T01:30:00Z", "dst_gap", "fired at the first instant after, 2026-03-29T01:00:00Z"),
        ({}, "2026-10-25T01:30:00Z", "dst_overlap", "it fired the first time, at 2026-10-25T00:30:00Z"),
    ],
)
def test_the_clock_was_turned(schedule: dict[str, Any], at: str, reason: str, says: str) -> None:
    paris = defined(cron_expression=("30 2 * * *",), timezone="Europe/Paris", **schedule)
    found = ask(paris, at=instant_of(datetime.fromisoformat(at)))
    assert (found.reason, says in found.answer) == (reason, True), found.answer


@pytest.mark.parametrize("kind", ["IMMEDIATE", "DEPENDENT"])
def test_jobs_without_times_of_their_own(kind: str) -> None:
    job = defined(schedule_type=kind, cron_expression=())
    event = job[0][1]
    named = msgspec.structs.replace(
        event, spec=msgspec.structs.replace(event.spec, dependencies=("extract",))
    )
    found = ask([(7, named)])
    assert found.reason == "no_schedule"
    assert ("extract" in found.answer) == (kind == "DEPENDENT")


def test_a_cancelled_run_says_who_asked() -> None:
    found = ask(
        defined(),
        queued(),
        RunCancelRequested(run_id=RUN, at=later(1), actor="grace", reason="wrong data"),
        RunCancelled(run_id=RUN, at=later(2), reason="wrong data"),
    )
    assert found.reason == "cancelled"
    assert any("grace asked to stop it: wrong data" in step.what for step in found.steps)


def test_a_job_without_times_says_for_whom_it_waits_or_that_it_is_asked_for() -> None:
    after = JobSpec(
        name="nightly",
        task=Shell(command="true"),
        schedule=Schedule(schedule_type="DEPENDENT"),
        dependencies=("b", "c"),
    )
    waits = explain_moment(
        "nightly", [(7, JobCreated(job_id="nightly", spec=after, at=BORN, created_at=BORN))], [], NOW, NOW
    )
    assert (waits.reason, waits.waits_for_dependencies) == ("no_schedule", True)
    assert "runs when b, c have succeeded" in waits.answer
    alone = msgspec.structs.replace(after, dependencies=())
    asked = explain_moment(
        "nightly", [(7, JobCreated(job_id="nightly", spec=alone, at=BORN, created_at=BORN))], [], NOW, NOW
    )
    assert (asked.reason, asked.waits_for_dependencies) == ("no_schedule", False)
    assert "depend" not in asked.answer
    assert "when somebody asks for it" in asked.answer
    run = queued(trigger="now")
    found = explain_run(
        RUN, log(run), [(7, JobCreated(job_id="n", spec=alone, at=BORN, created_at=BORN))], NOW
    )
    assert found.definition is not None
    assert "depend" not in found.definition.policy


def test_what_waits_says_where_and_for_whom() -> None:
    found = explain_run(RUN, log(queued(queue="gpu", handler="resize")), defined(), NOW)
    assert found.waits_in == Destination(queue="gpu", handler="resize", tier="light")
    taken = log(queued(), RunStarted(run_id=RUN, at=later(1), attempt=1, executor_id="x"))
    assert explain_run(RUN, taken, defined(), NOW).waits_in is None
    waits = RunWaiting(
        run_id=RUN,
        at=THREE,
        version=7,
        scheduled=THREE,
        due=THREE,
        reason="waits for b",
        waits_for="dependency",
    )
    assert explain_run(RUN, log(waits), defined(), NOW).waits_for_dependencies
