"""What a user defines: a job's full definition, as stored in the log and shown in answers.

Field names are the public contract's. Instants here are timezone-aware datetimes, written as RFC 3339.
"""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

ScheduleType = Literal["IMMEDIATE", "FUTURE", "CRON", "INTERVAL", "DEPENDENT"]
Overlap = Literal["allow", "skip", "queue_one", "queue_all", "cancel_previous", "terminate_previous"]
Tier = Literal["light", "medium", "heavy"]
Delivery = Literal["at_least_once", "exactly_once"]
DstGap = Literal["next_valid", "skip"]
DstOverlap = Literal["first", "both"]
CatchUpPolicy = Literal["none", "latest", "all"]
DependencyRule = Literal["since_last_run", "same_time"]
TriggerRule = Literal[
    "all_success",
    "all_failed",
    "all_done",
    "one_success",
    "one_failed",
    "one_done",
    "none_failed",
    "none_failed_min_one_success",
    "none_skipped",
    "all_skipped",
    "all_done_min_one_success",
    "always",
]


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
    """Local dates (`2026-12-25`) or windows of instants (`2026-12-24T00:00:00Z/2026-12-27T00:00:00Z`)."""


class CatchUp(Struct, frozen=True, kw_only=True):
    policy: CatchUpPolicy = "latest"
    window_seconds: float = 3600


class Retry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    initial_seconds: float = 1
    factor: float = 2
    max_seconds: float = 3600
    jitter: bool = True
    retry_on_timeout: bool = True
    non_retryable_exit_codes: tuple[int, ...] = ()
    non_retryable_errors: tuple[str, ...] = ()


class Retention(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long and how many finished runs stay in the read models; None means the system's default."""

    days: float | None = None
    successes: int | None = None
    failures: int | None = None


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one attempt may use; None means the executor's default."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    output_bytes: int | None = None
    open_files: int | None = None
    processes: int | None = None


class Shell(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="shell"):
    command: str
    env: dict[str, str] = {}


class Argv(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="argv"):
    command: tuple[str, ...]
    env: dict[str, str] = {}


class Artifact(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="artifact"):
    artifact: str
    args: tuple[str, ...] = ()
    entry: str | None = None
    """The program inside an archive; None for a plain file."""
    env: dict[str, str] = {}


class Http(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="http"):
    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: Any = None
    ok: tuple[int, ...] = ()
    """Statuses that count as success; none given means 200-299."""


class Handler(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="handler"):
    handler: str


class FanOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Expand into one member per item of a list, a range, a node's output or an artifact's lines."""

    over: Any
    max_concurrency: int = 100
    tolerated_failures: int | str = 0


class Node(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a workflow."""

    id: str
    task: "Shell | Argv | Artifact | Http | Handler"
    depends_on: tuple[str, ...] = ()
    trigger_rule: TriggerRule = "all_success"
    payload: Any = None
    condition: str | None = None
    map: FanOut | None = None
    max_retries: int = 0
    retry: Retry = Retry()
    timeout_seconds: float | None = None
    tier: Tier = "light"
    queue: str = "default"
    priority: int = 0


class Workflow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="workflow"):
    """A graph of nodes. A workflow is a job whose runs are waves, so every schedule and policy applies to it."""

    nodes: tuple[Node, ...]


Task = Shell | Argv | Artifact | Http | Handler | Workflow


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The full definition of a job. Immutable: an edit is a new one with a new version."""

    name: str
    task: Task
    schedule: Schedule = Schedule()
    namespace: str = "default"
    payload: Any = None
    labels: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    dependency_rule: DependencyRule = "since_last_run"
    """Which runs of the dependencies count: those that succeeded since this job's last run, or the ones scheduled for
    the same time."""
    priority: int = 0
    tier: Tier = "light"
    queue: str = "default"
    slots: int = 1
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    rate_key: str | None = None
    rate_per_second: float | None = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = CatchUp()
    start_deadline_seconds: float | None = None
    pause_on_failure: int | None = None
    """Pause the schedule after this many failed runs in a row."""
    max_retries: int = 0
    retry: Retry = Retry()
    timeout_seconds: float | None = None
    delivery: Delivery = "at_least_once"
    critical: bool = False
    retention: Retention | None = None
    limits: Limits | None = None
    secrets: tuple[str, ...] = ()
    """Names of environment values to mask in output."""
    fan_out: FanOut | None = None
    idempotency_key: str | None = None
