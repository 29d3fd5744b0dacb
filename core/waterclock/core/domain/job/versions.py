"""What a job has been: each event of its definition is a version, and says who made it and what it changed."""

from typing import assert_never

from msgspec import Struct

from waterclock.core.domain.job.aggregate import JobStatus, evolve
from waterclock.core.domain.job.edit import describe
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
)
from waterclock.proto.spec import JobSpec, Workflow


class Version(Struct, frozen=True, kw_only=True):
    version: int
    at: Instant
    actor: str
    change: str
    """In words."""
    fields: tuple[str, ...]
    """What differs from the version before, by the names that an answer has."""
    status: JobStatus
    note: str


def version_of(version: int, event: JobEvent, before: JobEvent | None) -> Version:
    """`before`: the event before this one. The first has no fields: nothing is known of what was before it."""
    return Version(
        version=version,
        at=event.at,
        actor=event.actor,
        change=_change(event, before),
        fields=() if before is None else changed_fields(before.spec, event.spec),
        status=evolve(None, event).status,
        note=_note(event),
    )


def changed_fields(before: JobSpec, after: JobSpec) -> tuple[str, ...]:
    if before == after:
        return ()
    old, new = _described(before), _described(after)
    return tuple(name for name in {**old, **new} if old.get(name) != new.get(name))


def _described(spec: JobSpec) -> dict[str, object]:
    """A workflow's nodes are shown beside its other fields, and a job's task is one of them."""
    fields = describe(spec)
    if isinstance(spec.task, Workflow):
        fields["nodes"] = fields.pop("task")
    return fields


def _change(event: JobEvent, before: JobEvent | None) -> str:
    match event:
        case JobCreated():
            return "created"
        case JobUpdated(restores=int() as version):
            return f"rollback to version {version}"
        case JobUpdated():
            return "revived" if isinstance(before, JobCancelled) else "updated"
        case JobPaused():
            return "paused"
        case JobResumed(missed_since=None):
            return "resumed"
        case JobResumed():
            return "resumed with what was missed"
        case JobCancelled():
            return "cancelled"
        case _:
            assert_never(event)


def _note(event: JobEvent) -> str:
    """What was said with this change. An edit carries on what was said with the one before."""
    return "" if isinstance(event, JobUpdated) else event.note
