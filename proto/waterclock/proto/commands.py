"""What a user may say when defining a job, a workflow or a preview.

All of it is optional, and several fields are two spellings of one thing: these structs mirror the contract, and
`waterclock.core.domain.definition` makes a `JobSpec` of them. Bounds that a schema can express stand here, so
that they show in the OpenAPI document and in editors.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from waterclock.proto.names import ID_PATTERN
from waterclock.proto.spec import (
    CatchUpPolicy,
    Delivery,
    DependencyRule,
    DstGap,
    DstOverlap,
    Overlap,
    ScheduleType,
    Tier,
    TriggerRule,
)

_CENTURY = 36_525 * 86_400

Unsaid = UnsetType | None
"""UNSET: not said, so the default, or in an edit what it was. Null: the default, said outright."""

ENV_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,255}$"
DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
JOB_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_~-]{0,79}$"
"""Any job's id, those of our own making included."""

Id = Annotated[str, Meta(pattern=ID_PATTERN)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Time = Annotated[datetime, Meta(tz=True)]
Seconds = Annotated[float, Meta(gt=0, le=_CENTURY)]
SecondsFromZero = Annotated[float, Meta(ge=0, le=_CENTURY)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Bytes = Annotated[int, Meta(ge=1, le=2**53)]
Retries = Annotated[int, Meta(ge=0, le=1_000)]
Priority = Annotated[int, Meta(ge=0, le=100)]
Key = Annotated[str, Meta(min_length=1, max_length=256)]
Env = dict[Annotated[str, Meta(pattern=ENV_PATTERN)], str]
Labels = Annotated[dict[Id, Annotated[str, Meta(max_length=256)]], Meta(max_length=64)]
JobIds = Annotated[list[Annotated[str, Meta(pattern=JOB_PATTERN)]], Meta(max_length=1_000)]
Digest = Annotated[str, Meta(pattern=DIGEST_PATTERN)]
Arguments = Annotated[list[str], Meta(max_length=10_000)]
Command = Annotated[str, Meta(min_length=1)] | Annotated[list[str], Meta(min_length=1, max_length=10_000)]
Cron = str | Annotated[list[str], Meta(min_length=1, max_length=32)]
Duration = str | float
"""`30s`, `5m`, `1h30m`, `2d`, or a number of seconds."""


class CatchUpRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    policy: CatchUpPolicy | UnsetType = UNSET
    window_seconds: SecondsFromZero | UnsetType = UNSET


class RetryRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    initial_seconds: SecondsFromZero | UnsetType = UNSET
    factor: Annotated[float, Meta(ge=1, le=1_000)] | UnsetType = UNSET
    max_seconds: SecondsFromZero | UnsetType = UNSET
    jitter: bool | UnsetType = UNSET
    retry_on_timeout: bool | UnsetType = UNSET
    non_retryable_exit_codes: (
        Annotated[list[Annotated[int, Meta(ge=-255, le=255)]], Meta(max_length=256)] | UnsetType
    ) = UNSET
    non_retryable_errors: Annotated[list[Key], Meta(max_length=256)] | UnsetType = UNSET


class RetentionRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    days: Annotated[float, Meta(gt=0, le=36_525)] | Unsaid = UNSET
    successes: Annotated[int, Meta(ge=0, le=2**31 - 1)] | Unsaid = UNSET
    failures: Annotated[int, Meta(ge=0, le=2**31 - 1)] | Unsaid = UNSET


class LimitsRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    cpu_seconds: Seconds | Unsaid = UNSET
    memory_bytes: Bytes | Unsaid = UNSET
    output_bytes: Bytes | Unsaid = UNSET
    open_files: Count | Unsaid = UNSET
    processes: Count | Unsaid = UNSET


class HttpRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    url: Annotated[str, Meta(min_length=1, max_length=8_192)]
    method: Annotated[str, Meta(min_length=1, max_length=32)] | UnsetType = UNSET
    headers: Annotated[dict[str, str], Meta(max_length=64)] | Unsaid = UNSET
    body: Any | UnsetType = UNSET
    ok: (
        Annotated[int, Meta(ge=100, le=599)]
        | Annotated[list[Annotated[int, Meta(ge=100, le=599)]], Meta(max_length=500)]
        | Unsaid
    ) = UNSET


class FanOutRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    over: Any
    """A list, `{"range": N}`, `{"from": "node id"}` or `{"lines": "sha256:…"}`."""
    max_concurrency: Count | UnsetType = UNSET
    tolerated_failures: Annotated[int, Meta(ge=0)] | str | UnsetType = UNSET
    """A count, or a share of all members such as `5%`."""


AnyRule = Literal["any_success", "any_failed", "any_done"]
"""Other words for `one_success`, `one_failed` and `one_done`."""


class NodeRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step of a workflow. What runs is said as in a job; a struct has one base, so it is repeated here."""

    id: Id
    depends_on: Annotated[list[Id], Meta(max_length=10_000)] | Unsaid = UNSET
    trigger_rule: TriggerRule | AnyRule | Unsaid = UNSET
    condition: Annotated[str, Meta(min_length=1, max_length=4_096)] | Unsaid = UNSET
    map: FanOutRequest | Unsaid = UNSET

    command: Command | Unsaid = UNSET
    artifact: Digest | Unsaid = UNSET
    args: Arguments | Unsaid = UNSET
    entry: Annotated[str, Meta(min_length=1, max_length=1_024)] | Unsaid = UNSET
    env: Annotated[Env, Meta(max_length=1_000)] | Unsaid = UNSET
    http: HttpRequest | Unsaid = UNSET
    job_type: Id | Unsaid = UNSET
    handler: Id | Unsaid = UNSET
    payload: Any | UnsetType = UNSET
    max_retries: Retries | Unsaid = UNSET
    retries: Retries | Unsaid = UNSET
    retry: RetryRequest | Unsaid = UNSET
    timeout_seconds: Seconds | Unsaid = UNSET
    timeout: Duration | Unsaid = UNSET
    tier: Tier | Unsaid = UNSET
    queue: Id | Unsaid = UNSET
    priority: Priority | Unsaid = UNSET


class ScheduleFields(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When it fires."""

    name: Name | Unsaid = UNSET
    schedule: Annotated[str, Meta(min_length=1, max_length=256)] | Unsaid = UNSET
    """A cron, an RFC 3339 instant, `every 30s`, or `now`."""
    schedule_type: ScheduleType | Unsaid = UNSET
    schedule_time: Time | Unsaid = UNSET
    delay: Duration | Unsaid = UNSET
    cron_expression: Cron | Unsaid = UNSET
    cron: Cron | Unsaid = UNSET
    """The same as `cron_expression`."""
    every: Duration | Unsaid = UNSET
    interval_seconds: Seconds | Unsaid = UNSET
    timezone: Annotated[str, Meta(min_length=1, max_length=64)] | Unsaid = UNSET
    start_at: Time | Unsaid = UNSET
    end_at: Time | Unsaid = UNSET
    jitter_seconds: SecondsFromZero | Unsaid = UNSET
    max_fires: Count | Unsaid = UNSET
    dst_gap: DstGap | Unsaid = UNSET
    dst_overlap: DstOverlap | Unsaid = UNSET
    exclude: Annotated[list[Annotated[str, Meta(max_length=128)]], Meta(max_length=1_000)] | Unsaid = UNSET


class PreviewRequest(ScheduleFields, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The next fire times of a schedule that need not be anybody's yet."""

    start: Time | Unsaid = field(default=UNSET, name="from")
    """The first instant that may fire; now if not said."""
    n: Annotated[int, Meta(ge=1, le=1_000)] = 10
    overlap: Overlap | Unsaid = UNSET
    catch_up: CatchUpPolicy | CatchUpRequest | Unsaid = UNSET
    """What becomes of a fire moves none: these are taken so that a job's fields can be shown as they are."""


class JobRequest(ScheduleFields, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A definition as a user writes it, and equally an edit: what is not said stays as it is."""

    job_id: Id | Unsaid = UNSET
    namespace: Id | Unsaid = UNSET
    command: Command | Unsaid = UNSET
    """A string goes to the shell; an array is argv."""
    artifact: Digest | Unsaid = UNSET
    args: Arguments | Unsaid = UNSET
    entry: Annotated[str, Meta(min_length=1, max_length=1_024)] | Unsaid = UNSET
    env: Annotated[Env, Meta(max_length=1_000)] | Unsaid = UNSET
    http: HttpRequest | Unsaid = UNSET
    job_type: Id | Unsaid = UNSET
    """The name of a handler that a worker serves."""
    handler: Id | Unsaid = UNSET
    """The same as `job_type`."""
    payload: Any | UnsetType = UNSET
    max_retries: Retries | Unsaid = UNSET
    retries: Retries | Unsaid = UNSET
    """The same as `max_retries`."""
    retry: RetryRequest | Unsaid = UNSET
    timeout_seconds: Seconds | Unsaid = UNSET
    timeout: Duration | Unsaid = UNSET
    """The same as `timeout_seconds`, as `90s` or `5m`."""
    tier: Tier | Unsaid = UNSET
    queue: Id | Unsaid = UNSET
    priority: Priority | Unsaid = UNSET
    labels: Labels | Unsaid = UNSET
    metadata: Annotated[dict[str, Any], Meta(max_length=1_000)] | Unsaid = UNSET
    dependencies: JobIds | Unsaid = UNSET
    dependency_rule: DependencyRule | Unsaid = UNSET
    """Which runs of the dependencies count: those since this job's last run, or those of the same scheduled time."""
    slots: Annotated[int, Meta(ge=1, le=10_000)] | Unsaid = UNSET
    concurrency_key: Key | Unsaid = UNSET
    concurrency_limit: Count | Unsaid = UNSET
    rate_key: Key | Unsaid = UNSET
    rate_per_second: Annotated[float, Meta(gt=0, le=1e9)] | Unsaid = UNSET
    overlap: Overlap | Unsaid = UNSET
    catch_up: CatchUpPolicy | CatchUpRequest | Unsaid = UNSET
    start_deadline_seconds: Seconds | Unsaid = UNSET
    pause_on_failure: Count | Unsaid = UNSET
    delivery: Delivery | Unsaid = UNSET
    critical: bool | Unsaid = UNSET
    retention: RetentionRequest | Unsaid = UNSET
    limits: LimitsRequest | Unsaid = UNSET
    secrets: Annotated[list[Key], Meta(max_length=1_000)] | Unsaid = UNSET
    fan_out: FanOutRequest | Unsaid = UNSET
    idempotency_key: Key | Unsaid = UNSET
    workflow_id: Id | Unsaid = UNSET
    """The same as `job_id`, said of a workflow."""
    nodes: Annotated[list[NodeRequest], Meta(min_length=1, max_length=10_000)] | Unsaid = UNSET
