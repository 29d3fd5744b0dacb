"""The rows of the read models, field by field in the order of the table's columns, and the values in them.

Instants are microseconds. Text and JSON go through `clean` and `json_value`: a character that Postgres refuses would
stop the projection for good.
"""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from waterclock.core.domain.schedule.fires import Fires
from waterclock.proto.events import Instant, JobEvent
from waterclock.proto.spec import Schedule, Workflow
from waterclock.proto.verdicts import RunStatus

_NUL_IN_JSON = b"\\u0000"
_encode = msgspec.json.Encoder(enc_hook=str).encode


class RunRow(Struct, kw_only=True, gc=False):
    """`run_state`. Changed in place by the fold: a copy for each event would double its cost."""

    run_id: str
    job_id: str
    namespace: str
    workflow_run_id: str | None = None
    epoch: int | None = None
    status: RunStatus
    reason: str | None = None
    trigger: str
    version: int | None = None
    fires: int = 1
    attempt_number: int = 0
    crash_count: int = 0
    scheduled_time: Instant
    due_time: Instant
    queued_time: Instant | None = None
    start_time: Instant | None = None
    end_time: Instant | None = None
    modified_time: Instant
    executor_id: str | None = None
    exit_code: int | None = None
    error_message: str | None = None
    output: bytes | None = None
    log_url: str | None = None
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    fencing_token: int | None = None
    queue: str | None = None
    tier: str | None = None
    priority: int | None = None
    first_sequence: int
    last_sequence: int
    created_at: Instant
    parameters: bytes | None = None


class AttemptRow(Struct, frozen=True, gc=False):
    """`earlier_attempts`."""

    run_id: str
    attempt_number: int
    executor_id: str | None
    status: str
    reason: str | None
    queued_time: Instant | None
    start_time: Instant | None
    end_time: Instant
    exit_code: int | None
    error_message: str | None
    log_url: str | None
    cpu_seconds: float | None
    memory_bytes: int | None
    created_at: Instant


class JobRow(Struct, kw_only=True, gc=False):
    """A job as the fold needs it: all of `job_state`, and the small columns of `job_definitions`."""

    job_id: str
    namespace: str
    name: str
    standing: str
    """What users last made of it; `status` is that, or COMPLETED."""
    status: str
    version: int
    armed_version: int
    effective_from: Instant
    next_run_at: Instant | None = None
    last_fire_at: Instant | None = None
    fire_sequence: int | None = None
    ended_version: int | None = None
    ended_time: Instant | None = None
    ended_sequence: int | None = None
    created_at: Instant
    skipped: tuple[Instant, ...] = ()
    """Scheduled times that somebody asked to leave out, in order, as far as they are to come."""
    schedule: Schedule
    fires: Fires | None = None
    """The schedule compiled, once it was needed."""

    def state_row(self) -> tuple[Any, ...]:
        """`job_state`."""
        return (
            self.job_id,
            self.namespace,
            self.status,
            self.next_run_at,
            self.last_fire_at,
            self.fire_sequence,
            self.ended_version,
            self.ended_time,
            self.ended_sequence,
            self.created_at,
            self.skipped,
        )


class DefinitionRow(Struct, frozen=True, gc=False):
    """`job_definitions`: the job as it stands at the end of the batch, and the event with the rest."""

    job: JobRow
    event: JobEvent

    def row(self) -> tuple[Any, ...]:
        job = self.job
        return definition_row(
            self.event, job.standing, job.version, job.armed_version, job.effective_from, job.created_at
        )


def definition_row(
    event: JobEvent,
    standing: str,
    version: int,
    armed_version: int,
    effective_from: Instant,
    created_at: Instant,
) -> tuple[Any, ...]:
    """`job_definitions`, of the job's newest definition."""
    spec = event.spec
    payload = spec.payload
    return (
        event.job_id,
        spec.namespace,
        clean(spec.name) or "",
        standing,
        version,
        armed_version,
        effective_from,
        created_at,
        event.at,
        clean(event.note),
        json_value(spec.labels) if spec.labels else b"{}",
        json_value(spec if payload is None else replace(spec, payload=None)),
        None if payload is None else json_value(payload),
        type(spec.task) is Workflow,
        spec.retention is not None,
    )


def dead_letter_row(row: RunRow) -> tuple[Any, ...]:
    """`dead_letters`, of a run that is out of attempts."""
    return (
        row.run_id,
        row.job_id,
        row.namespace,
        row.status,
        row.reason,
        row.error_message,
        row.attempt_number,
        row.crash_count,
        row.executor_id,
        row.exit_code,
        row.log_url,
        row.scheduled_time,
        row.modified_time if row.end_time is None else row.end_time,
        row.queue,
        row.tier,
        row.first_sequence,
    )


def clean(text: str | None) -> str | None:
    """Text without NUL characters; None for an empty one."""
    if text and "\0" in text:
        text = text.replace("\0", "")
    return text or None


def json_value(value: Any) -> bytes:
    """JSON for a `jsonb` column."""
    encoded = _encode(value)
    return _encode(_without_nul(value)) if _NUL_IN_JSON in encoded else encoded


def _without_nul(value: Any) -> Any:
    value = msgspec.to_builtins(value, enc_hook=str)
    match value:
        case str():
            return value.replace("\0", "")
        case list():
            return [_without_nul(item) for item in value]
        case dict():
            return {_without_nul(key): _without_nul(item) for key, item in value.items()}
        case _:
            return value
