"""The definitions of a bulk call. A line like one before is taken apart by its shape, and never becomes a request."""

import msgspec
from msgspec import structs

from waterclock.api.auth.gate import Caller
from waterclock.api.commands.idempotency import new_job, own_id
from waterclock.api.commands.job_specs import DefaultsOf
from waterclock.api.commands.own_artifacts import names_artifacts
from waterclock.api.commands.similar_definitions import (
    OWN,
    common_of,
    define_line,
    is_plain,
    may_be_id,
    may_be_key,
    read_plain,
)
from waterclock.api.eventlog.alike_jobs import AlikeJob, JobKind, When
from waterclock.api.eventlog.job_frames import NewJob
from waterclock.api.views import next_run_at
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.job.line_shape import LineShape, shape_of
from waterclock.core.domain.job.parse import schedule_like
from waterclock.core.domain.job.schedule import plain_schedule
from waterclock.core.domain.schedule import utc_cron
from waterclock.core.runtime.settings import Settings
from waterclock.proto.codec import encode
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobRequest, PreviewRequest, Schedule

_MANY = 16
_MOST_SHAPES = 4
"""That are learned in a call of many lines: to learn one takes as long as to read a few of them, and each is tried on
every line that has none of those before."""

_decode = msgspec.json.Decoder().decode
_DECODE = {
    field.name: msgspec.json.Decoder(field.type).decode
    for field in structs.fields(JobRequest)
    if field.name in OWN
}


class BulkReader:
    """Reads the lines of one call."""

    def __init__(
        self, call: str, lines: int, now: Instant, settings: Settings, caller: Caller, defaults: DefaultsOf
    ) -> None:
        """`call` names it: with the place of a line it is the cause of a job."""
        self._now = now
        self._settings = settings
        self._caller = caller
        self._defaults = defaults
        self._call = call
        self._shapes: list[_AlikeLines] = []
        self._to_learn = _MOST_SHAPES if lines >= _MANY else 0

    def read(self, line: bytes, place: int) -> NewJob | AlikeJob:
        """Raises Refused. What an `AlikeJob` depends on needs no look: there is nothing."""
        cause = f"{self._call}/{place}"
        for alike in self._shapes:
            job = alike.read(line, cause)
            if job is not None:
                return job
        spec, chosen = define_line(line, self._now, self._settings, self._caller, self._defaults)
        if self._to_learn:
            self._to_learn -= 1
            self._learn(line)
        return new_job(spec, chosen, self._now, self._caller, cause)

    def _learn(self, line: bytes) -> None:
        request = read_plain(line, self._settings)
        if request is None or isinstance(request.workflow_id, str):
            return
        spec = common_of(request, self._now, self._settings, self._caller, self._defaults)
        if spec is None or spec.dependencies or names_artifacts(spec):
            return
        shape = shape_of(line, OWN, widest="payload")
        if shape is not None:
            kind = JobKind(spec, self._now, self._caller.actor)
            self._shapes.append(_AlikeLines(shape, kind, self._settings.payload_limit))


class _AlikeLines:
    """Lines of one shape."""

    def __init__(self, shape: LineShape, kind: JobKind, most_bytes: int) -> None:
        self._shape = shape
        self._kind = kind
        self._most_bytes = most_bytes
        self._whens: dict[tuple[bytes, ...], When | None] = {}
        """By what is said of the schedule. None: something is wrong with it."""
        places = {field: place for place, field in enumerate(shape.fields)}
        self._payload, self._key, self._job_id = (
            places.pop(field, None) for field in ("payload", "idempotency_key", "job_id")
        )
        self._scheduling = tuple(places.items())
        self._cron = places.get("cron", places.get("cron_expression")) if len(places) == 1 else None
        """Where it is, if nothing else is said of the schedule."""

    def read(self, line: bytes, cause: str) -> AlikeJob | None:
        """None if the line has another shape, or only the full reader can say what is wrong with it."""
        values = self._shape.values(line)
        if values is None or not is_plain(line, self._most_bytes):
            return None
        try:
            when = self._when(values)
            payload = None if self._payload is None else _rewritten(values[self._payload])
            key = None if self._key is None else _DECODE["idempotency_key"](values[self._key])
            chosen = None if self._job_id is None else _DECODE["job_id"](values[self._job_id])
        except (ValueError, RecursionError):
            return None
        if when is None:
            return None
        job_id = None
        if key is not None or chosen is not None:
            if not may_be_key(key) or not may_be_id(chosen):
                return None
            job_id = own_id(self._kind.spec.namespace, chosen, key)
        return AlikeJob(
            kind=self._kind,
            when=when,
            schedule=when.schedule,
            payload=payload,
            idempotency_key=key,
            job_id=job_id,
            cause=cause,
        )

    def _when(self, values: list[bytes]) -> When | None:
        when = None if self._cron is None else self._of_cron(values[self._cron])
        if when is not None:
            return when
        said = tuple([values[place] for _, place in self._scheduling])
        if said not in self._whens:
            self._whens[said] = self._work_out(said)
        return self._whens[said]

    def _of_cron(self, value: bytes) -> When | None:
        """Where nothing else is said of the schedule. A cron that fires next is valid; None: that is not known here.
        Each line may have another, so none is remembered."""
        text = _DECODE["cron_expression"](value)
        if not isinstance(text, str):
            return None
        text = text.strip()
        fire = utc_cron.next_fire(text, self._kind.at)
        if fire is None:
            return None
        return self._kind.when(Schedule(schedule_type="CRON", cron_expression=(text,)), datetime_of(fire))

    def _work_out(self, said: tuple[bytes, ...]) -> When | None:
        spec, now = self._kind.spec, self._kind.at
        fields = {
            field: _DECODE[field](value) for (field, _), value in zip(self._scheduling, said, strict=True)
        }
        schedule = plain_schedule(fields, spec.name) or schedule_like(spec, PreviewRequest(**fields), now)
        if schedule is None:
            return None
        if len(fields) == 1 and schedule.schedule_time is not None:
            return self._kind.when(schedule, schedule.schedule_time)
        first = next_run_at(schedule, spec.name, "SCHEDULED", None, now, now)
        if first is None and schedule.schedule_type == "CRON":
            return None
        return self._kind.when(schedule, first)


def _rewritten(payload: bytes) -> bytes | None:
    """A payload as the log has it; None where there is none."""
    value = _decode(payload)
    return None if value is None else encode(value)
