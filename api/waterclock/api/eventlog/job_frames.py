"""Definitions packed into messages for `JOBS`: one alone under its own id, or many in a frame."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct, structs

from waterclock.api.auth.namespaces import scoped
from waterclock.core.domain.ids import keyed_id, timed_id
from waterclock.core.domain.job.aggregate import CreateJob, decide
from waterclock.proto.codec import Undecodable, decode_job_frame
from waterclock.proto.events import SCHEMA_VERSION, Instant
from waterclock.proto.spec import JobSpec

FRAME_JOBS = 256
_FRAME_BYTES = 512 * 1024
_KEPT_AFTER_FIRE_SECONDS = 30 * 86_400
"""How long a one-shot's definition stays in the log after its time; then the read models alone have it."""
_MAX_TTL_SECONDS = 100 * 365 * 86_400
"""What is further away stays: the server counts no more than 292 years."""

_encode = msgspec.json.Encoder().encode


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    spec: JobSpec
    at: Instant
    """When it was defined; a delay counts from then."""
    job_id: str | None = None
    """None: any id will do."""
    actor: str = ""
    cause: str = ""
    next_run_at: datetime | None = None
    """As the caller is told; worked out with the definition, while its schedule is at hand."""


class JobMessage(Struct, frozen=True, kw_only=True):
    """One message for `JOBS`, and the jobs it creates."""

    root: str
    """The id that the message's subject is named after."""
    job_ids: list[str]
    specs: list[JobSpec]
    data: bytes
    ttl: float | None
    """Seconds after which the log may forget it; None: never."""

    def creates_same(self, stored: bytes) -> bool:
        """Whether a stored message creates the same jobs. Times may differ: a delay counts from when it was sent."""
        try:
            events = decode_job_frame(stored).events
        except Undecodable:
            return False
        return len(events) == len(self.specs) and all(
            _timeless(event.spec) == _timeless(spec) for event, spec in zip(events, self.specs, strict=True)
        )


class _Envelope(Struct):
    """A `JobFrame` whose events are already encoded."""

    events: list[msgspec.Raw]
    v: int = SCHEMA_VERSION


def is_lasting(spec: JobSpec) -> bool:
    """Whether the definition must stay in the log: everything but a job that fires once at a known time."""
    return spec.schedule.schedule_type not in ("IMMEDIATE", "FUTURE")


def single(job: NewJob) -> JobMessage:
    """The message of a job that has an id, alone."""
    assert job.job_id is not None
    return _message(job.job_id, [job], [job.job_id], [_event(job, job.job_id)])


def frames(jobs: Sequence[NewJob], key: str | None) -> Iterator[JobMessage]:
    """Jobs with ids of our making, in as few messages as their size allows; with a key the same ids every time."""
    if len(jobs) == 1 and key is None:
        yield single(structs.replace(jobs[0], job_id=_root(jobs, None, 0)))
        return
    begun, size = 0, 0
    root = _root(jobs, key, begun)
    ids: list[str] = []
    events: list[msgspec.Raw] = []
    for place, job in enumerate(jobs):
        ids.append(f"{root}~{len(ids)}")
        events.append(_event(job, ids[-1]))
        size += len(bytes(events[-1]))
        if size > _FRAME_BYTES or place == len(jobs) - 1:
            yield _message(root, jobs[begun : place + 1], ids, events)
            begun, size = place + 1, 0
            root, ids, events = _root(jobs, key, begun), [], []


def _message(root: str, jobs: Sequence[NewJob], ids: list[str], events: list[msgspec.Raw]) -> JobMessage:
    specs = [job.spec for job in jobs]
    data = _encode(_Envelope(events=events))
    return JobMessage(root=root, job_ids=ids, specs=specs, data=data, ttl=_ttl(specs, jobs[0].at))


def _root(jobs: Sequence[NewJob], key: str | None, begun: int) -> str:
    made = timed_id(jobs[0].at, secrets.randbits(50)) if key is None else keyed_id("frame", f"{key}/{begun}")
    return scoped(jobs[0].spec.namespace, made)


def _event(job: NewJob, job_id: str) -> msgspec.Raw:
    created = decide(None, CreateJob(job_id=job_id, spec=job.spec, actor=job.actor, cause=job.cause), job.at)
    return msgspec.Raw(_encode(created[0]))


def _ttl(specs: Iterable[JobSpec], now: Instant) -> float | None:
    longest = 0.0
    for spec in specs:
        if is_lasting(spec):
            return None
        if spec.schedule.schedule_time is not None:
            longest = max(longest, spec.schedule.schedule_time.timestamp() - now / 1_000_000)
    return longest + _KEPT_AFTER_FIRE_SECONDS if longest < _MAX_TTL_SECONDS else None


def _timeless(spec: JobSpec) -> JobSpec:
    return structs.replace(spec, schedule=structs.replace(spec.schedule, schedule_time=None))
