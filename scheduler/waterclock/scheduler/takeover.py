"""Taking a partition over: the snapshot, the tail of `RUNS` up to the last frame, the near part of the index, and the
definitions that changed while nobody owned it.
"""

import asyncio

from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.decisions import VoidEntries
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.runtime.quarantine import read_frame, read_job_frame
from waterclock.proto.events import JobCreated
from waterclock.scheduler.carry_out import carry_out, checkpoint, mark_void
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.replaced_definitions import observe_job, read_replaced
from waterclock.scheduler.timing.near_future import NearFuture

_TURN = 256
"""Others get their turn after so many entries or definitions."""
_STEP = 2_000
"""After so many definitions what was read of them is in the index and the log: a takeover that is cut off goes on from
there."""
_MOST_AT_FIRST = 20_000
"""So many definitions are read before the first decision. If there are more, time does not wait for them."""


class Rebuilt(Struct, frozen=True, kw_only=True):
    owner: Owner
    consumed: int
    """`RUNS` is replayed through this sequence."""
    near_future: NearFuture


async def take_over(ports: Ports) -> Rebuilt:
    """Rebuild the owner of a partition, up to now. The lease is held: nobody else decides while this reads."""
    rebuilt = await rebuild(ports)
    owner = rebuilt.owner
    await ports.jobs.check_reaches(owner.state.cursor.jobs)
    ports.index.begin((owner.state.cursor.time or ports.clock.now_us()) // MINUTE)
    await _remove_void_entries(ports, owner)
    now = ports.clock.now_us()
    owner.wake(now)
    await rebuilt.near_future.begin(now)
    await _read_unsettled(ports, owner)
    await _read_definitions(ports, owner)
    owner.resume(ports.clock.now_us())
    # A pass begins by reading the index further: what is to be in it must be there by then.
    await carry_out(ports, owner, owner.take_pass())
    return rebuilt


async def rebuild(ports: Ports) -> Rebuilt:
    """The state as the log has it: the last snapshot and the frames after it, or all frames. Decides nothing."""
    snapshot = await ports.snapshots.read()
    state = PartitionState() if snapshot is None else snapshot.state
    owner = Owner(ports.partition, state, ports.clock.now_us(), ports.room)
    consumed = 0 if snapshot is None else snapshot.consumed
    await ports.runs.check_reaches(consumed)
    async for entries in ports.runs.read(consumed, await ports.runs.end()):
        for entry in entries:
            frame = read_frame(entry)
            in_snapshot = (
                snapshot is not None
                and frame.writer == snapshot.writer
                and entry.sequence <= snapshot.own_through
            )
            if not in_snapshot:
                owner.replay(frame, entry.sequence)
            consumed = entry.sequence
    return Rebuilt(owner=owner, consumed=consumed, near_future=NearFuture(owner, ports.index, ports.capacity))


async def _remove_void_entries(ports: Ports, owner: Owner) -> None:
    """Finish what the last owner may have left: void entries of changes it had decided."""
    cursor = owner.state.cursor
    void: list[VoidEntries] = []
    async for entries in ports.jobs.read(cursor.index, cursor.jobs):
        for entry in entries:
            events = read_job_frame(entry).events
            changed = (event.job_id for event in events if not isinstance(event, JobCreated))
            void += [VoidEntries(job_id, entry.sequence - 1, None) for job_id in changed]
    if void:
        await ports.index.remove_hot({entries.job_id: entries.version for entries in void})
        await mark_void(ports, owner, void)
    owner.cleaned(cursor.jobs)


async def _read_unsettled(ports: Ports, owner: Owner) -> None:
    """What was due when its definition was read, and had not been decided when the last owner ended."""
    cursor = owner.state.cursor
    number = 0
    async for entries in ports.jobs.read(cursor.settled_jobs, cursor.jobs):
        for entry in entries:
            for event in read_job_frame(entry).events:
                owner.observe_again(event, entry.sequence, ports.clock.now_us())
                number += 1
                if number % _TURN == 0:
                    await asyncio.sleep(0)


async def _read_definitions(ports: Ports, owner: Owner) -> None:
    """What was changed while nobody owned the partition holds from its own time: read it before deciding anything."""
    number = written = 0
    async for entries in ports.jobs.read(owner.state.cursor.jobs, await ports.jobs.end()):
        for entry in entries:
            events = read_job_frame(entry).events
            replaced = await read_replaced(ports, owner, [(event, entry.sequence) for event in events])
            for event in events:
                observe_job(owner, event, entry.sequence, replaced, ports.clock.now_us())
                number += 1
                if number % _TURN == 0:
                    await asyncio.sleep(0)
            if number - written >= _STEP:
                written = number
                await carry_out(ports, owner, owner.take_pass())
                await checkpoint(ports, owner)
            if number >= _MOST_AT_FIRST:
                return
