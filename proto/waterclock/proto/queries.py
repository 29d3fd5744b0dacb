"""What only asks: the requests of all methods that read, and references to one thing. Unknown fields are refused."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from waterclock.proto.events import Trigger
from waterclock.proto.verdicts import AccessAction, JobState, RunStatus

Limit = Annotated[int, Meta(ge=1, le=1000)]
Kind = Literal["job", "run"]
Stay = Annotated[float, Meta(ge=0, le=3600)] | None
"""How long a streaming call lives; None: as long as the caller stays, or an hour over NATS."""


class QuarantineRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    record_id: str
    """The stream the record is in, and its sequence there: `RUNS.4711`."""


class Nothing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question without parameters."""


class ConsistencyQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    all: bool = False
    """Every job and run of the namespace, and not only a few: it reads the whole log."""
    sample: Annotated[int, Meta(ge=1, le=500)] = 30
    """How many of the newest jobs and runs, and of those that are open."""


class JobRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str


class JobFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs: all of it must hold. A listing and a bulk change find the same ones by it."""

    status: JobState | None = None
    label: tuple[str, ...] = ()
    """`key=value` or `key`; all of them must hold."""
    name: str | None = None
    queue: str | None = None
    schedule_type: str | None = None
    q: str | None = None
    """Free text, in id, name, labels and what runs."""
    created_after: datetime | None = None
    """Made at or after this instant."""
    created_before: datetime | None = None
    """Made before this instant."""


class JobsQuery(JobFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sort: Literal["-created_at", "created_at", "name", "-updated_at", "next_run_at"] = "-created_at"
    limit: Limit = 50
    cursor: str | None = None


Version = Annotated[int, Meta(ge=1, le=2**53)]


class VersionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    limit: Limit = 50
    cursor: str | None = None


class VersionRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    version: Version


class ExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: tuple[str, ...] = ()
    """`key=value` or `key`; all of them must hold. None said: every job and workflow."""
    after: str | None = None
    """Go on after the job with this id: they come in the order of their ids."""


class RunFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs: all of it must hold. A listing and a bulk change find the same ones by it."""

    status: tuple[RunStatus, ...] = ()
    """One of these; none said: any."""
    job: str | None = None
    """Of this job."""
    workflow_run: str | None = None
    """Part of this workflow run or fan-out."""
    label: tuple[str, ...] = ()
    """`key=value` or `key`, of the job; all of them must hold."""
    queue: str | None = None
    executor: str | None = None
    """The executor that had it last."""
    trigger: Trigger | None = None
    """What caused it."""
    q: str | None = None
    """Text in the job's name, the run's id or its error."""
    start: datetime | None = field(default=None, name="from")
    """Scheduled at or after this instant."""
    end: datetime | None = field(default=None, name="to")
    """Scheduled before this instant."""


class RunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    status: RunStatus | None = None
    after: datetime | None = None
    """Runs scheduled at or after this instant."""
    before: datetime | None = None
    limit: Limit = 50
    cursor: str | None = None


class RunSearch(RunFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs of all jobs. A page may be short, or even empty, and yet not the last: so much was looked through."""

    limit: Limit = 50
    cursor: str | None = None


class UpcomingQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What fires in [from, to), of all schedules: at most 31 days."""

    start: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="from")
    """None: now."""
    end: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="to")
    """None: a day later."""
    job: str | None = None
    """Only of this job."""
    label: tuple[str, ...] = ()
    """`key=value` or `key`; all of them must hold."""
    tz: str | None = None
    """The zone of `local`; None: each schedule's own."""
    limit: Limit = 50
    cursor: str | None = None


class StatsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How runs scheduled in [from, to) went, in buckets of `step`."""

    start: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="from")
    """None: a day before `to`."""
    end: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="to")
    """None: now."""
    step: str | None = None
    """A duration of whole minutes, as in `5m` or `1h`; None: one that fits the range."""
    by: Annotated[str, Meta(pattern=r"^(job|queue|executor|label:.{1,128})$")] | None = None
    """What to tell apart: `job`, `queue`, `executor` or `label:<key>`; None: nothing."""


class AccessQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who did what. An administrator of the default namespace sees all, others their own namespace."""

    action: AccessAction | None = None
    actor: str | None = None
    """`token:<id>`, or just the id."""
    namespace: str | None = None
    after: datetime | None = None
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
    tail: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    """Only the last so many bytes of what there is."""
    stay_seconds: Stay = None


class WatchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which changes to send: of a job and its runs, of one run, of a workflow run and its parts, of some ids, of some
    types; of everything if nothing is said."""

    job: str | None = None
    run: str | None = None
    workflow_run: str | None = None
    """This workflow run or fan-out, and all that is part of it."""
    ids: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    """Of these jobs and runs."""
    type: tuple[str, ...] = ()
    since: datetime | None = None
    """Start with what happened at or after this instant; None: now."""
    after: str | None = None
    """Go on after this position."""
    conflate: str | None = None
    """A duration, as in `200ms`: at most so often, the newest change of each run and job, and counts."""
    stay_seconds: Stay = None


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


class NextQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str
    n: Annotated[int, Meta(ge=1, le=1000)] = 10
    start: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="from")


class ArtifactRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    digest: Annotated[str, Meta(pattern=r"^(sha256:)?[0-9a-f]{64}$")]


class BackfillsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: str | None = None


class BackfillRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    backfill_id: str


class WhyQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is as it is; or why a job did or did not run at a moment."""

    run_id: str | None = None
    job_id: str | None = None
    at: Annotated[datetime, Meta(tz=True)] | None = None


class AuditQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    start: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="from")
    end: Annotated[datetime, Meta(tz=True)] | None = field(default=None, name="to")


class WorkflowRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workflow_id: str


class WorkflowVersionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workflow_id: str
    limit: Limit = 50
    cursor: str | None = None


class WorkflowVersionRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workflow_id: str
    version: Version


class WorkflowRunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workflow_id: str
    status: RunStatus | None = None
    limit: Limit = 50
    cursor: str | None = None


class WorkflowRunRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workflow_run_id: str


class IdQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ids begin with this text? At most three are answered: enough to know whether it is one."""

    kind: Kind
    prefix: Annotated[str, Meta(min_length=1, max_length=256)]
