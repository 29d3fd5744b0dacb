"""Which definition was in force when."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Struct

from waterclock.core.domain.job.aggregate import is_due_at_once
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
    at_once: Instant | None = None
    """When it was due because it was told so."""


def spans(history: Iterable[tuple[int, JobEvent]], until: Instant) -> Iterator[Span]:
    begun: tuple[int, JobEvent, Instant] | None = None
    for version, event in history:
        if begun is not None:
            yield _span(*begun, until=min(event.at, until))
        match event:
            case JobCreated():
                begun = (version, event, counts_from(event.spec.schedule, event.at))
            case JobUpdated(paused_at=None):
                begun = (version, event, event.at)
            case JobResumed():
                begun = (version, event, event.at if event.missed_since is None else event.missed_since)
            case JobUpdated() | JobPaused() | JobCancelled():
                begun = None
            case _:
                assert_never(event)
    if begun is not None:
        yield _span(*begun, until=until)


def _span(version: int, event: JobEvent, after: Instant, *, until: Instant) -> Span:
    at_once = event.at if is_due_at_once(event) else None
    return Span(version=version, spec=event.spec, after=after, until=until, at_once=at_once)
