"""What alerts need beside the log of runs: definitions, and what the executors serve."""

import msgspec

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import last_message
from waterclock.proto import names
from waterclock.proto.codec import decode_job_frame
from waterclock.proto.heartbeats import ExecutorHeartbeat
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
        for event in decode_job_frame(stored.data).events:
            if event.job_id == job_id:
                return event.spec
    return None


async def served_routes(control: Bucket) -> set[tuple[str, str]]:
    """(route, tier) that an executor takes work from; a heavier executor takes lighter work too."""
    found: set[tuple[str, str]] = set()
    for entry in await control.scan(names.member_key("executor", "*")):
        try:
            beat = msgspec.json.decode(entry.value, type=ExecutorHeartbeat)
        except msgspec.MsgspecError:
            continue
        heaviest = names.TIERS.index(beat.tier) if beat.tier in names.TIERS else len(names.TIERS) - 1
        for queue in beat.queues:
            routes = [names.route_of(queue, handler) for handler in (None, *beat.handlers)]
            found |= {(route, tier) for route in routes for tier in names.TIERS[: heaviest + 1]}
    return found
