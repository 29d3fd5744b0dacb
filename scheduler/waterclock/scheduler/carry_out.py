"""Carrying a pass out: into the index, the log, the work queue, and to whoever must hear of it.

The order is part of the protocol. Each step needs only those before it in the log or the index, so whoever replays the
log can finish what a crash cut off.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.decisions import LinesNeeded, Pass, VoidEntries
from waterclock.core.domain.partition.due.armed_schedule import may_be_filed_under
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.timing_groups import Void
from waterclock.core.store.store import StoreError
from waterclock.proto.events import Instant
from waterclock.scheduler.ports import Ports, UnreadableLines, WorkInDoubt
from waterclock.scheduler.work_items import packed, work_item

_STORE_PAUSE = 2 * SECOND
"""How long until a store that is away is asked again."""
_TURN = 256
"""Others get their turn after so many work items."""

_log = logging.getLogger(__name__)


async def carry_out(ports: Ports, owner: Owner, decided: Pass) -> int:
    """A pass, and those that follow from carrying it out. Answers how many events they were."""
    events = 0
    while decided:
        events += len(decided.events)
        await _record(ports, owner, decided)
        await _publish(ports, owner, decided)
        await _stop_and_pause(ports, decided)
        await _supply(ports, owner, decided)
        if decided.notices:
            await ports.decisions.send(decided.notices)
            owner.delivered(decided.notices, ports.clock.now_us())
        decided = owner.take_pass()
    return events


async def checkpoint(ports: Ports, owner: Owner) -> None:
    """A frame that says nothing but how far the owner has come, and that it still is the owner."""
    await ports.decisions.append([], owner.state.cursor)
    owner.appended(ports.decisions.last, [])


async def _record(ports: Ports, owner: Owner, decided: Pass) -> None:
    """Index, log, index. What the log has not, nobody may know of yet; but an index entry may be there early: it is of
    a version that the log's cursor has not reached, and is not read before."""
    if decided.index or decided.hot:
        await ports.index.write(decided.index, decided.hot)
    if decided.events:
        await ports.decisions.append(decided.events, owner.state.cursor)
        owner.appended(ports.decisions.last, decided.events)
        ports.metrics.decided(decided.events)
    if decided.obsolete_keys:
        await ports.index.delete(decided.obsolete_keys)
    if decided.void_keys:
        await ports.index.purge(decided.void_keys)
    if decided.void_entries:
        await mark_void(ports, owner, decided.void_entries)
    owner.cleaned(owner.state.cursor.jobs)


async def mark_void(ports: Ports, owner: Owner, void: Sequence[VoidEntries]) -> None:
    """Where the entries of a definition are that is not in memory, the definition says."""
    changed = [(entries.job_id, entries.version + 1) for entries in void if entries.filed is None]
    replaced = await ports.definitions.before(changed) if changed else {}
    decided, now = owner.state.cursor.time, ports.clock.now_us()
    marks: list[Void] = []
    for number, entries in enumerate(void, 1):
        job_id, version = entries.job_id, entries.version
        filed: Iterable[Instant] = entries.filed or ()
        before = replaced.get((job_id, version + 1))
        if before is not None:
            filed = may_be_filed_under(job_id, before[0].spec, decided, now)
        marks += [Void(at, job_id, version) for at in sorted(filed)]
        if number % _TURN == 0:
            await asyncio.sleep(0)
    await ports.index.void(marks)


async def _publish(ports: Ports, owner: Owner, decided: Pass) -> None:
    """Into the queue. If it is not known what got there, or whether somebody else has published it since the frame was
    written, it is in doubt and goes there marked as such: an executor asks before it runs it."""
    if not decided.queued:
        return
    if not ports.decisions.is_certain:
        owner.doubt(event.run_id for event, _ in decided.queued)
        return
    items = []
    for number, (event, spec) in enumerate(decided.queued, 1):
        items.append((event.parcel, work_item(event, spec)))
        if number % _TURN == 0:
            await asyncio.sleep(0)
    try:
        known = await ports.work.publish(packed(items))
    except WorkInDoubt as error:
        _log.warning("work may not be in the queue: %s", error)
        owner.doubt(event.run_id for event, _ in decided.queued)
    else:
        if known:
            owner.published(ports.decisions.last)
        else:
            owner.sent([event.run_id for event, _ in decided.queued], ports.clock.now_us())


async def _stop_and_pause(ports: Ports, decided: Pass) -> None:
    for run_id in decided.withdrawn:
        await ports.work.withdraw(run_id)
    for executor_id, request in decided.stops:
        await ports.executors.stop(executor_id, request)
    for run_id, queued in decided.recalled:
        await ports.work.recall(run_id, queued)
    for job_id, note in decided.pauses:
        await ports.definitions.pause(job_id, note)


async def _supply(ports: Ports, owner: Owner, decided: Pass) -> None:
    """Read what some runs cannot go on without."""
    if not decided.definitions_needed and not decided.lines_needed:
        return
    for (job_id, version), spec in (await ports.definitions.specs_at(decided.definitions_needed)).items():
        owner.provide_definition(job_id, version, spec, ports.clock.now_us())
    for run_id, needed in decided.lines_needed.items():
        await _supply_lines(ports, owner, run_id, needed)


async def _supply_lines(ports: Ports, owner: Owner, run_id: str, needed: LinesNeeded) -> None:
    try:
        lines, total = await ports.lines.read(run_id, needed)
    except UnreadableLines as error:
        owner.fail_lines(run_id, str(error), ports.clock.now_us())
    except StoreError as error:
        _log.warning("cannot read a fan-out's lines", extra={"run_id": run_id, "error": str(error)})
        owner.need_lines_at(run_id, ports.clock.now_us() + _STORE_PAUSE)
    else:
        owner.supply_lines(run_id, needed.start, lines, total, ports.clock.now_us())
