"""What may be asked of the service beside defining a job. Unknown fields are refused, not ignored."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, field

from waterclock.proto.answers import JobState, RunState
from waterclock.proto.requests import JobRequest

Limit = Annotated[int, Meta(ge=1, le=1000)]
Key = Annotated[str, Meta(min_length=1, max_length=256)]
Note = Annotated[str, Meta(max_length=1000)]


Kind = Literal["job", "run"]
Stay = Annotated[float, Meta(ge=0, le=3600)] | None
"""How long a streaming call lives; None: as long as the caller stays, or an hour over NATS."""


class Nothing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question without parameters."""


class JobRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str


class JobPatch(JobRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An edit: what is not said stays as it is, null returns a field to its default."""

    job_id: str
    if_match: int | None = None
    """The version the edit is meant for; None: whatever there is."""


class PauseJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    note: Note = ""
    if_match: int | None = None


class ResumeJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    missed: bool = False
    """Take the fires missed while it was paused, by its catch-up policy."""
    if_match: int | None = None


class CancelJob(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    note: Note = ""
    if_match: int | None = None


class RunNow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    parameters: dict[str, Any] = {}
    idempotency_key: Key | None = None
    """A repeat with the same key is the same run."""


class JobBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Definitions to accept in one call. Each stays raw until its turn, so that a bad one fails alone."""

    jobs: list[Raw]
    idempotency_key: Key | None = None
    """A repeat of the whole call with the same key makes no second set of jobs."""


class JobsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: JobState | None = None
    label: tuple[str, ...] = ()
    """`key=value` or `key`; all of them must hold."""
    name: str | None = None
    queue: str | None = None
    schedule_type: str | None = None
    q: str | None = None
    """Free text, in id, name, labels and what runs."""
    created_after: datetime | None = None
    created_before: datetime | None = None
    sort: Literal["-created_at", "created_at", "name", "-updated_at", "next_run_at"] = "-created_at"
    limit: Limit = 50
    cursor: str | None = None


class RunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    status: RunState | None = None
    after: datetime | None = None
    """Runs scheduled at or after this instant."""
    before: datetime | None = None
    limit: Limit = 50
    cursor: str | None = None


class RunRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: str


class LogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: str
    follow: bool = False
    attempt: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Only this attempt's; None: all of them, one after the other."""
    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0
    stay_seconds: Stay = None


class WatchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which changes to send: of a job and its runs, of one run, of some types; of everything if nothing is said."""

    job: str | None = None
    run: str | None = None
    type: tuple[str, ...] = ()
    since: datetime | None = None
    """Start with what happened at or after this instant; None: now."""
    after: str | None = None
    """Go on after this position."""
    stay_seconds: Stay = None


class CancelRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: str
    note: Note = ""
    now: bool = False
    """Kill at once, without a grace."""


class RetryRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: str


class DeadLettersQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str | None = None
    status: Literal["FAILED", "TIMED_OUT"] | None = None
    q: str | None = None
    """Text in the reason or the error message."""
    after: datetime | None = None
    """Given up at or after this instant."""
    before: datetime | None = None
    limit: Limit = 50
    cursor: str | None = None


class Redrive(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to try again: some by their run ids, or all that a filter matches."""

    run_ids: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()
    job_id: str | None = None
    status: Literal["FAILED", "TIMED_OUT"] | None = None
    q: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    all: bool = False
    """Every one there is; without it a filter or ids are needed."""


class NextQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    n: Annotated[int, Meta(ge=1, le=1000)] = 10
    start: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="from")


class IdQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ids begin with this text? At most three are answered: enough to know whether it is one."""

    kind: Kind
    prefix: Annotated[str, Meta(min_length=1, max_length=256)]
