"""What the two streams together make of a job: its status, and when it fires next."""

import pytest
from msgspec.structs import replace

from projector_rig.builders import EVERY_MINUTE, T0, created, failed, queued, retry_requested, spec, succeeded
from projector_rig.tables import Tables
from waterclock.core.domain.instants import MINUTE, SECOND, datetime_of
from waterclock.core.domain.readmodel.rows import JobRow
from waterclock.proto.events import (
    JobCancelled,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunEvent,
    RunSkipped,
    RunsMissed,
    ScheduleEnded,
    SkipRequested,
)
from waterclock.proto.spec import JobSpec, Schedule

FUTURE = Schedule(schedule_type="FUTURE", schedule_time=datetime_of(T0 + MINUTE))
IMMEDIATE = Schedule()
AT_FOUR = Schedule(schedule_type="CRON", cron_expression=("0 4 * * *",), timezone="Europe/Paris")


def folded(jobs: list[JobEvent], runs: list[RunEvent]) -> JobRow:
    tables = Tables()
    tables.fold([(number, (event,)) for number, event in enumerate(jobs, 1)], [(100, tuple(runs))])
    (row,) = tables.jobs.values()
    return row


def updated(of: JobEvent, at: int, schedule: Schedule, paused_at: int | None = None) -> JobUpdated:
    return JobUpdated(
        job_id=of.job_id, spec=spec(schedule=schedule), at=at, created_at=of.created_at, paused_at=paused_at
    )


def ended(version: int) -> ScheduleEnded:
    return ScheduleEnded(run_id="job", at=T0 + MINUTE, version=version, reason="max_fires of 1 reached")


def test_an_immediate_job_is_completed_when_its_run_has_ended() -> None:
    q = queued()
    assert folded([created()], [q]).status == "SCHEDULED"
    assert folded([created()], [q, succeeded(q)]).status == "COMPLETED"
    assert folded([created()], [q, failed(q)]).status == "COMPLETED"
    assert folded([created()], [q, failed(q, retry_at=T0 + MINUTE)]).status == "SCHEDULED"


def test_a_run_that_somebody_asked_for_does_not_complete_a_job() -> None:
    q = queued(run_id="job@now-1", trigger="now")
    assert folded([created()], [q, succeeded(q)]).status == "SCHEDULED"


def test_a_future_job_fires_at_its_time_and_is_completed_with_its_run() -> None:
    job = created(schedule=FUTURE)
    q = queued(scheduled=T0 + MINUTE)
    assert folded([job], []).next_run_at == T0 + MINUTE
    fired = folded([job], [q])
    assert (fired.status, fired.next_run_at, fired.last_fire_at) == ("SCHEDULED", None, T0 + MINUTE)
    assert folded([job], [q, succeeded(q)]).status == "COMPLETED"


def test_a_future_job_whose_time_had_passed_still_fires() -> None:
    past = Schedule(schedule_type="FUTURE", schedule_time=datetime_of(T0 - MINUTE))
    assert folded([created(schedule=past)], []).next_run_at == T0 - MINUTE


def test_a_completed_one_shot_that_is_given_a_new_time_is_scheduled_again() -> None:
    job = created(schedule=FUTURE)
    q = queued(scheduled=T0 + MINUTE)
    later = Schedule(schedule_type="FUTURE", schedule_time=datetime_of(T0 + 9 * MINUTE))
    again = updated(job, T0 + 2 * MINUTE, later)
    row = folded([job, again], [q, succeeded(q)])
    assert (row.status, row.next_run_at) == ("SCHEDULED", T0 + 9 * MINUTE)
    second = queued(scheduled=T0 + 9 * MINUTE, version=2)
    assert folded([job, again], [q, succeeded(q), second, succeeded(second)]).status == "COMPLETED"


def test_a_completed_one_shot_stays_completed_when_only_a_label_changes() -> None:
    job = created(schedule=FUTURE)
    q = queued(scheduled=T0 + MINUTE)
    label = JobUpdated(
        job_id="job", spec=spec(schedule=FUTURE, labels={"a": "b"}), at=T0 + 2 * MINUTE, created_at=T0
    )
    assert folded([job, label], [q, succeeded(q)]).status == "COMPLETED"


@pytest.mark.parametrize("when", [IMMEDIATE, Schedule(schedule_type="FUTURE", schedule_time=datetime_of(T0))])
def test_a_completed_one_shot_that_is_told_to_run_at_once_is_scheduled_until_it_has(when: Schedule) -> None:
    job = created(schedule=FUTURE)
    q = queued(scheduled=T0 + MINUTE)
    at = T0 + 2 * MINUTE
    again = replace(updated(job, at, when), due_now=at)
    assert folded([job, again], [q, succeeded(q)]).status == "SCHEDULED"
    second = queued(scheduled=at, version=2)
    done = folded([job, again], [q, succeeded(q), second, succeeded(second)])
    assert (done.status, done.next_run_at) == ("COMPLETED", None)
    label = replace(updated(again, at + MINUTE, when), due_now=at)
    assert folded([job, again, label], [q, succeeded(q), second, succeeded(second)]).status == "COMPLETED"


def test_a_completed_one_shot_stays_completed_when_it_is_paused_and_resumed() -> None:
    job = created(schedule=FUTURE)
    q = queued(scheduled=T0 + MINUTE)
    paused = JobPaused(job_id="job", spec=job.spec, created_at=T0, at=T0 + 2 * MINUTE)
    resumed = JobResumed(job_id="job", spec=job.spec, created_at=T0, at=T0 + 3 * MINUTE)
    assert folded([job, paused, resumed], [q, succeeded(q)]).status == "COMPLETED"


def test_a_redrive_leaves_a_completed_job_completed() -> None:
    q = queued()
    assert folded([created()], [q, failed(q), retry_requested(q, at=T0 + MINUTE)]).status == "COMPLETED"


def test_a_recurring_job_moves_on_with_every_fire_that_was_decided() -> None:
    job = created(schedule=EVERY_MINUTE)
    assert folded([job], []).next_run_at == T0 + MINUTE
    assert folded([job], [queued(scheduled=T0 + MINUTE)]).next_run_at == T0 + 2 * MINUTE
    skipped = RunSkipped(
        run_id="job@x", at=T0, version=1, scheduled=T0 + 2 * MINUTE, due=T0, reason="overlap"
    )
    assert folded([job], [skipped]).next_run_at == T0 + 3 * MINUTE
    missed = RunsMissed(
        run_id="job@x", at=T0, version=1, scheduled=T0 + MINUTE, until=T0 + 5 * MINUTE, count=5, reason="away"
    )
    assert folded([job], [missed]).next_run_at == T0 + 6 * MINUTE


def test_a_run_now_does_not_shift_the_cadence() -> None:
    q = queued(run_id="job@now-1", trigger="now", scheduled=T0 + 30 * SECOND)
    assert folded([created(schedule=EVERY_MINUTE)], [q, succeeded(q)]).next_run_at == T0 + MINUTE


def test_cron_is_read_in_its_zone() -> None:
    assert folded([created(schedule=AT_FOUR)], []).next_run_at == T0 + 19 * 60 * MINUTE


def test_a_schedule_that_ended_completes_the_job_unless_it_was_set_going_since() -> None:
    job = created(schedule=EVERY_MINUTE)
    row = folded([job], [ended(version=1)])
    assert (row.status, row.next_run_at) == ("COMPLETED", None)
    again = updated(job, T0 + 2 * MINUTE, EVERY_MINUTE)
    row = folded([job, again], [ended(version=1)])
    assert (row.status, row.next_run_at) == ("SCHEDULED", T0 + 3 * MINUTE)
    assert folded([job, again], [ended(version=2)]).status == "COMPLETED"


def test_a_paused_job_has_no_next_fire_and_resumes_from_then() -> None:
    job = created(schedule=EVERY_MINUTE)
    pause = JobPaused(job_id="job", spec=job.spec, at=T0 + MINUTE, created_at=T0, note="maintenance")
    row = folded([job, pause], [])
    assert (row.status, row.next_run_at) == ("PAUSED", None)
    edited = updated(job, T0 + 2 * MINUTE, EVERY_MINUTE, paused_at=T0 + MINUTE)
    assert folded([job, pause, edited], []).status == "PAUSED"
    resume = JobResumed(job_id="job", spec=job.spec, at=T0 + 5 * MINUTE, created_at=T0)
    row = folded([job, pause, resume], [])
    assert (row.status, row.next_run_at) == ("SCHEDULED", T0 + 6 * MINUTE)
    missed = replace(resume, missed_since=T0 + MINUTE)
    assert folded([job, pause, missed], []).next_run_at == T0 + 2 * MINUTE


def test_a_cancelled_job_stays_cancelled_whatever_its_runs_do() -> None:
    job = created(schedule=EVERY_MINUTE)
    cancel = JobCancelled(job_id="job", spec=job.spec, at=T0 + MINUTE, created_at=T0)
    q = queued(scheduled=T0 + MINUTE)
    row = folded([job, cancel], [q, succeeded(q), ended(version=2)])
    assert (row.status, row.next_run_at) == ("CANCELLED", None)


def test_a_definition_that_is_told_twice_changes_nothing() -> None:
    tables = Tables()
    tables.fold([(5, (created(name="new"),))], [])
    assert not tables.fold([(3, (created(name="old"),)), (5, (created(name="same"),))], [])
    assert tables.jobs["job"].name == "new"


def test_jobs_of_one_frame_share_its_version() -> None:
    tables = Tables()
    tables.fold([(7, tuple(created(f"frame~{n}") for n in range(3)))], [])
    assert {row.version for row in tables.jobs.values()} == {7}


def test_a_schedule_nobody_can_read_has_no_next_fire() -> None:
    broken = Schedule(schedule_type="CRON", cron_expression=("every now and then",))
    assert folded([created(schedule=broken)], []).next_run_at is None


def test_runs_belong_to_the_namespace_of_their_job_also_as_steps_of_a_workflow() -> None:
    tables = Tables()
    job = created("flow", namespace="research")
    tables.fold([(1, (job,))], [(1, (queued("flow"), queued("flow~step"), queued("stranger")))])
    assert [row.namespace for row in tables.runs.values()] == ["research", "research", "default"]


def test_the_payload_is_kept_apart_from_the_rest_of_the_definition() -> None:
    tables = Tables()
    definition: JobSpec = spec(payload={"big": "x" * 10}, labels={"team": "data"})
    tables.fold([(1, (replace(created(), spec=definition),))], [])
    labels, stored, payload, *_ = tables.definitions["job"][10:]
    assert payload == b'{"big":"xxxxxxxxxx"}'
    assert b"payload" not in stored
    assert labels == b'{"team":"data"}'


def skip(minute: int) -> SkipRequested:
    return SkipRequested(run_id="job@x", at=T0, scheduled=T0 + minute * MINUTE)


def skipped(minute: int) -> RunSkipped:
    at = T0 + minute * MINUTE
    return RunSkipped(run_id=f"job@{minute}", at=at, version=1, scheduled=at, due=at, reason="somebody asked")


def test_a_fire_that_is_to_be_left_out_is_not_the_next_and_is_known_until_it_is_over() -> None:
    job = created(schedule=EVERY_MINUTE)
    row = folded([job], [skip(1)])
    assert (row.next_run_at, row.skipped) == (T0 + 2 * MINUTE, (T0 + MINUTE,))
    row = folded([job], [skip(2), skip(1), skip(1)])
    assert (row.next_run_at, row.skipped) == (T0 + 3 * MINUTE, (T0 + MINUTE, T0 + 2 * MINUTE))
    row = folded([job], [skip(2), skip(1), skipped(1)])
    assert (row.next_run_at, row.skipped) == (T0 + 3 * MINUTE, (T0 + 2 * MINUTE,))
    row = folded([job], [skip(1), skipped(1)])
    assert (row.next_run_at, row.skipped) == (T0 + 2 * MINUTE, ())


def test_a_skip_that_comes_after_the_fire_was_decided_marks_nothing() -> None:
    q = queued(scheduled=T0 + MINUTE)
    row = folded([created(schedule=EVERY_MINUTE)], [q, skip(1)])
    assert (row.next_run_at, row.skipped) == (T0 + 2 * MINUTE, ())


def test_the_only_fire_of_a_job_left_out_leaves_none() -> None:
    row = folded([created(schedule=FUTURE)], [skip(1)])
    assert (row.status, row.next_run_at) == ("SCHEDULED", None)
    assert folded([created(schedule=FUTURE)], [skip(1), skipped(1)]).status == "COMPLETED"
