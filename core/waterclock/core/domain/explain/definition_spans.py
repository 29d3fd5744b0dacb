"""Which definition was in force when."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Struct

from waterclock.core.domain.schedule.fires import counts_from
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


class Span(Struct, frozen=True, kw_only=True):
    """A stretch of time in which one definition's fires are its own: (after, until]."""

    version: int
    spec: JobSpec
    after: Instant
    until: Instant


def spans(history: Iterable[tuple[int, JobEvent]], until: Instant) -> Iterator[Span]:
    current: tuple[int, JobSpec, Instant] | None = None
    for version, event in history:
        if current is not None:
            yield Span(version=current[0], spec=current[1], after=current[2], until=min(event.at, until))
        match event:
            case JobCreated():
                current = (version, event.spec, counts_from(event.spec.schedule, event.at))
            case JobUpdated(paused_at=None):
                current = (version, event.spec, event.at) if _recurs(event.spec) else None
            case JobResumed():
                after = event.at if event.missed_since is None else event.missed_since
                current = (version, event.spec, after) if _recurs(event.spec) else None
            case JobUpdated() | JobPaused() | JobCancelled():
                current = None
            case _:
                assert_never(event)
    if current is not None:
        yield Span(version=current[0], spec=current[1], after=current[2], until=until)


def _recurs(spec: JobSpec) -> bool:
    """Whether a definition that was edited or resumed can still fire: an immediate job has fired at its creation."""
    return spec.schedule.schedule_type != "IMMEDIATE"
