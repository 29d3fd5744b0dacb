"""What alerts need beside the log of runs: definitions, what the executors serve, how far the schedulers are behind."""

from waterclock.core.domain.system_load import SystemLoad, system_load
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.fleet import read_heartbeats
from waterclock.core.jetstream.messages import last_message, next_message
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.quarantine import read_job_frame
from waterclock.proto import names
from waterclock.proto.heartbeats import ExecutorHeartbeat, SchedulerHeartbeat
from waterclock.proto.spec import JobSpec


async def definition_of(log: Connection, job_id: str, partitions: int) -> JobSpec | None:
    """As it is now; None if the log no longer holds it."""
    roots = [job_id, job_id.partition("~")[0]] if "~" in job_id else [job_id]
    for root in roots:
        stored = await last_message(
            log, names.JOBS, names.job_subject(names.partition_of(root, partitions), root)
        )
        if stored is None or not stored.data:
            continue
        for event in read_job_frame(stored).events:
            if event.job_id == job_id:
                return event.spec
    return None


async def served_routes(control: Bucket) -> set[tuple[str, str]]:
    """(route, tier) that an executor takes work from; a heavier executor takes lighter work too."""
    found: set[tuple[str, str]] = set()
    for beat in await read_heartbeats(control, "executor", ExecutorHeartbeat):
        heaviest = names.TIERS.index(beat.tier) if beat.tier in names.TIERS else len(names.TIERS) - 1
        for queue in beat.queues:
            routes = [names.route_of(queue, handler) for handler in (None, *beat.handlers)]
            found |= {(route, tier) for route in routes for tier in names.TIERS[: heaviest + 1]}
    return found


async def new_in_quarantine(log: Connection, after: int) -> tuple[int, str] | None:
    """The first record that somebody could not read after a sequence of that stream, and has not been dropped."""
    while True:
        found = await next_message(log, names.QUARANTINE, names.quarantine_subject("*"), after)
        if found is None:
            return None
        if found.data:
            component, stream, sequence = found.subject.split(".")[2:]
            return found.sequence, f"{stream}.{sequence}, by the {component}"
        after = found.sequence


async def failing_partitions(control: Bucket) -> set[int]:
    beats = await read_heartbeats(control, "scheduler", SchedulerHeartbeat)
    return {number for beat in beats for number in beat.failing}


async def load_of_schedulers(control: Bucket) -> SystemLoad | None:
    """None if none of them says."""
    beats = await read_heartbeats(control, "scheduler", SchedulerHeartbeat)
    return system_load(beats, now_us()) if any(beat.load is not None for beat in beats) else None
