"""What a scheduler, an executor and a projector put into the control bucket about themselves.

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


class SchedulerHeartbeat(Struct, frozen=True, kw_only=True):
    instance: str
    host: str
    pid: int
    started_at: Instant
    at: Instant
    state: InstanceState
    partitions: list[PartitionStatus]


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
