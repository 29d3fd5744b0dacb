"""Taking a partition over: the snapshot, the tail of `RUNS` up to the last frame, the near part of the index, and the
definitions that changed while nobody owned it.
"""

import asyncio

from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState, Run
from waterclock.core.domain.partition.timing_index import HORIZON
from waterclock.proto.codec import decode_frame, decode_job_frame
from waterclock.proto.events import JobCreated
from waterclock.scheduler.ports import Ports

_TURN = 256
"""Others get their turn after so many definitions: leases must be renewed meanwhile."""


class Rebuilt(Struct, frozen=True, kw_only=True):
    owner: Owner
    consumed: int
    """`RUNS` is replayed through this sequence."""


class TakenOver(Struct, frozen=True, kw_only=True):
    owner: Owner
    consumed: int
    suspects: list[Run]
    """Queued runs whose work may never have been published."""


async def take_over(ports: Ports) -> TakenOver:
    """Rebuild the owner of a partition, up to now. The lease is held: nobody else decides while this reads."""
    rebuilt = await rebuild(ports)
    owner = rebuilt.owner
    await ports.jobs.check_reaches(owner.state.cursor.jobs)
    await _remove_void_entries(ports, owner)
    now = ports.clock.now_us()
    first, last = (owner.state.cursor.time or now) // MINUTE, (now + HORIZON) // MINUTE
    entries = [*await ports.index.hot(), *await ports.index.minutes(first, last)]
    owner.load(entries, (last + 1) * MINUTE, now)
    await _read_definitions(ports, owner)
    return TakenOver(owner=owner, consumed=rebuilt.consumed, suspects=owner.resume(now))


async def rebuild(ports: Ports) -> Rebuilt:
    """The state as the log has it: the last snapshot and the frames after it, or all frames. Decides nothing."""
    snapshot = await ports.snapshots.read()
    state = PartitionState() if snapshot is None else snapshot.state
    owner = Owner(ports.partition, state, ports.clock.now_us())
    consumed = 0 if snapshot is None else snapshot.consumed
    await ports.runs.check_reaches(consumed)
    async for entries in ports.runs.read(consumed, await ports.runs.end()):
        for entry in entries:
            frame = decode_frame(entry.data)
            in_snapshot = (
                snapshot is not None
                and frame.writer == snapshot.writer
                and entry.sequence <= snapshot.own_through
            )
            if not in_snapshot:
                owner.replay(frame, entry.sequence)
            consumed = entry.sequence
    return Rebuilt(owner=owner, consumed=consumed)


async def _remove_void_entries(ports: Ports, owner: Owner) -> None:
    """Finish what the last owner may have left: void entries of changes it had decided."""
    cursor = owner.state.cursor
    void: dict[str, int] = {}
    async for entries in ports.jobs.read(cursor.index, cursor.jobs):
        for entry in entries:
            for event in decode_job_frame(entry.data).events:
                if not isinstance(event, JobCreated):
                    void[event.job_id] = entry.sequence - 1
    for job_id, version in void.items():
        await ports.index.remove(job_id, version)
    owner.cleaned(cursor.jobs)


async def _read_definitions(ports: Ports, owner: Owner) -> None:
    """What was changed while nobody owned the partition holds from its own time: read it before deciding anything."""
    number = 0
    async for entries in ports.jobs.read(owner.state.cursor.jobs, await ports.jobs.end()):
        for entry in entries:
            for event in decode_job_frame(entry.data).events:
                owner.observe_job(event, entry.sequence, ports.clock.now_us())
                number += 1
                if number % _TURN == 0:
                    await asyncio.sleep(0)
