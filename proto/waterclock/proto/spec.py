"""A job's definition: the table of its fields, as stored and shown, and as a request says them.

`JobSpec` is what the log holds; `JobRequest` is what a user writes, where every field is optional and several are two
spellings of one thing; `waterclock.core.domain.job` makes the first of the second. A plain field is one line in
`JobFields` and one of the same name in `JobRequest`: answers, schemas, the command line and the reference follow from
them. Field names are the public contract's. Instants are timezone-aware datetimes, written as RFC 3339.
"""

import shlex
from datetime import datetime
from typing import Annotated, Any, get_args

from msgspec import UNSET, Meta, Struct, UnsetType, field

from waterclock.proto.fields import Flag, about
from waterclock.proto.policies import (
    AnyRule,
    Arguments,
    CatchUp,
    CatchUpPolicy,
    CatchUpRequest,
    Command,
    Count,
    Cron,
    Delivery,
    DependencyRule,
    Digest,
    DstGap,
    DstOverlap,
    Duration,
    Env,
    Headers,
    Id,
    JobIds,
    Key,
    Labels,
    Limits,
    LimitsRequest,
    LocalTime,
    Name,
    Overlap,
    Priority,
    Retention,
    RetentionRequest,
    Retries,
    Retry,
    RetryRequest,
    ScheduleType,
    Seconds,
    SecondsFromZero,
    Tier,
    Time,
    TriggerRule,
    Unsaid,
    Value,
)

# --- what runs -------------------------------------------------------------------------------------------


class Shell(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="shell"):
    command: str
    env: dict[str, Value] = {}

    @property
    def summary(self) -> str:
        """What runs, in one line; every kind has it."""
        return self.command


class Argv(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="argv"):
    command: tuple[str, ...]
    env: dict[str, Value] = {}

    @property
    def summary(self) -> str:
        return shlex.join(self.command)


class Artifact(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="artifact"):
    artifact: str
    args: tuple[str, ...] = ()
    entry: str | None = None
    """The program inside an archive; None for a plain file."""
    env: dict[str, Value] = {}

    @property
    def summary(self) -> str:
        return " ".join((self.artifact[:19], *self.args))


class Http(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="http"):
    url: str
    method: str = "GET"
    headers: dict[str, Value] = {}
    body: Any = None
    ok: tuple[int, ...] = ()
    """Statuses that count as success; none given means 200-299."""

    @property
    def summary(self) -> str:
        return f"{self.method} {self.url}"


class HttpRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    url: Annotated[str, Meta(min_length=1, max_length=8_192)]
    """Where to."""
    method: Annotated[str, Meta(min_length=1, max_length=32)] | UnsetType = UNSET
    """GET if not said."""
    headers: Headers | Unsaid = UNSET
    """Headers of the request."""
    body: Any | UnsetType = UNSET
    """JSON, or a text that is sent as it is."""
    ok: (
        Annotated[int, Meta(ge=100, le=599)]
        | Annotated[list[Annotated[int, Meta(ge=100, le=599)]], Meta(max_length=500)]
        | Unsaid
    ) = UNSET
    """Statuses that count as success; 200 to 299 if none is said."""


class Handler(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="handler"):
    handler: str

    @property
    def summary(self) -> str:
        return f"handler {self.handler}"


SingleTask = Shell | Argv | Artifact | Http | Handler

RUNS = ("command", "artifact", "http", "job_type", "handler")
"""The fields of a request of which one says what runs."""
ALONGSIDE = {"args": ("artifact",), "entry": ("artifact",), "env": ("command", "artifact")}
"""Fields that only mean something beside certain others."""


class FanOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Expand into one member per item of a list, a range, a node's output or an artifact's lines."""

    over: Any
    max_concurrency: int = 100
    tolerated_failures: int | str = 0


class FanOutRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    over: Annotated[Any, about('A list, `{"range": N}`, `{"from": "node id"}` or `{"lines": "sha256:…"}`.')]
    max_concurrency: Count | UnsetType = UNSET
    """How many members may be under way at a time."""
    tolerated_failures: Annotated[
        Annotated[int, Meta(ge=0)] | str | UnsetType,
        about("A count, or a share of all members such as `5%`."),
    ] = UNSET


class WorkFields(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job and a node have in common about an attempt."""

    payload: Any = None
    max_retries: int = 0
    retry: Retry = Retry()
    timeout_seconds: float | None = None
    tier: Tier = "light"
    queue: str = "default"
    priority: int = 0


class WorkRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a job and a node say alike: what runs, and how an attempt is treated."""

    command: Annotated[
        Command | Unsaid,
        about(
            "A shell command line, or an array: a program and its arguments.",
            Flag("--shell", "STR", help="A shell command line."),
        ),
    ] = UNSET
    http: Annotated[HttpRequest | Unsaid, about("An HTTP call.", Flag("--http", "METHOD URL", "call"))] = (
        UNSET
    )
    job_type: Annotated[Id | Unsaid, about("The same as `handler`.")] = UNSET
    handler: Annotated[Id | Unsaid, about("A handler that a worker serves.", Flag("--handler", "H"))] = UNSET
    artifact: Annotated[
        Digest | Unsaid,
        about(
            "The digest of an artifact to run.",
            Flag("--artifact", "FILE", help="A file to upload and run, or its digest; arguments after --."),
        ),
    ] = UNSET
    args: Annotated[Arguments | Unsaid, about("The artifact's arguments.")] = UNSET
    entry: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1_024)] | Unsaid,
        about("The program inside an artifact that is an archive."),
    ] = UNSET
    env: Annotated[
        Annotated[Env, Meta(max_length=1_000)] | Unsaid,
        about(
            'Environment of a command or an artifact; `{"secret": "NAME"}` stands for a secret\'s value.',
            Flag(
                "--env", "K=V", "pairs", help="Environment of a command; K=secret:NAME for a secret's value."
            ),
        ),
    ] = UNSET
    payload: Annotated[
        Any | UnsetType, about("JSON handed to the job.", Flag("--payload", "JSON", "json"))
    ] = UNSET
    max_retries: Annotated[
        Retries | Unsaid,
        about("Attempts after the first; 3, or as the settings have it.", Flag("--retries", "N", "number")),
    ] = UNSET
    retries: Annotated[Retries | Unsaid, about("The same as `max_retries`.")] = UNSET
    retry: Annotated[RetryRequest | Unsaid, about("How long to wait before an attempt is repeated.")] = UNSET
    timeout_seconds: Annotated[
        SecondsFromZero | Unsaid,
        about("Longest an attempt may take, in seconds; an hour, or as the settings have it; 0: any time."),
    ] = UNSET
    timeout: Annotated[
        Duration | Unsaid, about("Longest an attempt may take: 90s, 5m.", Flag("--timeout", "D"))
    ] = UNSET
    priority: Annotated[
        Priority | Unsaid, about("0 to 100; higher goes first.", Flag("--priority", "N", "number"))
    ] = UNSET
    tier: Annotated[Tier | Unsaid, about("light, medium or heavy.", Flag("--tier", "T"))] = UNSET
    queue: Annotated[Id | Unsaid, about("The queue it waits in.", Flag("--queue", "Q"))] = UNSET
    delivery: Annotated[
        Delivery | Unsaid,
        about(
            "Never two attempts at once.",
            Flag("--exactly-once/--at-least-once", "", "switch", ("exactly_once", "at_least_once")),
        ),
    ] = UNSET
    slots: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | Unsaid, about("Slots of an executor that an attempt takes.")
    ] = UNSET
    concurrency_key: Annotated[Key | Unsaid, about("Runs with the same key share `concurrency_limit`.")] = (
        UNSET
    )
    concurrency_limit: Annotated[
        Count | Unsaid, about("Runs with the same key at a time; 1 if only the key is said.")
    ] = UNSET
    rate_key: Annotated[Key | Unsaid, about("Runs with the same key share `rate_per_second`.")] = UNSET
    rate_per_second: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | Unsaid, about("Starts per second of runs with the same key.")
    ] = UNSET
    limits: Annotated[LimitsRequest | Unsaid, about("What one attempt may use.")] = UNSET
    secrets: Annotated[
        Annotated[list[Key], Meta(max_length=1_000)] | Unsaid,
        about("Names of environment values to mask in output; those of secrets always are."),
    ] = UNSET


class Node(WorkFields, frozen=True, omit_defaults=True):
    """One step of a workflow."""

    id: str
    task: SingleTask
    depends_on: tuple[str, ...] = ()
    trigger_rule: TriggerRule = "all_success"
    condition: str | None = None
    map: FanOut | None = None
    slots: int = 1
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    rate_key: str | None = None
    rate_per_second: float | None = None
    delivery: Delivery | None = None
    """None, and of the next one too: as the workflow has it."""
    limits: Limits | None = None
    secrets: tuple[str, ...] = ()
    """Those of the workflow are masked, too."""


class NodeRequest(WorkRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step of a workflow."""

    id: Id
    """The node's id, unique in its workflow."""
    depends_on: Annotated[list[Id], Meta(max_length=10_000)] | Unsaid = UNSET
    """Nodes that it waits for."""
    trigger_rule: TriggerRule | AnyRule | Unsaid = UNSET
    """What must have become of them for it to run."""
    condition: Annotated[str, Meta(min_length=1, max_length=4_096)] | Unsaid = UNSET
    """A template; the node is skipped where it is not true."""
    map: FanOutRequest | Unsaid = UNSET
    """Expand the node into one member per item."""


class Workflow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="workflow"):
    """A graph of nodes. A workflow is a job with such a task, so every schedule and policy applies to it."""

    nodes: tuple[Node, ...]

    @property
    def summary(self) -> str:
        return f"workflow of {len(self.nodes)} nodes"


Task = SingleTask | Workflow


# --- when it runs ----------------------------------------------------------------------------------------


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a job fires. Every field beside `schedule_type` narrows or shapes that type."""

    schedule_type: ScheduleType = "IMMEDIATE"
    schedule_time: datetime | None = None
    cron_expression: tuple[str, ...] = ()
    interval_seconds: float | None = None
    timezone: str = "UTC"
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter_seconds: float = 0
    max_fires: int | None = None
    dst_gap: DstGap = "next_valid"
    dst_overlap: DstOverlap = "first"
    exclude: tuple[str, ...] = ()


class PreviewRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The next fire times of a schedule that need not be anybody's yet. The fields are a job's."""

    name: Name | Unsaid = UNSET
    schedule: Annotated[str, Meta(min_length=1, max_length=256)] | Unsaid = UNSET
    cron: Cron | Unsaid = UNSET
    cron_expression: Cron | Unsaid = UNSET
    timezone: Annotated[str, Meta(min_length=1, max_length=64)] | Unsaid = UNSET
    every: Duration | Unsaid = UNSET
    interval_seconds: Seconds | Unsaid = UNSET
    schedule_time: LocalTime | Unsaid = UNSET
    delay: Duration | Unsaid = UNSET
    schedule_type: ScheduleType | Unsaid = UNSET
    start_at: LocalTime | Unsaid = UNSET
    end_at: LocalTime | Unsaid = UNSET
    jitter_seconds: SecondsFromZero | Unsaid = UNSET
    max_fires: Count | Unsaid = UNSET
    dst_gap: DstGap | Unsaid = UNSET
    dst_overlap: DstOverlap | Unsaid = UNSET
    exclude: Annotated[list[Annotated[str, Meta(max_length=128)]], Meta(max_length=1_000)] | Unsaid = UNSET
    start: Annotated[Time | Unsaid, about("The first instant that may fire; now if not said.")] = field(
        default=UNSET, name="from"
    )
    n: Annotated[int, Meta(ge=1, le=1_000)] = 10
    overlap: Annotated[Overlap | Unsaid, about("Taken as a job has it; it moves no fire.")] = UNSET
    catch_up: Annotated[
        CatchUpPolicy | CatchUpRequest | Unsaid, about("Taken as a job has it; it moves no fire.")
    ] = UNSET


# --- the table -------------------------------------------------------------------------------------------


class JobFields(WorkFields, frozen=True, kw_only=True, omit_defaults=True):
    """The fields that `JobSpec` stores and an answer shows alike."""

    labels: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    dependency_rule: DependencyRule = "since_last_run"
    slots: int = 1
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    rate_key: str | None = None
    rate_per_second: float | None = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = CatchUp()
    start_deadline_seconds: float | None = None
    pause_on_failure: int | None = None
    delivery: Delivery = "at_least_once"
    critical: bool = False
    retention: Retention | None = None
    limits: Limits | None = None
    secrets: tuple[str, ...] = ()
    fan_out: FanOut | None = None
    idempotency_key: str | None = None


class JobSpec(JobFields, frozen=True, omit_defaults=True):
    """The full definition of a job. Immutable: an edit is a new one with a new version.

    Its own fields are not keyword-only, so that they come first when it is written.
    """

    name: str
    task: Task
    schedule: Schedule = Schedule()
    namespace: str = "default"


class JobRequest(WorkRequest, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A definition as a user writes it, and equally an edit: what is not said stays as it is."""

    job_id: Annotated[Id | Unsaid, about("The id to give it; one is made if not said.")] = UNSET
    workflow_id: Annotated[Id | Unsaid, about("The same as `job_id`, said of a workflow.")] = UNSET
    namespace: Annotated[Id | Unsaid, about("The namespace it belongs to.")] = UNSET
    name: Annotated[Name | Unsaid, about("What to call it; what it runs is called so otherwise.")] = UNSET
    nodes: Annotated[
        Annotated[list[NodeRequest], Meta(min_length=1, max_length=10_000)] | Unsaid,
        about("The steps of a workflow."),
    ] = UNSET

    schedule: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | Unsaid,
        about("A cron, an RFC 3339 time, `every 30s`, or `now`."),
    ] = UNSET
    cron: Annotated[Cron | Unsaid, about("Cron expression.", Flag("--cron", "E", "texts"))] = UNSET
    cron_expression: Annotated[Cron | Unsaid, about("The same as `cron`.")] = UNSET
    timezone: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)] | Unsaid,
        about("IANA time zone of the cron.", Flag("--tz", "Z")),
    ] = UNSET
    every: Annotated[Duration | Unsaid, about("Fixed interval: 30s, 5m, 1h30m.", Flag("--every", "D"))] = (
        UNSET
    )
    interval_seconds: Annotated[Seconds | Unsaid, about("Fixed interval in seconds.")] = UNSET
    schedule_time: Annotated[
        LocalTime | Unsaid,
        about("Once, at an RFC 3339 time; without an offset it is one of `timezone`.", Flag("--at", "T")),
    ] = UNSET
    delay: Annotated[Duration | Unsaid, about("Once, after a delay.", Flag("--in", "D"))] = UNSET
    schedule_type: Annotated[
        ScheduleType | Unsaid, about("What the other fields make of it; said, they must agree.")
    ] = UNSET
    start_at: Annotated[
        LocalTime | Unsaid, about("No fires before this time; without an offset it is one of `timezone`.")
    ] = UNSET
    end_at: Annotated[
        LocalTime | Unsaid,
        about("No fires at or after this time; without an offset it is one of `timezone`."),
    ] = UNSET
    jitter_seconds: Annotated[
        SecondsFromZero | Unsaid, about("Spread each fire over this much time after it is due.")
    ] = UNSET
    max_fires: Annotated[Count | Unsaid, about("End the schedule after this many fires.")] = UNSET
    dst_gap: Annotated[
        DstGap | Unsaid, about("A local time that a change of the clock leaves out: fire after it, or not.")
    ] = UNSET
    dst_overlap: Annotated[
        DstOverlap | Unsaid, about("A local time that comes twice: fire at the first, or at both.")
    ] = UNSET
    exclude: Annotated[
        Annotated[list[Annotated[str, Meta(max_length=128)]], Meta(max_length=1_000)] | Unsaid,
        about("Local dates (`2026-12-25`) or windows (`2026-12-24T00:00:00Z/2026-12-27T00:00:00Z`)."),
    ] = UNSET
    dependencies: Annotated[
        JobIds | Unsaid, about("Run when this job has ended well.", Flag("--after", "JOB", "texts"))
    ] = UNSET
    dependency_rule: Annotated[
        DependencyRule | Unsaid,
        about("Which of their runs count: since this job's last run, or for the same scheduled time."),
    ] = UNSET

    overlap: Annotated[
        Overlap | Unsaid,
        about(
            f"{', '.join(get_args(Overlap)[:-1])} or {get_args(Overlap)[-1]}.",
            Flag("--overlap", "P"),
        ),
    ] = UNSET
    catch_up: Annotated[
        CatchUpPolicy | CatchUpRequest | Unsaid,
        about("After downtime: none, latest or all.", Flag("--catch-up", "P")),
    ] = UNSET
    labels: Annotated[Labels | Unsaid, about("Labels to find it by.", Flag("--label", "K=V", "pairs"))] = (
        UNSET
    )
    metadata: Annotated[
        Annotated[dict[str, Any], Meta(max_length=1_000)] | Unsaid, about("Anything to keep with the job.")
    ] = UNSET
    critical: Annotated[
        bool | Unsaid, about("Alert when it fails.", Flag("--critical/--not-critical", "", "switch"))
    ] = UNSET
    start_deadline_seconds: Annotated[
        Seconds | Unsaid, about("A run that has not started so long after it was due is missed.")
    ] = UNSET
    pause_on_failure: Annotated[
        Count | Unsaid, about("Pause the schedule after this many failed runs in a row.")
    ] = UNSET
    retention: Annotated[
        RetentionRequest | Unsaid, about("How long and how many finished runs stay in the read models.")
    ] = UNSET
    fan_out: Annotated[FanOutRequest | Unsaid, about("Expand into one member per item.")] = UNSET
    idempotency_key: Annotated[Key | Unsaid, about("A repeat with the same key makes no second job.")] = UNSET
