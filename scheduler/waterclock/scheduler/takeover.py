"""Taking a partition over: the snapshot, the tail of `RUNS` up to the last frame, the near part of the index."""

import asyncio
from functools import partial

from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState, Run
from waterclock.core.domain.partition.timing_index import HORIZON
from waterclock.core.jetstream.log_identity import KnownStream, check_stream
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.pull import Pull
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_job_frame
from waterclock.proto.events import JobCreated, JobEvent
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.snapshots import Snapshots
from waterclock.scheduler.timing_index import TimingIndex

_TURN = 256


class TakenOver(Struct, frozen=True, kw_only=True):
    owner: Owner
    consumed: int
    """`RUNS` is replayed through this sequence."""
    suspects: list[Run]
    """Queued runs whose work may never have been published."""


async def take_over(ports: Ports, partition: int, index: TimingIndex, snapshots: Snapshots) -> TakenOver:
    """Rebuild the owner of a partition. The lease is held: nobody else decides while this reads."""
    found = await snapshots.read()
    state = PartitionState() if found is None else found[1]
    owner = Owner(partition, state, ports.clock.now_us())
    consumed = 0 if found is None else found[0].consumed
    await _check(ports, names.RUNS, consumed)
    last = await last_message(ports.connection, names.RUNS, names.runs_subject(partition))
    target = 0 if last is None else last.sequence
    async with Pull.ordered(
        ports.connection, names.RUNS, [names.runs_subject(partition)], after_sequence=consumed
    ) as pull:
        while consumed < target:
            for delivery in await pull.next(timeout=5.0):
                frame = decode_frame(delivery.data)
                known = (
                    found is not None
                    and frame.writer == found[0].writer
                    and delivery.sequence <= found[0].own_through
                )
                if not known:
                    owner.replay(frame, delivery.sequence)
                consumed = delivery.sequence
    await _check(ports, names.JOBS, state.cursor.jobs)
    await _clean(ports, owner, index)
    now = ports.clock.now_us()
    first = (state.cursor.time or now) // MINUTE
    last_minute = (now + HORIZON) // MINUTE
    entries = await index.hot() + await index.minutes(first, last_minute)
    owner.load(entries, (last_minute + 1) * MINUTE, now)
    await _read_definitions(ports, owner)
    return TakenOver(owner=owner, consumed=consumed, suspects=owner.resume(now))


async def _check(ports: Ports, stream: str, position: int) -> None:
    """Refuse to decide anything on a log that has lost its end: ids and tokens would be given out twice."""
    known = KnownStream(stream=stream, last_sequence=position)
    await check_stream(partial(stream_state, ports.connection), known)


async def _clean(ports: Ports, owner: Owner, index: TimingIndex) -> None:
    """Finish what the last owner may have left: void entries of changes it had decided."""
    cursor = owner.state.cursor
    void: dict[str, int] = {}
    for event, version in await _definitions(ports, owner.partition, cursor.index, cursor.jobs):
        if not isinstance(event, JobCreated):
            void[event.job_id] = version - 1
    for job_id, version in void.items():
        await index.forget(job_id, version)
    owner.cleaned(cursor.jobs)


async def _read_definitions(ports: Ports, owner: Owner) -> None:
    """What was changed while nobody owned the partition holds from its own time: read it before deciding anything."""
    last = await last_message(ports.connection, names.JOBS, names.jobs_of_partition(owner.partition))
    target = 0 if last is None else last.sequence
    definitions = await _definitions(ports, owner.partition, owner.state.cursor.jobs, target)
    for number, (event, version) in enumerate(definitions, 1):
        owner.observe_job(event, version, ports.clock.now_us())
        if number % _TURN == 0:
            await asyncio.sleep(0)  # so that leases are renewed meanwhile


async def _definitions(ports: Ports, partition: int, after: int, through: int) -> list[tuple[JobEvent, int]]:
    found: list[tuple[JobEvent, int]] = []
    position = after
    if position >= through:
        return found
    async with Pull.ordered(
        ports.connection, names.JOBS, [names.jobs_of_partition(partition)], after_sequence=after
    ) as pull:
        while position < through:
            for delivery in await pull.next(timeout=5.0):
                position = delivery.sequence
                if position <= through:
                    found += [(event, position) for event in decode_job_frame(delivery.data).events]
    return found
