"""What changes something: the requests of all methods that write. Unknown fields are refused, not ignored.

A definition itself is a `JobRequest` (spec.py).
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, field

from waterclock.proto import names
from waterclock.proto.fields import about
from waterclock.proto.policies import Key, Labels, Note, SecretName, Time, Unsaid
from waterclock.proto.queries import JobFilter, RunFilter, Version
from waterclock.proto.spec import JobRequest


class JobPatch(JobRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An edit: what is not said stays as it is, null returns a field to its default."""

    job_id: str
    if_match: int | None = None
    """The version the edit is meant for; None: whatever there is."""


class JobWhatIf(JobPatch, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An edit that is not made: what would fire then that does not now, and the other way round."""

    start: Annotated[Time | Unsaid, about("The first instant to compare; now if not said.")] = field(
        default=UNSET, name="from"
    )
    end: Annotated[
        Time | Unsaid, about("Compare up to this instant, at most a year; 31 days if not said.")
    ] = field(default=UNSET, name="to")


class Rollback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An edit that makes a job's definition what it was at a version. Whether it is paused stays as it is."""

    job_id: str
    version: Version
    """The version whose definition it is to have again."""
    if_match: int | None = None


class BulkJobs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of many jobs and workflows: of some by their ids, or of all that a filter matches. What is as asked
    already does not match, so that a repeat goes on where it was cut short."""

    action: Annotated[Literal["pause", "resume", "cancel", "runNow"], about("What to do with each of them.")]
    ids: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()
    """The jobs, by their ids."""
    filter: JobFilter | None = None
    """The jobs, by what a listing finds them by; `{}` is every one there is."""
    dry_run: bool = False
    note: Note = ""
    missed: bool = False
    """With `resume`: take the fires missed while it was paused, by each job's catch-up policy."""
    idempotency_key: Key | None = None
    """With `runNow`: a repeat with the same key makes no second run."""
    cursor: str | None = None
    """Go on where a call left off: `next_cursor` of its answer."""


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


class Apply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a job or workflow be as declared: created, changed, or left alone if it is so already."""

    definition: dict[str, Any]
    """As for a creation. It needs an id, and is complete: what it does not say is at its default."""
    dry_run: bool = False
    beside: Annotated[tuple[str, ...], Meta(max_length=100_000)] = ()
    """Ids that are declared together with this one: a dry run takes them as being there."""
    mark: Labels = {}
    """Labels to put on what is created or changed, beside its own. What lacks nothing but these is left as it is."""


class CancelRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: str
    note: Note = ""
    now: bool = False
    """Kill at once, without a grace."""


class RetryRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run_id: str


class BulkRuns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing asked of many runs: of some by their ids, or of all that a filter matches. Of those only the ones it
    means something for match: what has not ended is cancelled, what ended badly is tried again."""

    action: Annotated[Literal["cancel", "retry"], about("What to do with each of them.")]
    ids: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()
    """The runs, by their ids."""
    filter: RunFilter | None = None
    """The runs, by what a listing finds them by; `{}` is every one there is."""
    dry_run: bool = False
    note: Note = ""
    now: bool = False
    """With `cancel`: kill at once, without a grace."""
    cursor: str | None = None
    """Go on where a call left off: `next_cursor` of its answer."""


class DeadLetterFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str | None = None
    status: Literal["FAILED", "TIMED_OUT"] | None = None
    q: str | None = None
    after: datetime | None = None
    before: datetime | None = None


class Redrive(DeadLetterFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to try again: some by their run ids, or all that a filter matches."""

    run_ids: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()
    ids: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()
    """The same as `run_ids`."""
    filter: DeadLetterFilter | None = None
    """The same as its fields beside `run_ids`."""
    all: bool = False
    """Every one there is; without it a filter or ids are needed."""


class Upload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A small artifact in one request (base64). Larger ones go in parts, or over REST as they are."""

    data: bytes
    name: Annotated[str, Meta(max_length=256)] = ""
    """What people call it; its digest is what jobs name."""


class UploadPart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    upload_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
    """Drawn by who uploads."""
    number: Annotated[int, Meta(ge=0, le=100_000)]
    data: bytes


class UploadEnd(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    upload_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{8,64}$")]
    parts: Annotated[int, Meta(ge=0, le=100_000)]
    name: Annotated[str, Meta(max_length=256)] = ""


class BackfillRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run a job for past times, beside its live schedule. `to` is exclusive."""

    job_id: str
    start: Annotated[datetime, Meta(tz=True)] = field(name="from")
    end: Annotated[datetime, Meta(tz=True)] = field(name="to")
    max_active: Annotated[int, Meta(ge=1, le=1000)] = 1
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    reprocess: Literal["missing", "failed", "all"] = "missing"
    """Times that never ran; also those whose run ended badly; or all."""
    dry_run: bool = False
    idempotency_key: Key | None = None


class SkipNext(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leave out one occurrence: the next one, or the one at a time."""

    job_id: str
    scheduled_time: Annotated[datetime, Meta(tz=True)] | None = None
    note: Note = ""


RouteName = Annotated[str, Meta(pattern=names.ID_PATTERN)]


class TokenRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody or something that may use the service, and how far."""

    scopes: Annotated[
        tuple[Literal["read", "submit", "operate", "execute", "secrets", "admin"], ...],
        Meta(min_length=1, max_length=6),
    ]
    namespace: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")] = "default"
    note: Note = ""
    rate_per_second: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    expires_in_seconds: Annotated[float, Meta(ge=1, le=315_576_000)] | None = None
    queues: Annotated[tuple[RouteName, ...], Meta(min_length=1, max_length=20)] = ("default",)
    """Whose work it may take, with the scope `execute`."""
    handlers: Annotated[tuple[RouteName, ...], Meta(max_length=50)] = ()
    """Which handlers' work in these queues it may take; that of commands and HTTP calls it may take anyway."""


class TokenRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token_id: str


class QuotaRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    namespace: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$")]
    max_jobs: Annotated[int, Meta(ge=0)] | None = None
    """Jobs that are scheduled or paused at the same time; None: as many as they like."""
    default_max_retries: Annotated[int, Meta(ge=0, le=1_000)] | None = None
    """Attempts after the first, of definitions that do not say; None: as in all namespaces."""
    default_timeout_seconds: Annotated[float, Meta(ge=0, le=3_155_760_000)] | None = None
    """The longest that an attempt may take, of definitions that do not say; 0: as long as it likes."""


class SetSecret(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: SecretName
    value: Annotated[str, Meta(min_length=4, max_length=65_536)]
    """At least four characters: shorter ones could not be masked in output."""

    def __repr__(self) -> str:
        return f"SetSecret(name={self.name!r}, value=…)"


class DeleteSecret(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: SecretName


class WorkflowPatch(JobRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An edit of a workflow: what is not said stays as it is."""

    workflow_id: str
    if_match: int | None = None


class WorkflowWhatIf(WorkflowPatch, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An edit of a workflow that is not made: which waves would begin then, and which would not."""

    start: Annotated[Time | Unsaid, about("The first instant to compare; now if not said.")] = field(
        default=UNSET, name="from"
    )
    end: Annotated[
        Time | Unsaid, about("Compare up to this instant, at most a year; 31 days if not said.")
    ] = field(default=UNSET, name="to")


class WorkflowRollback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An edit that makes a workflow's definition what it was at a version."""

    workflow_id: str
    version: Version
    """The version whose definition it is to have again."""
    if_match: int | None = None


class CancelWorkflow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workflow_id: str
    note: Note = ""
    if_match: int | None = None


class RunWorkflow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workflow_id: str
    parameters: dict[str, Any] = {}
    idempotency_key: Key | None = None


class Rerun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run part of a wave that has ended again, under the same ids."""

    workflow_run_id: str
    nodes: Annotated[tuple[str, ...], Meta(max_length=10_000)] = field(default=(), name="from")
    """From these nodes on; none said means from those that did not succeed."""
    note: Note = ""


class MarkNode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Say by hand how a node ended."""

    workflow_run_id: str
    node: str
    status: Literal["SUCCESS", "SKIPPED"]
    output: Any = None
    note: Note = ""
