"""What the components put into the control bucket about themselves.

An entry expires soon after its instance stops renewing it. Every field of the executor's has a default, because
alerts and tables are to get by with what an older executor wrote.
"""

from msgspec import Struct

from waterclock.proto.events import Instant
from waterclock.proto.verdicts import InstanceState


class PartitionStatus(Struct, frozen=True, kw_only=True):
    partition: int
    token: int
    jobs_cursor: int
    time_cursor: int
    active_runs: int
    armed: int
    lag_seconds: float
    backlog: int = 0
    """Fires that are due and not yet decided: there is no room for them among the executors."""
    unread: int = 0
    """Definitions that are in the log and have not been read."""
    settled: int = -1
    """As in the cursor of a frame. -1: a scheduler that does not say."""
    waits_since: Instant | None = None
    """When the first was due of what is not decided, whatever it waits for. None: nothing waits."""


class SchedulerHeartbeat(Struct, frozen=True, kw_only=True):
    instance: str
    host: str
    pid: int
    started_at: Instant
    at: Instant
    state: InstanceState
    partitions: list[PartitionStatus]
    load: "SchedulerLoad | None" = None
    """None: a scheduler that does not say."""


class SchedulerLoad(Struct, frozen=True, kw_only=True):
    """How far behind a scheduler is, over all of its partitions."""

    to_drain: int = 0
    """What is to be done before it is on time again: definitions unread, and fires due and not decided. Not what waits
    for the slots of slow work: that is a queue, and no lack of the scheduler."""
    ended_per_second: float = 0.0
    """How many runs a second end while there is a backlog: what it can do. Without a backlog what it could at last."""
    behind_seconds: float = 0.0
    """The age of the oldest fire that is due and not decided."""
    saturated_since: Instant | None = None
    """Since when draining takes longer than the limit."""

    @property
    def drain_seconds(self) -> float:
        return self.to_drain / self.ended_per_second if self.ended_per_second else 0.0


DRAIN_LIMIT_SECONDS = 10.0
"""Above this, callers are slowed down to what is done."""


class ApiHeartbeat(Struct, frozen=True, kw_only=True):
    """Only while an api slows callers down: then several of them share what may be accepted."""

    instance: str
    at: Instant
    accepted_per_second: float = 0.0
    refused_per_second: float = 0.0
    """Calls, not jobs: what is refused is not read."""


class Progress(Struct, frozen=True, kw_only=True):
    """How far an attempt says it has come."""

    done: float
    """From 0 to 1."""
    note: str = ""


class ExecutorHeartbeat(Struct, frozen=True, kw_only=True):
    instance: str = ""
    host: str = ""
    pid: int = 0
    tier: str = "heavy"
    queues: list[str] = []
    handlers: list[str] = []
    slots: int = 0
    used: int = 0
    running: list[str] = []
    """Run ids; the first few hundred."""
    more: bool = False
    """It runs more than it lists."""
    progress: dict[str, Progress] = {}
    """Of the listed runs that have reported any."""
    state: InstanceState = "running"
    started_at: Instant = 0
    at: Instant = 0


class ProjectorHeartbeat(Struct, frozen=True, kw_only=True):
    instance: str
    host: str
    pid: int
    started_at: Instant
    at: Instant
    partitions: list[int]
