"""How a job's runs are treated: the values that policies take, each as it is stored and as a request says it.

Bounds stand in the request's types only, where a schema can show them: what the log holds is read as it is.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from waterclock.proto.names import ID_PATTERN

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
AnyRule = Literal["any_success", "any_failed", "any_done"]
"""Other words for `one_success`, `one_failed` and `one_done`."""

Unsaid = UnsetType | None
"""UNSET: not said, so the default, or in an edit what it was. Null: the default, said outright."""

_CENTURY = 36_525 * 86_400

ENV_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,255}$"
DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
JOB_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_~-]{0,79}$"
"""Any job's id, those of our own making included."""

Id = Annotated[str, Meta(pattern=ID_PATTERN)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Time = Annotated[datetime, Meta(tz=True)]
LocalTime = datetime
"""With an offset, or without one as the clocks show it in the schedule's `timezone`."""
Seconds = Annotated[float, Meta(gt=0, le=_CENTURY)]
SecondsFromZero = Annotated[float, Meta(ge=0, le=_CENTURY)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Bytes = Annotated[int, Meta(ge=1, le=2**53)]
MemoryBytes = Annotated[int, Meta(ge=1024, le=2**53)]
Retries = Annotated[int, Meta(ge=0, le=1_000)]
Priority = Annotated[int, Meta(ge=0, le=100)]
Key = Annotated[str, Meta(min_length=1, max_length=256)]
SecretName = Annotated[str, Meta(pattern=ID_PATTERN)]
Note = Annotated[str, Meta(max_length=1000)]
Labels = Annotated[dict[Id, Annotated[str, Meta(max_length=256)]], Meta(max_length=64)]
JobIds = Annotated[list[Annotated[str, Meta(pattern=JOB_PATTERN)]], Meta(max_length=1_000)]
Digest = Annotated[str, Meta(pattern=DIGEST_PATTERN)]
Arguments = Annotated[list[str], Meta(max_length=10_000)]
Command = Annotated[str, Meta(min_length=1)] | Annotated[list[str], Meta(min_length=1, max_length=10_000)]
Cron = str | Annotated[list[str], Meta(min_length=1, max_length=32)]
Duration = str | float
"""`30s`, `5m`, `1h30m`, `2d`, or a number of seconds."""


class SecretRef(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stands for the value of a secret. The executor puts that in its place when an attempt starts, and nobody else."""

    secret: SecretName


Value = str | SecretRef
"""Of an environment variable or a header: as it is, or by the name of a secret."""
Env = dict[Annotated[str, Meta(pattern=ENV_PATTERN)], Value]
Headers = Annotated[dict[str, Value], Meta(max_length=64)]


class CatchUp(Struct, frozen=True, kw_only=True):
    policy: CatchUpPolicy = "latest"
    window_seconds: float = 3600


class CatchUpRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    policy: CatchUpPolicy | UnsetType = UNSET
    """What becomes of fires that came due in a downtime: none, the latest or all of them."""
    window_seconds: SecondsFromZero | UnsetType = UNSET
    """How old a fire may be that is caught up on."""


class Retry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    initial_seconds: float = 1
    factor: float = 2
    max_seconds: float = 3600
    jitter: bool = True
    retry_on_timeout: bool = True
    non_retryable_exit_codes: tuple[int, ...] = ()
    non_retryable_errors: tuple[str, ...] = ()


class RetryRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    initial_seconds: SecondsFromZero | UnsetType = UNSET
    """The wait before the first repeat."""
    factor: Annotated[float, Meta(ge=1, le=1_000)] | UnsetType = UNSET
    """By how much the wait grows with each one."""
    max_seconds: SecondsFromZero | UnsetType = UNSET
    """The longest wait."""
    jitter: bool | UnsetType = UNSET
    """Whether waits are spread, so that what failed together does not come back together."""
    retry_on_timeout: bool | UnsetType = UNSET
    """Whether an attempt that took too long is repeated."""
    non_retryable_exit_codes: (
        Annotated[list[Annotated[int, Meta(ge=-255, le=255)]], Meta(max_length=256)] | UnsetType
    ) = UNSET
    """Exit codes after which nothing is repeated."""
    non_retryable_errors: Annotated[list[Key], Meta(max_length=256)] | UnsetType = UNSET
    """Names of exceptions after which nothing is repeated."""


class Retention(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long and how many finished runs stay in the read models; None means the system's default."""

    days: float | None = None
    successes: int | None = None
    failures: int | None = None


class RetentionRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    days: Annotated[float, Meta(gt=0, le=36_525)] | Unsaid = UNSET
    """How many days."""
    successes: Annotated[int, Meta(ge=0, le=2**31 - 1)] | Unsaid = UNSET
    """How many that succeeded."""
    failures: Annotated[int, Meta(ge=0, le=2**31 - 1)] | Unsaid = UNSET
    """How many that did not."""


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one attempt may use; None means the executor's default."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    output_bytes: int | None = None
    open_files: int | None = None
    processes: int | None = None
    file_bytes: int | None = None
    """Of the largest file it may write."""


class LimitsRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    cpu_seconds: Seconds | Unsaid = UNSET
    """CPU time of its process."""
    memory_bytes: MemoryBytes | Unsaid = UNSET
    """Address space of its process."""
    output_bytes: Bytes | Unsaid = UNSET
    """How much of its output is kept."""
    open_files: Count | Unsaid = UNSET
    """How many files it may have open."""
    processes: Count | Unsaid = UNSET
    """How many processes its user may have."""
    file_bytes: Bytes | Unsaid = UNSET
    """How large a file it may write."""
