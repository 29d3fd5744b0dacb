"""What a scheduler says of itself in its heartbeat; `waterclock partitions` shows it."""

from msgspec import Struct


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
    started_at: int
    at: int
    state: str
    partitions: list[PartitionStatus]
