"""Jobs that differ in nothing but their payload, their schedule and who they are, each as little more than that.

A bulk call has thousands of them. What they have in common is encoded once, and each event is put together of bytes:
the same bytes as if it had been encoded by itself.
"""

import re
from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct, structs

from waterclock.api.eventlog.job_frames import creation, first_fire_of
from waterclock.core.domain.job.clear_secrets import clear_secrets
from waterclock.proto.codec import encode
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobSpec, Schedule

_MARK = re.compile(rb"\0(.)")
"""Stands for a value that is put in later. What is encoded has no such byte: JSON escapes it."""

_decode = msgspec.json.Decoder().decode


class When(Struct, frozen=True, gc=False):
    """What jobs with the same schedule share."""

    schedule: Schedule
    data: bytes | None
    """As JSON; None where it is the one that is not written."""
    next_run_at: datetime | None
    first_fire: bytes | None
    """As JSON, where the event has it."""


class JobKind:
    """What alike jobs of one call have in common."""

    def __init__(self, spec: JobSpec, at: Instant, actor: str) -> None:
        self.spec = spec
        """Without payload and idempotency key, and with the schedule that is not written."""
        self.at = at
        self.actor = actor
        self.warnings = clear_secrets(spec)
        self._formats: dict[tuple[bool, ...], bytes] = {}

    def when(self, schedule: Schedule, next_run_at: datetime | None) -> When:
        same = schedule is self.spec.schedule
        first = first_fire_of(schedule, next_run_at)
        return When(
            schedule,
            None if same else encode(schedule),
            next_run_at,
            None if first is None else encode(first),
        )

    def event_format(self, scheduled: bool, loaded: bool, keyed: bool, recurs: bool) -> bytes:
        """The event of a job with a schedule, a payload and an idempotency key of its own and a first fire, or without.
        `%b` is where its id, the first three of these, its cause and its first fire belong, in this order."""
        known = self._formats.get((scheduled, loaded, keyed, recurs))
        if known is None:
            own: dict[str, Any] = {}
            if scheduled:
                own["schedule"] = Raw(b"\0s")
            if loaded:
                own["payload"] = Raw(b"\0p")
            if keyed:
                own["idempotency_key"] = Raw(b"\0k")
            job_id, cause = cast(str, Raw(b"\0j")), cast(str, Raw(b"\0c"))
            first_fire = cast(int, Raw(b"\0f")) if recurs else None
            spec = structs.replace(self.spec, **own)
            event = encode(creation(job_id, spec, self.at, self.actor, cause, first_fire))
            assert (
                b"".join(_MARK.findall(event))
                == b"j" + b"s" * scheduled + b"p" * loaded + b"k" * keyed + b"c" + b"f" * recurs
            )
            known = _MARK.sub(b"%b", event.replace(b"%", b"%%"))
            self._formats[scheduled, loaded, keyed, recurs] = known
        return known


class AlikeJob(Struct, frozen=True, kw_only=True, gc=False):
    kind: JobKind
    when: When
    schedule: Schedule
    payload: bytes | None
    """As JSON; None where there is none."""
    idempotency_key: str | None
    job_id: str | None
    cause: str

    @property
    def spec(self) -> JobSpec:
        """The whole definition. To make it is what the others need not."""
        return structs.replace(
            self.kind.spec,
            schedule=self.schedule,
            payload=None if self.payload is None else _decode(self.payload),
            idempotency_key=self.idempotency_key,
        )

    @property
    def namespace(self) -> str:
        return self.kind.spec.namespace

    @property
    def at(self) -> Instant:
        return self.kind.at

    @property
    def next_run_at(self) -> datetime | None:
        return self.when.next_run_at

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.kind.warnings

    def event(self, job_id: str) -> bytes:
        schedule, payload, key = self.when.data, self.payload, self.idempotency_key
        first = self.when.first_fire
        format = self.kind.event_format(
            schedule is not None, payload is not None, key is not None, first is not None
        )
        own = [encode(job_id)]
        if schedule is not None:
            own.append(schedule)
        if payload is not None:
            own.append(payload)
        if key is not None:
            own.append(encode(key))
        own.append(encode(self.cause))
        if first is not None:
            own.append(first)
        return format % tuple(own)
