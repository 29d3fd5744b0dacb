"""What the service answers. Field names are the public contract's; every field is always present."""

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from waterclock.proto.policies import CatchUp, DstGap, DstOverlap, Overlap, Retry, ScheduleType
from waterclock.proto.problem import Difference, FieldError
from waterclock.proto.spec import JobFields, Node, Task
from waterclock.proto.verdicts import AccessAction, JobState, RunStatus

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    items: list[T]
    next_cursor: str | None = None


# --- jobs ----------------------------------------------------------------------------------------------


class JobAccepted(Struct, frozen=True, kw_only=True):
    job_id: str
    version: int
    status: JobState
    next_run_at: datetime | None = None
    created: bool = True
    """False when the same request was accepted before, and this is the job it made then."""
    warnings: tuple[str, ...] | UnsetType = UNSET
    """What is taken and should be done better, such as a password in clear."""


class BatchResult(Struct, frozen=True, kw_only=True):
    """One line of a bulk answer: the job as `JobAccepted`, or the problem document of its refusal."""

    line: int
    status: JobState | int
    job_id: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    next_run_at: datetime | UnsetType | None = UNSET
    created: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    errors: tuple[FieldError, ...] | UnsetType = UNSET
    differences: tuple[Difference, ...] | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET


Action = Literal["created", "updated", "unchanged"]


class Applied(Struct, frozen=True, kw_only=True):
    """What was done to make a job be as declared, or what would be. One that was cancelled is created anew."""

    job_id: str
    action: Action
    version: int | None
    differences: tuple[Difference, ...] = ()
    warnings: tuple[str, ...] | UnsetType = UNSET


class RetryPolicy(Retry, frozen=True, kw_only=True, omit_defaults=False):
    """A job's retries, with the defaults spelled out."""


class Run(Struct, frozen=True, kw_only=True):
    """One firing of a job."""

    run_id: str
    job_id: str
    status: RunStatus
    workflow_run_id: str | None = None
    epoch: int | None = None
    reason: str | None = None
    attempt_number: int = 0
    crash_count: int = 0
    scheduled_time: datetime | None = None
    due_time: datetime | None = None
    queued_time: datetime | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    modified_time: datetime | None = None
    executor_id: str | None = None
    exit_code: int | None = None
    error_message: str | None = None
    output: Any = None
    log_url: str | None = None
    fencing_token: int | None = None
    created_at: datetime | None = None


class ShownFields(JobFields, frozen=True, kw_only=True, omit_defaults=False):
    """The fields of the table as answers show them: nothing is left out."""

    retry: RetryPolicy = RetryPolicy()


class Job(ShownFields, frozen=True, omit_defaults=False):
    """A definition as it stands, with what it did last and does next.

    The schedule's fields are flat here. Those of the table follow when it is written, as they are keyword-only.
    """

    job_id: str
    name: str
    schedule_type: ScheduleType
    status: JobState
    schedule_time: datetime | None
    cron_expression: str | tuple[str, ...] | None
    interval_seconds: float | None
    timezone: str
    start_at: datetime | None
    end_at: datetime | None
    jitter_seconds: float
    max_fires: int | None
    dst_gap: DstGap
    dst_overlap: DstOverlap
    exclude: tuple[str, ...]
    task: Task
    namespace: str
    version: int
    next_run_at: datetime | None
    last_run: Run | None
    created_at: datetime
    updated_at: datetime
    note: str = ""
    """Why it was paused or cancelled, as far as somebody said."""
    warnings: tuple[str, ...] | UnsetType = UNSET
    """In the answer to a change: what is taken and should be done better."""


class DefinitionVersion(Struct, frozen=True, kw_only=True):
    """A change of a job or a workflow: every one makes a version."""

    version: int
    at: datetime
    """When it was made."""
    actor: str
    change: str
    """What was done: `created`, `updated`, `paused`, `resumed`, `cancelled`, `revived`, `rollback to version 3`."""
    fields: list[str]
    """The fields of the definition that differ from the version before."""
    status: JobState
    """The job's state from then on."""
    note: str = ""


class Declaration(Struct, frozen=True, kw_only=True):
    """A job or a workflow as `apply` takes it."""

    job_id: str
    status: JobState
    """SCHEDULED or PAUSED. A declaration does not say which."""
    definition: dict[str, Any] | None
    """All of it, by the names of a request; null where it cannot be declared."""
    left_out: str = ""
    """Why there is no definition."""


class JobStatus(Struct, frozen=True, kw_only=True):
    job_id: str
    status: JobState
    version: int
    next_run_at: datetime | None
    latest_run: Run | None


# --- runs ----------------------------------------------------------------------------------------------


class RunAccepted(Struct, frozen=True, kw_only=True):
    run_id: str


class FoundRun(Struct, frozen=True, kw_only=True):
    """A run among those of all jobs: what a list shows, without its output."""

    run_id: str
    job_id: str
    job_name: str | None
    """The job's, and of a part of a workflow the workflow's; null where nobody knows the job any more."""
    labels: dict[str, str]
    """The job's."""
    status: RunStatus
    reason: str | None
    trigger: str
    """What caused it."""
    workflow_run_id: str | None
    epoch: int | None
    attempt_number: int
    crash_count: int
    scheduled_time: datetime
    due_time: datetime
    queued_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    modified_time: datetime
    executor_id: str | None
    exit_code: int | None
    error_message: str | None
    log_url: str | None
    fencing_token: int | None
    queue: str | None
    tier: str | None
    priority: int | None
    created_at: datetime


class Attempt(Struct, frozen=True, kw_only=True):
    """One try of a run. One that was snoozed, handed back or lost does not count: the next has the same number."""

    attempt_number: int
    status: Literal["RUNNING", "SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SNOOZED", "RETURNED", "LOST"]
    """`RETURNED`: its executor drained. `LOST`: its executor died."""
    start_time: datetime | None
    end_time: datetime | None
    executor_id: str | None
    exit_code: int | None
    error_message: str | None
    """What it said about its failure, or why it ended like that."""
    cpu_seconds: float | None
    """CPU time it used; null where no process of its own ran."""
    memory_bytes: int | None
    """Most memory it used at once."""
    log_url: str | None
    """Its own output; null if there was none."""


class UpcomingFire(Struct, frozen=True, kw_only=True):
    """A time at which a schedule fires."""

    time: str
    """UTC."""
    local: str
    """The same instant with its offset: on the schedule's wall clock, or in the zone that was asked for."""
    job_id: str
    job_name: str
    """As its owner calls it."""
    note: Literal["dst_gap", "dst_overlap", "skipped"] | None
    """`skipped`: somebody asked to leave it out."""


class StatsBucket(Struct, frozen=True, kw_only=True):
    """How runs went that were scheduled in one step of time, of one key where keys are told apart."""

    start: datetime = field(name="from")
    """When the step begins."""
    job: str | UnsetType | None = UNSET
    """By job. Null: those that are not told apart: jobs that run once, and those beyond the hundred with most runs."""
    queue: str | UnsetType | None = UNSET
    """By queue. Null: runs that were never queued."""
    executor: str | UnsetType | None = UNSET
    """By executor, of the last attempt. Null: runs without one."""
    label: str | UnsetType | None = UNSET
    """By a label: its value. Null: without it, or not told apart."""
    success: int
    """Succeeded."""
    failed: int
    """Failed or timed out for good."""
    missed: int
    """Fires that were not taken."""
    skipped: int
    """Left out."""
    cancelled: int
    """Stopped."""
    p50_seconds: float | None
    """How long the last attempts took, within a tenth; null if none ended."""
    p95_seconds: float | None
    """What 95 of 100 did not exceed."""
    lag_p99_seconds: float | None
    """From due to started: what 99 of 100 did not exceed."""


class Stats(Struct, frozen=True, kw_only=True):
    """Steps of time in which nothing was scheduled are left out."""

    buckets: list[StatsBucket]
    """In the order of time."""
    start: datetime = field(name="from")
    """The range that was counted: whole steps."""
    end: datetime = field(name="to")
    """Where it ends."""
    step_seconds: int
    """How long a step is."""


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A run out of attempts."""

    run_id: str
    job_id: str
    status: RunStatus
    reason: str | None
    error_message: str | None
    attempt_number: int
    crash_count: int
    executor_id: str | None
    exit_code: int | None
    log_url: str | None
    scheduled_time: datetime
    dead_time: datetime
    queue: str | None
    tier: str | None


class Refusal(Struct, frozen=True, kw_only=True):
    id: str
    reason: str


class BulkResult(Struct, frozen=True, kw_only=True):
    """What became of many at once. Where there were too many for one call, `next_cursor` says where to go on."""

    matched: int
    """How many there were in this call; in a dry run, how many there are in all."""
    done: int
    """How many are as was asked now, or will be in a moment."""
    refused: list[Refusal] = []
    """What could not be done, and why; at most a hundred of them."""
    more_refused: int = 0
    """How many more could not be done than are listed."""
    next_cursor: str | None = None
    """Where the next call goes on; null: that was all."""


class Redriven(Struct, frozen=True, kw_only=True):
    """Runs that were asked to be tried again, and those that could not be."""

    run_ids: list[str]
    refused: list[Refusal] = []
    more: bool = False
    """There are more that match: ask again."""


class Fire(Struct, frozen=True, kw_only=True):
    time: str
    """UTC."""
    local: str
    """The same instant on the schedule's wall clock, with its offset."""
    note: Literal["dst_gap", "dst_overlap", "skipped"] | None
    """`skipped`: somebody asked to leave it out. Else the rule of daylight saving that had a say in it."""


class Fires(Struct, frozen=True, kw_only=True):
    fires: list[Fire]


class WhatIf(Struct, frozen=True, kw_only=True):
    """The fires of a schedule as it is, and as it would be after an edit that was not made."""

    before: list[Fire]
    """What fires now, in order; at most a thousand."""
    after: list[Fire]
    """What would fire then."""
    added: int
    """How many would come to it."""
    removed: int
    """How many would go."""
    status: JobState
    """Of the job as it is. While it is PAUSED none of these fires."""
    start: datetime = field(name="from")
    """The first instant that was compared."""
    end: datetime = field(name="to")
    """Compared up to here: where there are too many fires, less far than was asked."""
    more: bool = False
    """There are more fires up to the instant that was asked for."""


class LogChunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a run's output: of all its attempts, one after the other."""

    offset: int
    """The byte where it starts."""
    next: int
    """The byte where it ends: where to go on from."""
    text: str
    data: bytes | None = None
    """The bytes themselves, where they are not text."""
    last: bool = False
    """Nothing follows: the run has ended and this was all."""
    size: int | None = None
    """In the first chunk of a log that is not followed: the bytes of the whole, or of the attempt that is asked for."""


class Change(Struct, frozen=True, kw_only=True):
    """Something that happened to a job or a run."""

    position: str
    """Where to go on from; also sent alone, with the type `position`, before the first change."""
    type: str
    """The event's tag: `job_created`, `queued`, `started`, `succeeded`, …; `conflated`: what `changes` has."""
    at: datetime
    job_id: str = ""
    run_id: str | None = None
    status: RunStatus | JobState | None = None
    attempt_number: int | None = None
    reason: str | None = None
    executor_id: str | None = None
    exit_code: int | None = None
    error_message: str | None = None
    actor: str | None = None
    progress: float | None = None
    """From 0 to 1, in a `reported`; what the handler said with it is the reason."""
    final: bool = False
    """Nothing more can come of what was watched."""
    changes: "list[Change] | UnsetType" = UNSET
    """Of a conflated one: the newest change of each run and of each job since the one before."""
    counts: dict[str, int] | UnsetType = UNSET
    """With these: how often runs came to each status."""
    left_out: int | UnsetType = UNSET
    """With these: how many changes of further runs there were than are shown. Above 0 it is time to list them anew."""


# --- workflows -------------------------------------------------------------------------------------------


class WorkflowAccepted(Struct, frozen=True, kw_only=True):
    workflow_id: str
    version: int
    status: JobState
    next_run_at: datetime | None = None
    created: bool = True
    warnings: tuple[str, ...] | UnsetType = UNSET


class Workflow(Struct, frozen=True, kw_only=True):
    """A graph of nodes and when it runs."""

    workflow_id: str
    name: str
    nodes: tuple[Node, ...]
    schedule_type: ScheduleType
    status: JobState
    schedule_time: datetime | None
    cron_expression: str | tuple[str, ...] | None
    interval_seconds: float | None
    timezone: str
    start_at: datetime | None
    end_at: datetime | None
    overlap: Overlap
    catch_up: CatchUp
    labels: dict[str, str]
    metadata: dict[str, Any]
    payload: Any
    critical: bool
    idempotency_key: str | None
    version: int
    next_run_at: datetime | None
    last_run: Run | None
    created_at: datetime
    updated_at: datetime
    note: str = ""
    warnings: tuple[str, ...] | UnsetType = UNSET


class WorkflowRunAccepted(Struct, frozen=True, kw_only=True):
    workflow_run_id: str
    epoch: int | None
    """Which wave it is; null while nobody has decided yet."""


class MapProgress(Struct, frozen=True, kw_only=True):
    total: int | None
    done: int
    failed: int


class NodeRun(Struct, frozen=True, kw_only=True):
    """A node in one wave."""

    id: str
    status: RunStatus
    run_id: str | None
    attempt_number: int
    output: Any
    reason: str | None
    start_time: datetime | None = None
    end_time: datetime | None = None
    map: MapProgress | UnsetType = UNSET


class WorkflowRun(Struct, frozen=True, kw_only=True):
    """One wave."""

    workflow_run_id: str
    workflow_id: str
    epoch: int | None
    status: RunStatus
    reason: str | None
    scheduled_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    nodes: list[NodeRun]
    edges: list[tuple[str, str]]


class GraphNode(Struct, frozen=True, kw_only=True):
    """Where a node stands when its workflow is drawn, in a grid whose cells are one wide and one high."""

    id: str
    """The node."""
    layer: int
    """How many steps it is from a root, by the longest way."""
    row: float
    """How far down it is."""
    runs: str
    """What it runs, in one line."""
    is_map: bool
    """Whether it expands into members."""


class GraphEdge(Struct, frozen=True, kw_only=True):
    """What waits for what."""

    start: str = field(name="from")
    """The node that is waited for."""
    end: str = field(name="to")
    """The node that waits."""
    bends: tuple[float, ...]
    """How far down it is in each layer that it passes."""


class Graph(Struct, frozen=True, kw_only=True):
    """A workflow as it is drawn."""

    nodes: list[GraphNode]
    """In the order of the definition."""
    edges: list[GraphEdge]
    """What waits for what."""
    layers: int
    """How many layers there are."""
    height: float
    """How many rows there are."""
    version: int
    """Of the definition that it is drawn from."""


class Artifact(Struct, frozen=True, kw_only=True):
    artifact: str
    """`sha256:…`, what a job names to run it."""
    size: int
    name: str = ""
    created_at: datetime | None = None
    created: bool = True
    """False when the same bytes were there already."""


class Part(Struct, frozen=True, kw_only=True):
    number: int
    size: int


class Backfill(Struct, frozen=True, kw_only=True):
    """Past fires of a job, run beside its live schedule."""

    backfill_id: str | None
    """None for a dry run."""
    job_id: str
    status: Literal["PLANNED", "RUNNING", "PAUSED", "CANCELLED", "COMPLETED"]
    start: datetime = field(name="from")
    end: datetime = field(name="to")
    max_active: int
    total: int
    done: int = 0
    failed: int = 0
    active: int = 0
    fires: list[datetime] = []
    """The times to run; of a large backfill the first thousand."""
    created_at: datetime | None = None


class Step(Struct, frozen=True, kw_only=True):
    """One thing that happened, in words."""

    at: datetime
    what: str
    position: str = ""
    after_seconds: float | None = None
    """How long after the step before."""
    by: str = ""
    """Who wrote it: a scheduler with its lease, an executor, an api; of a definition its author."""


class Delay(Struct, frozen=True, kw_only=True):
    """A stretch of a run's life, and its share of the whole."""

    kind: Literal[
        "jitter", "scheduler", "waiting", "queue", "execution", "backoff", "snooze", "lost", "ended"
    ]
    """`scheduler`: due, and not yet decided. `waiting`: for another run or a dependency. `queue`: for an executor.
    `lost`: with an executor that died. `ended`: until somebody had it tried again."""
    start: datetime
    end: datetime
    seconds: float
    share: float
    attempt: int
    what: str


class DecidedBy(Struct, frozen=True, kw_only=True):
    """The definition a run was decided by."""

    version: int
    defined_at: datetime
    actor: str
    note: str
    policy: str


class Dependency(Struct, frozen=True, kw_only=True):
    """A job that another one waits for, and whether it has completed since that one last ran."""

    job_id: str
    completed: bool
    """Whether it has."""
    run_id: str | None = None
    """The run that completed; else its newest one."""
    at: datetime | None = None
    """When that one completed, as far as it is known."""
    status: JobState | RunStatus | None = None
    """Of its newest run, where it has not completed; that of the job if it will not run by itself."""


class Why(Struct, frozen=True, kw_only=True):
    """The chain of events that explains a run, or a moment without one."""

    subject: str
    answer: str
    """In one or two sentences."""
    steps: list[Step]
    reason: Literal[
        "ran",
        "under_way",
        "skipped",
        "missed",
        "cancelled",
        "not_created",
        "paused",
        "job_cancelled",
        "ended",
        "future",
        "undecided",
        "excluded",
        "out_of_bounds",
        "dst_gap",
        "dst_overlap",
        "not_due",
        "no_schedule",
        "unknown",
    ] = "unknown"
    """The answer for a program. The first five are of runs, the others of moments without one."""
    run_id: str | None = None
    delays: list[Delay] = []
    """Where the time of a run went, in order."""
    definition: DecidedBy | None = None
    owner: str | None = None
    """The scheduler that decided it."""
    executors: list[str] = []
    previous_fire: datetime | None = None
    """Of a moment without a run: the fires around it."""
    next_fire: datetime | None = None
    waits_for: list[Dependency] = []
    """What it waits for, if that is other jobs."""
    missing: str | None = None
    """What nobody has that could take its work, if it waits for an executor."""


class Finding(Struct, frozen=True, kw_only=True):
    fault: str
    job_id: str
    run_id: str
    scheduled_time: datetime | None
    explanation: str


class Audit(Struct, frozen=True, kw_only=True):
    """Whether every due time is accounted for exactly once. `read` below 1 is progress, without findings yet."""

    read: float
    jobs: int = 0
    expected: int = 0
    accounted: dict[str, int] = {}
    """How many due times ran, were skipped, missed, cancelled; or decided before an edit was read."""
    pending: int = 0
    """Due in the range, and not decided yet by anybody."""
    under_way: int = 0
    findings: list[Finding] = []
    """At most a thousand; `faults` counts all."""
    faults: int = 0
    clean: bool = True
    start: datetime | None = field(default=None, name="from")
    """The range that was judged. The log may reach back less far than was asked: `note` says so."""
    end: datetime | None = field(default=None, name="to")
    note: str = ""


# --- operations ------------------------------------------------------------------------------------------


class Executor(Struct, frozen=True, kw_only=True):
    executor_id: str
    status: Literal["ACTIVE", "DRAINING"]
    host: str
    pid: int
    tier: str
    queues: list[str]
    handlers: list[str]
    slots: int
    busy: int
    running: list[str]
    """Ids of the runs it has in hand; the first few hundred."""
    started_at: datetime
    seen_at: datetime
    protections: dict[str, str] = {}
    """What protects its machine from jobs: each with nothing, or with why it does not."""


class Queue(Struct, frozen=True, kw_only=True):
    """Work of one queue (or of one handler in it), tier and priority."""

    queue: str
    handler: str | None
    tier: str
    priority: int
    """Of all of it; of work of the first releases the lowest."""
    waiting: int
    running: int
    redelivered: int
    pulls: int
    """Requests for work that are open."""
    due: int = 0
    """What is due and not yet among those that wait: there is no room for it."""
    missing: str | None = None
    """What nobody has that could take its work: no executor serves the queue, the tier or the handler. Null if one
    does."""


class Partition(Struct, frozen=True, kw_only=True):
    partition: int
    owner: str | None
    host: str | None = None
    lease: int | None = None
    """The fencing token."""
    cursor: datetime | None = None
    """Every fire up to here is decided."""
    lag_seconds: float | None = None
    active_runs: int | None = None
    armed: int | None = None
    """Schedules in memory because they are due soon."""
    backlog: int | None = None
    """Fires that are due and not yet decided: there is no room for them among the executors."""
    unread: int | None = None
    """Definitions that are in the log and have not been read."""


class Check(Struct, frozen=True, kw_only=True):
    name: str
    ok: bool
    detail: str


class Load(Struct, frozen=True, kw_only=True):
    """Whether more is offered than is done."""

    saturated: bool = False
    """Doing what is there takes longer than ten seconds. Callers are slowed down: what makes work soon is accepted at
    the rate of what is done."""
    since: datetime | None = None
    behind_seconds: float = 0.0
    """The age of the oldest fire that is due and not decided."""
    drain_seconds: float = 0.0
    """How long it takes to be on time again."""
    backlog: int = 0
    """Fires that are due and not decided."""
    waits_since: datetime | None = None
    """When the first of them was due, whatever it waits for."""
    unread: int = 0
    """Definitions that no scheduler has read."""
    ended_per_second: float = 0.0
    """Runs that end while there is a backlog; without one, what it was at last."""
    accepted_per_second: float = 0.0
    """Jobs and runs accepted over the last ten seconds: by this api, and by all that slow callers down."""
    crowded: int = 0
    """Namespaces of which so much waits for executors that no more is accepted."""


class SystemStatus(Struct, frozen=True, kw_only=True):
    ok: bool
    checks: list[Check]
    load: Load = Load()


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    check: str
    verdict: Literal["ok", "warning", "problem"]
    detail: str
    advice: str = ""
    """What to do about it."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    ok: bool
    """There is no problem; there may be warnings."""
    findings: list[Diagnostic]


class Disagreement(Struct, frozen=True, kw_only=True):
    """Two doors say different things of the same."""

    about: str
    """The id of a job or run; or which queue."""
    field: str
    """What they disagree on."""
    doors: tuple[str, str]
    """Who says it: `log`, `SQL`, `REST`, `listing`, `next`, `why`, `queues`, `heartbeats`, `dead letters`."""
    says: tuple[str, str]
    """What each of them says."""

    def __str__(self) -> str:
        first, second = zip(self.doors, self.says, strict=True)
        return f"{self.about}: {self.field} is {first[1]} by {first[0]}, {second[1]} by {second[0]}"


class Consistency(Struct, frozen=True, kw_only=True):
    """Whether all doors say the same. `read` below 1 is progress, without a result yet."""

    read: float
    """How much has been compared, from 0 to 1."""
    ok: bool = False
    jobs: int = 0
    """How many jobs were looked at."""
    runs: int = 0
    """How many runs were looked at."""
    count: int = 0
    """How many disagreements there are."""
    disagreements: list[Disagreement] = []
    """The first thousand of them."""
    note: str = ""
    """The result in words."""


class Token(Struct, frozen=True, kw_only=True):
    token_id: str
    scopes: tuple[str, ...]
    namespace: str
    note: str
    rate_per_second: float | None
    created_at: datetime
    expires_at: datetime | None
    queues: tuple[str, ...] = ()
    """Whose work it may take: only with the scope `execute`."""
    handlers: tuple[str, ...] = ()
    """Which handlers' work in these queues it may take."""
    nats_inbox: str = ""
    """The prefix of the inboxes that it may listen to on NATS."""
    token: str | None = None
    """The secret itself, shown once: in the answer to its creation."""


class Identity(Struct, frozen=True, kw_only=True):
    actor: str
    """As what is changed with this token is recorded."""
    namespace: str
    """The tenant it is for."""
    scopes: tuple[str, ...]
    """What it may do."""
    expires_at: datetime | None
    """When it ends; null: never."""
    nats_inbox: str
    """The prefix of the inboxes that it may listen to on NATS."""


class SignInLink(Struct, frozen=True, kw_only=True):
    path: str
    """To put behind the address of the api. It works once."""
    expires_at: datetime | None = None
    """Until when it works; null: nobody needs to sign in."""


class Quarantined(Struct, frozen=True, kw_only=True):
    """A record that a component could not read, and left out."""

    record_id: str
    """The stream it is in, and its sequence there: `RUNS.4711`."""
    component: str
    """Who could not read it."""
    subject: str
    """Where in the stream it is."""
    at: datetime
    """When it was first read."""
    error: str
    """What is wrong with it."""
    size: int
    """Its bytes."""
    data: str | None = None
    """The beginning of it, with what is no text replaced; only where one is asked for."""


class Namespace(Struct, frozen=True, kw_only=True):
    namespace: str
    max_jobs: int | None
    jobs: int
    """Scheduled or paused now."""
    default_max_retries: int = 0
    """Attempts after the first, of definitions that do not say."""
    default_timeout_seconds: float | None = None
    """What definitions have that do not say; null: no timeout."""


class Secret(Struct, frozen=True, kw_only=True):
    """What is known of a secret. Its value is in no answer."""

    name: str
    version: int
    """1, and one more each time that it is set."""
    updated_at: datetime
    actor: str
    """Who set it."""


class KeyRotation(Struct, frozen=True, kw_only=True):
    key_id: str
    """Of the key that all secrets are encrypted with now."""
    encrypted: int
    """How many were encrypted anew."""
    secrets: int
    """How many there are."""
    former_keys: tuple[str, ...] = ()
    """Ids of keys that are kept, or given, and that no secret needs any more."""


class AccessRecord(Struct, frozen=True, kw_only=True):
    """Something that was done to who may do what, or somebody who was not let in."""

    at: datetime
    action: AccessAction
    actor: str
    """The token, as `token:<id>`; empty if nobody knows it."""
    address: str
    """Where the request came from; `nats` for one over NATS, which does not tell."""
    namespace: str
    """What it concerns; empty if that is not known."""
    subject: str
    """The token, secret or namespace that was changed, or the method that was denied."""
    detail: str = ""
    failed: bool = False
    """The change was announced by the record before, and not made after all."""
    unrecorded: int = 0
    """How many denials before this one left no record of their own, because there were too many."""


class Ids(Struct, frozen=True, kw_only=True):
    ids: list[str]


class Health(Struct, frozen=True, kw_only=True):
    status: Literal["ok", "unavailable"]
    detail: str = ""
