"""Which definitions make work soon. Of a bulk call this is found out before anything is validated, by looking only at
the fields that say when."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from waterclock.core.domain.instants import SECOND, instant_of
from waterclock.core.domain.job.parse import define_schedule
from waterclock.core.domain.job.validate import InvalidDefinition
from waterclock.core.domain.schedule.fires import counts_from, next_fire
from waterclock.proto.codec import encode
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobSpec, PreviewRequest, Schedule

_MOST_KINDS = 100
"""Schedules of a bulk call that are worked out; of a call with more of them the others count as due at once."""


class _When(Struct, frozen=True, omit_defaults=True):
    """What a definition says of its times, unchecked."""

    schedule: Any = None
    cron: Any = None
    cron_expression: Any = None
    timezone: Any = None
    every: Any = None
    interval_seconds: Any = None
    delay: Any = None
    start_at: Any = None


class _Line(_When, frozen=True, omit_defaults=True):
    schedule_time: Any = None


_decode = msgspec.json.Decoder(_Line).decode
_FIELDS = _When.__struct_fields__
_AT_ONCE = _When()


def is_due_within(spec: JobSpec, now: Instant, seconds: float) -> bool:
    """Whether a definition's first run is due so soon. One that waits for another counts as due: it may be at once."""
    if spec.schedule.schedule_type == "DEPENDENT":
        return bool(spec.dependencies)
    first = _first_fire(spec.schedule, spec.name, now)
    return first is not None and first <= now + seconds * SECOND


def count_due_within(lines: Sequence[Raw], now: Instant, seconds: float) -> int:
    """How many of the definitions are due so soon; those that cannot be read are not counted as being later."""
    until = now + int(seconds * SECOND)
    known: dict[bytes, bool] = {}
    return sum(_is_soon(bytes(line), now, until, known) for line in lines)


def _is_soon(line: bytes, now: Instant, until: Instant, known: dict[bytes, bool]) -> bool:
    try:
        when = _decode(line)
    except (ValueError, RecursionError):
        return True
    if when.schedule_time is not None:
        return _instant(when.schedule_time) <= until
    said = _When(*(getattr(when, name) for name in _FIELDS))
    if said == _AT_ONCE:
        return True
    kind = encode(said)
    if kind not in known:
        if len(known) >= _MOST_KINDS:
            return True
        known[kind] = _first(said, now) <= until
    return known[kind]


def _first(when: _When, now: Instant) -> Instant:
    """When it fires first; at once if that cannot be said."""
    try:
        schedule = define_schedule(msgspec.convert(msgspec.to_builtins(when), PreviewRequest), now)
        first = _first_fire(schedule, "", now)
    except (InvalidDefinition, ValueError, RecursionError):
        return now
    return now if first is None else first


def _first_fire(schedule: Schedule, name: str, now: Instant) -> Instant | None:
    if schedule.schedule_type == "IMMEDIATE":
        return now
    return next_fire(schedule, name, counts_from(schedule, now))


def _instant(text: Any) -> Instant:
    try:
        return instant_of(msgspec.convert(text, datetime))
    except (ValueError, TypeError, OverflowError):
        return 0
