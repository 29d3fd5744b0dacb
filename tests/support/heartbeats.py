"""What a scheduler would say of itself."""

from waterclock.proto.heartbeats import PartitionStatus, SchedulerHeartbeat, SchedulerLoad


def scheduler_heartbeat(
    load: SchedulerLoad | None, *, at: int = 0, instance: str = "s", unread: int = 0, backlog: int = 0
) -> SchedulerHeartbeat:
    """Of one that owns partition 0 and nothing else."""
    held = PartitionStatus(
        partition=0,
        token=1,
        jobs_cursor=0,
        time_cursor=0,
        active_runs=0,
        armed=0,
        lag_seconds=0,
        backlog=backlog,
        unread=unread,
    )
    return SchedulerHeartbeat(
        instance=instance,
        host="h",
        pid=1,
        started_at=at,
        at=at,
        state="running",
        partitions=[held],
        load=load,
    )
