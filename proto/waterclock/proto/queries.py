"""What may be asked of the service beside defining a job. Unknown fields are refused, not ignored."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from waterclock.proto.answers import JobState, RunState

Limit = Annotated[int, Meta(ge=1, le=1000)]
Key = Annotated[str, Meta(min_length=1, max_length=256)]
Note = Annotated[str, Meta(max_length=1000)]


Stay = Annotated[float, Meta(ge=0, le=3600)] | None
"""How long a streaming call lives; None: as long as the caller stays, or an hour over NATS."""


class Nothing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question without parameters."""


class JobRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str


class JobBatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Definitions to accept in one call. Each stays raw until its turn, so that a bad one fails alone."""

    jobs: Annotated[list[Raw], Meta(max_length=10_000)]


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
    offset: Annotated[int, Meta(ge=0)] = 0
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
