"""Definitions packed into messages for `JOBS`: one alone under its own id, or many in a frame."""

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from waterclock.api.auth.namespaces import scoped
from waterclock.core.domain.ids import keyed_id, timed_id
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.job.aggregate import CreateJob, decide
from waterclock.core.domain.job.clear_secrets import clear_secrets
from waterclock.core.domain.schedule.fires import is_recurring
from waterclock.proto.codec import Undecodable, decode_job_frame
from waterclock.proto.events import Instant, JobEvent, JobFrame
from waterclock.proto.spec import JobSpec, Schedule

FRAME_JOBS = 256
_FRAME_BYTES = 512 * 1024
_KEPT_AFTER_FIRE_SECONDS = 30 * 86_400
"""How long a one-shot's definition stays in the log after its time; then the read models alone have it."""
_MAX_TTL_SECONDS = 100 * 365 * 86_400
"""What is further away stays: the server counts no more than 292 years."""

_encode = msgspec.json.Encoder().encode


class Creation(Protocol):
    """A job to be created, as far as its message is concerned."""

    @property
    def spec(self) -> JobSpec: ...
    @property
    def namespace(self) -> str: ...
    @property
    def at(self) -> Instant:
        """When it was defined; a delay counts from then."""

    @property
    def job_id(self) -> str | None:
        """None: any id will do."""

    @property
    def cause(self) -> str: ...
    @property
    def schedule(self) -> Schedule: ...
    @property
    def next_run_at(self) -> datetime | None:
        """As the caller is told; worked out with the definition, while its schedule is at hand."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the caller is told to do better."""

    def event(self, job_id: str) -> bytes:
        """That it was created under this id, as the log has it."""


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    spec: JobSpec
    at: Instant
    job_id: str | None = None
    actor: str = ""
    cause: str = ""
    next_run_at: datetime | None = None

    @property
    def namespace(self) -> str:
        return self.spec.namespace

    @property
    def schedule(self) -> Schedule:
        return self.spec.schedule

    @property
    def warnings(self) -> tuple[str, ...]:
        return clear_secrets(self.spec)

    def event(self, job_id: str) -> bytes:
        first_fire = first_fire_of(self.schedule, self.next_run_at)
        return _encode(creation(job_id, self.spec, self.at, self.actor, self.cause, first_fire))


def creation(
    job_id: str, spec: JobSpec, at: Instant, actor: str, cause: str, first_fire: Instant | None
) -> JobEvent:
    """The one event of a job's creation."""
    command = CreateJob(job_id=job_id, spec=spec, actor=actor, cause=cause, first_fire=first_fire)
    (created,) = decide(None, command, at)
    return created


def first_fire_of(schedule: Schedule, next_run_at: datetime | None) -> Instant | None:
    """As the event has it: of schedules that recur."""
    return instant_of(next_run_at) if next_run_at is not None and is_recurring(schedule) else None


class JobMessage(Struct, frozen=True, kw_only=True):
    """One message for `JOBS`, and the jobs it creates."""

    root: str
    """The id that the message's subject is named after."""
    job_ids: list[str]
    data: bytes
    ttl: float | None
    """Seconds after which the log may forget it; None: never."""

    def creates_same(self, stored: bytes) -> bool:
        """Whether a stored message creates the same jobs. Times may differ: a delay counts from when it was sent."""
        own = decode_job_frame(self.data).events
        try:
            events = decode_job_frame(stored).events
        except Undecodable:
            return False
        return len(events) == len(own) and all(
            _timeless(event.spec) == _timeless(mine.spec) for event, mine in zip(events, own, strict=True)
        )


_BEFORE_EVENTS, _AFTER_EVENTS = _encode(JobFrame(events=())).split(b"[]")


def is_lasting(schedule: Schedule) -> bool:
    """Whether the definition must stay in the log: everything but a job that fires once at a known time."""
    return schedule.schedule_type not in ("IMMEDIATE", "FUTURE")


def single(job: Creation) -> JobMessage:
    """The message of a job that has an id, alone."""
    assert job.job_id is not None
    return _alone(job, job.job_id)


def frames(jobs: Sequence[Creation], key: str | None) -> Iterator[JobMessage]:
    """Jobs with ids of our making, in as few messages as their size allows; with a key the same ids every time."""
    if len(jobs) == 1 and key is None:
        yield _alone(jobs[0], _root(jobs, None, 0))
        return
    begun, size = 0, 0
    root = _root(jobs, key, begun)
    ids: list[str] = []
    events: list[bytes] = []
    for place, job in enumerate(jobs):
        job_id = f"{root}~{len(ids)}"
        event = job.event(job_id)
        ids.append(job_id)
        events.append(event)
        size += len(event)
        if size > _FRAME_BYTES or place == len(jobs) - 1:
            yield _message(root, jobs[begun : place + 1], ids, events)
            begun, size = place + 1, 0
            root, ids, events = _root(jobs, key, begun), [], []


def _alone(job: Creation, job_id: str) -> JobMessage:
    return _message(job_id, [job], [job_id], [job.event(job_id)])


def _message(root: str, jobs: Sequence[Creation], ids: list[str], events: list[bytes]) -> JobMessage:
    data = b"".join((_BEFORE_EVENTS, b"[", b",".join(events), b"]", _AFTER_EVENTS))
    return JobMessage(root=root, job_ids=ids, data=data, ttl=_ttl(jobs))


def _root(jobs: Sequence[Creation], key: str | None, begun: int) -> str:
    made = timed_id(jobs[0].at, secrets.randbits(50)) if key is None else keyed_id("frame", f"{key}/{begun}")
    return scoped(jobs[0].namespace, made)


def _ttl(jobs: Sequence[Creation]) -> float | None:
    if any(is_lasting(job.schedule) for job in jobs):
        return None
    times = [time for job in jobs if (time := job.schedule.schedule_time) is not None]
    longest = max(times).timestamp() - jobs[0].at / 1_000_000 if times else 0.0
    return max(longest, 0.0) + _KEPT_AFTER_FIRE_SECONDS if longest < _MAX_TTL_SECONDS else None


def _timeless(spec: JobSpec) -> JobSpec:
    return structs.replace(spec, schedule=structs.replace(spec.schedule, schedule_time=None))
