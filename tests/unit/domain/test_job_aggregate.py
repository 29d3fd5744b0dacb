"""The job aggregate: what decide produced, evolve takes; and a repeat changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.job.aggregate import (
    CancelJob,
    CommandRefused,
    CreateJob,
    Job,
    JobCommand,
    PauseJob,
    ResumeJob,
    UpdateJob,
    decide,
    evolve,
)
from waterclock.proto.events import JobEvent, JobResumed, JobUpdated
from waterclock.proto.spec import JobSpec, Schedule, Shell

SPEC = JobSpec(name="a", task=Shell(command="true"))
OTHER = JobSpec(name="b", task=Shell(command="false"))

commands = st.lists(
    st.sampled_from(
        [
            CreateJob(job_id="a", spec=SPEC),
            UpdateJob(spec=OTHER),
            UpdateJob(spec=SPEC),
            PauseJob(note="lunch"),
            ResumeJob(),
            ResumeJob(missed=True),
            CancelJob(),
        ]
    )
)


@given(commands)
def test_replaying_what_was_decided_gives_the_same_state(asked: list[JobCommand]) -> None:
    job: Job | None = None
    log: list[JobEvent] = []
    for now, command in enumerate(asked, 1):
        try:
            events = decide(job, command, now)
        except CommandRefused:
            continue
        for event in events:
            job = evolve(job, event)
        log += events
        if not isinstance(command, CreateJob):
            assert decide(job, command, now) == (), "asking again for what is already so decides nothing"
    replayed: Job | None = None
    for event in log:
        replayed = evolve(replayed, event)
    assert replayed == job
    assert job is None or evolve(None, log[-1]) == job, "the last event says it all"


def made(*asked: JobCommand) -> Job:
    job: Job | None = None
    for now, command in enumerate((CreateJob(job_id="a", spec=SPEC), *asked), 1):
        for event in decide(job, command, now * 10):
            job = evolve(job, event)
    assert job is not None
    return job


def once_at(instant: int) -> JobSpec:
    return JobSpec(
        name="a",
        task=Shell(command="true"),
        schedule=Schedule(schedule_type="FUTURE", schedule_time=datetime_of(instant)),
    )


HOURLY = JobSpec(
    name="a",
    task=Shell(command="true"),
    schedule=Schedule(schedule_type="CRON", cron_expression=("0 * * * *",)),
)


@pytest.mark.parametrize("spec", [once_at(5), once_at(30), SPEC])
def test_an_edit_to_an_instant_that_is_over_makes_the_job_due_at_once(spec: JobSpec) -> None:
    job = made(UpdateJob(spec=HOURLY), UpdateJob(spec=spec))
    assert (job.due_now, job.due_at_once) == (30, 30)
    kept = made(UpdateJob(spec=HOURLY), UpdateJob(spec=spec), UpdateJob(spec=replace(spec, priority=9)))
    assert kept.due_now == 30, "an edit of something else says nothing of when"
    assert made(UpdateJob(spec=HOURLY), UpdateJob(spec=spec), UpdateJob(spec=HOURLY)).due_now is None


def test_an_edit_that_leaves_the_schedule_as_it_is_runs_nothing() -> None:
    assert made(UpdateJob(spec=OTHER)).due_now is None
    assert made(UpdateJob(spec=once_at(5)), UpdateJob(spec=replace(once_at(5), priority=9))).due_now == 20


def test_now_said_again_is_meant_again() -> None:
    (event,) = decide(made(), UpdateJob(spec=SPEC, again=True), 50)
    assert event.due_now == event.at == 50
    assert decide(made(), UpdateJob(spec=SPEC), 50) == ()


def test_what_a_paused_job_could_not_do_at_once_is_refused() -> None:
    job = made(UpdateJob(spec=HOURLY), PauseJob())
    for spec in (SPEC, once_at(5)):
        with pytest.raises(CommandRefused, match="resume it first"):
            decide(job, UpdateJob(spec=spec), 99)
    (event,) = decide(job, UpdateJob(spec=once_at(500)), 99)
    assert event.due_now is None


def test_an_edit_neither_pauses_nor_resumes() -> None:
    job = made(UpdateJob(spec=HOURLY), PauseJob(note="lunch"), UpdateJob(spec=replace(HOURLY, priority=3)))
    assert (job.status, job.paused_at, job.note) == ("PAUSED", 30, "lunch")
    job = made(PauseJob(note="lunch"), UpdateJob(spec=OTHER))
    assert (job.status, job.paused_at, job.note) == ("PAUSED", 20, "lunch")


def test_resume_with_missed_starts_where_the_pause_began_across_edits() -> None:
    job = made(PauseJob(), UpdateJob(spec=OTHER))
    (event,) = decide(job, ResumeJob(missed=True), 99)
    assert isinstance(event, JobResumed)
    assert event.missed_since == 20


def test_each_change_of_a_job_is_later_than_the_one_before_whatever_the_clock_says() -> None:
    job = made(PauseJob())
    (event,) = decide(job, UpdateJob(spec=OTHER), 5)
    assert isinstance(event, JobUpdated)
    assert event.at == job.updated_at + 1


@pytest.mark.parametrize("command", [UpdateJob(spec=OTHER), PauseJob(), ResumeJob()])
def test_a_cancelled_job_takes_no_more_commands(command: JobCommand) -> None:
    with pytest.raises(CommandRefused, match="cancelled"):
        decide(made(CancelJob()), command, 99)


@pytest.mark.parametrize("spec", [SPEC, OTHER])
def test_a_cancelled_job_may_be_revived_as_it_was_or_changed(spec: JobSpec) -> None:
    job = made(PauseJob(note="lunch"), CancelJob(note="gone"), UpdateJob(spec=spec, revive=True))
    assert (job.status, job.spec, job.paused_at, job.note) == ("SCHEDULED", spec, None, "")


def test_an_id_is_taken_once() -> None:
    with pytest.raises(CommandRefused, match="exists"):
        decide(made(), CreateJob(job_id="a", spec=SPEC), 99)
