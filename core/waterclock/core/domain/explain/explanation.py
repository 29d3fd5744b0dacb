"""What is explained (events, with where and by whom they were written) and the answer."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from waterclock.proto.events import Instant, JobEvent, RunEvent

JobHistory = Sequence[tuple[int, JobEvent]]
"""The definitions a job has had, each with its version, in order."""


class Recorded(Struct, frozen=True, kw_only=True, gc=False):
    sequence: int
    writer: str
    event: RunEvent
    owner_before: str | None = None
    """Who wrote the last frame of an owner before this one."""
    decided_before: Instant | None = None
    """Up to when that frame had everything decided."""


def instance_of(writer: str) -> str:
    """A scheduler writes as `<instance>/<lease>`."""
    return writer.partition("/")[0]


Reason = Literal[
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
]
"""Why, for a program. The first five are of runs, the others of moments without one."""

DelayKind = Literal[
    "jitter", "scheduler", "waiting", "queue", "execution", "backoff", "snooze", "lost", "ended"
]
"""`scheduler`: due, and not yet decided. `waiting`: for another run or a dependency. `queue`: for an executor.
`lost`: with an executor that died. `ended`: until somebody had it tried again."""


class Step(Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    at: Instant
    what: str
    sequence: int | None = None
    """Of `RUNS`; None for a definition."""
    by: str = ""
    """Who wrote it."""


class Delay(Struct, frozen=True, kw_only=True):
    """A stretch of a run's life, and its share of the whole."""

    kind: DelayKind
    start: Instant
    end: Instant
    share: float
    attempt: int
    what: str


class Destination(Struct, frozen=True, kw_only=True):
    """Where the work of a run goes."""

    queue: str
    handler: str | None
    tier: str


class DecidedBy(Struct, frozen=True, kw_only=True):
    """The definition a run was decided by."""

    version: int
    at: Instant
    actor: str
    note: str
    policy: str


class Explanation(Struct, frozen=True, kw_only=True):
    subject: str
    reason: Reason
    answer: str
    """In one or two sentences."""
    steps: tuple[Step, ...] = ()
    delays: tuple[Delay, ...] = ()
    definition: DecidedBy | None = None
    decided_by: str | None = None
    """The scheduler that owned the partition."""
    executors: tuple[str, ...] = ()
    run_id: str | None = None
    previous: Instant | None = None
    """The fire before the moment asked about."""
    following: Instant | None = None
    waits_in: Destination | None = None
    """It is queued, or has no room there yet. Whether anybody could take it, the executors say."""
    waits_for_dependencies: bool = False
    """It waits for other jobs. Which of these have completed, the owner of the partition knows."""
