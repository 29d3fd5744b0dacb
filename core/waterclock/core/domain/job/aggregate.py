"""The job aggregate: what may happen to a definition. Each event carries all of it, so the last one is the state."""

from typing import Any, Literal, TypeVar, assert_never

from msgspec import Struct

from waterclock.core.domain.schedule.fires import is_over
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
)
from waterclock.proto.spec import JobSpec

E = TypeVar("E", bound=JobEvent)
JobStatus = Literal["SCHEDULED", "PAUSED", "CANCELLED"]


class Job(Struct, frozen=True, kw_only=True):
    job_id: str
    spec: JobSpec
    status: JobStatus
    created_at: Instant
    updated_at: Instant
    paused_at: Instant | None = None
    note: str = ""
    due_now: Instant | None = None
    """When an edit made it due at once."""

    @property
    def due_at_once(self) -> Instant | None:
        """The instant at which it was due because it was told so, and not because of the clock."""
        if self.due_now is not None:
            return self.due_now
        return self.created_at if self.spec.schedule.schedule_type == "IMMEDIATE" else None


class Issued(Struct, frozen=True, kw_only=True):
    """What every command carries: who asked, and the id under which a repeat is recognised."""

    actor: str = ""
    cause: str = ""


class CreateJob(Issued, frozen=True, kw_only=True):
    job_id: str
    spec: JobSpec
    first_fire: Instant | None = None
    """Of a schedule that recurs, if it is at hand."""


class UpdateJob(Issued, frozen=True, kw_only=True):
    spec: JobSpec
    revive: bool = False
    """A job that was cancelled is scheduled again."""
    again: bool = False
    """What its schedule says is meant anew, although it said so before: run now."""
    restores: int | None = None
    """The version whose definition this is."""


class PauseJob(Issued, frozen=True, kw_only=True):
    note: str = ""


class ResumeJob(Issued, frozen=True, kw_only=True):
    missed: bool = False


class CancelJob(Issued, frozen=True, kw_only=True):
    note: str = ""


JobCommand = CreateJob | UpdateJob | PauseJob | ResumeJob | CancelJob


class CommandRefused(Exception):
    """The command cannot be carried out in the job's state."""


def decide(job: Job | None, command: JobCommand, now: Instant) -> tuple[JobEvent, ...]:
    """The events a command leads to; none when the job is already as asked."""
    if isinstance(command, CreateJob):
        if job is not None:
            raise CommandRefused(f"job {command.job_id} exists already")
        created = JobCreated(
            job_id=command.job_id,
            spec=command.spec,
            at=now,
            created_at=now,
            actor=command.actor,
            cause=command.cause,
            first_fire=command.first_fire,
        )
        return (created,)
    if job is None:
        raise CommandRefused("there is no such job")
    cancelled = job.status == "CANCELLED"
    revived = cancelled and isinstance(command, UpdateJob) and command.revive
    if cancelled and not revived and not isinstance(command, CancelJob):
        raise CommandRefused(f"job {job.job_id} is cancelled")
    at = max(now, job.updated_at + 1)  # later: what is due at once is named after the moment it was said
    match command:
        case UpdateJob():
            if command.spec == job.spec and not revived and not command.again:
                return ()
            spec, note = command.spec, "" if revived else job.note
            return (
                _event(
                    JobUpdated,
                    job,
                    command,
                    at,
                    spec=spec,
                    note=note,
                    paused_at=job.paused_at,
                    due_now=_due_now(job, command, revived, at),
                    restores=command.restores,
                ),
            )
        case PauseJob():
            return () if job.status == "PAUSED" else (_event(JobPaused, job, command, at, note=command.note),)
        case ResumeJob():
            if job.status != "PAUSED":
                return ()
            since = job.paused_at if command.missed else None
            return (_event(JobResumed, job, command, at, missed_since=since),)
        case CancelJob():
            if cancelled:
                return ()
            return (_event(JobCancelled, job, command, at, note=command.note),)
        case _:
            assert_never(command)


def _due_now(job: Job, command: UpdateJob, revived: bool, at: Instant) -> Instant | None:
    """A job that is given an instant that is over runs at once, as a new one does."""
    if not (revived or command.again) and command.spec.schedule == job.spec.schedule:
        return job.due_now
    if not is_over(command.spec.schedule, at):
        return None
    if job.paused_at is not None:
        raise CommandRefused(
            f"job {job.job_id} is paused, and what it is to do at once would never run: resume it first"
        )
    return at


def _event(kind: type[E], job: Job, command: Issued, at: Instant, **more: Any) -> E:
    """An event that leaves of the job as it is what `more` does not say."""
    facts = {
        "job_id": job.job_id,
        "spec": job.spec,
        "at": at,
        "created_at": job.created_at,
        "actor": command.actor,
        "cause": command.cause,
        "due_now": job.due_now,
    }
    return kind(**{**facts, **more})


def is_due_at_once(event: JobEvent) -> bool:
    """Whether a definition makes its job due at the instant of the event, whatever its schedule says."""
    if isinstance(event, JobCreated):
        return event.spec.schedule.schedule_type == "IMMEDIATE"
    return isinstance(event, JobUpdated) and event.due_now == event.at


def evolve(job: Job | None, event: JobEvent) -> Job:
    """The state after an event. `job` is there for the shape of it: an event says all."""
    status: JobStatus
    paused_at: Instant | None
    match event:
        case JobCreated() | JobResumed():
            status, paused_at = "SCHEDULED", None
        case JobUpdated():
            status, paused_at = ("SCHEDULED" if event.paused_at is None else "PAUSED"), event.paused_at
        case JobPaused():
            status, paused_at = "PAUSED", event.at
        case JobCancelled():
            status, paused_at = "CANCELLED", None
        case _:
            assert_never(event)
    return Job(
        job_id=event.job_id,
        spec=event.spec,
        status=status,
        created_at=event.created_at,
        updated_at=event.at,
        paused_at=paused_at,
        note=event.note,
        due_now=event.due_now,
    )
