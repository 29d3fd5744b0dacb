"""Work items, made of what was decided; and made again where the queue may have lost them.

A work item has no message id: its subject is its identity, and the queue holds one message a subject. Once that is
acked, what is published again is marked `recovered`, and an executor asks before it runs it.
"""

import logging
from collections.abc import Iterable, Sequence
from itertools import islice

from waterclock.core.domain import ids
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.workflow.conditions import Unusable
from waterclock.proto.events import RunQueued
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import WorkItem
from waterclock.scheduler.ports import Ports, WorkInDoubt, WorkMessage

_CHUNK = 250
_log = logging.getLogger(__name__)


def work_item(event: RunQueued, spec: JobSpec) -> WorkItem:
    """What an executor gets for a run that was just queued."""
    return WorkItem(
        run_id=event.run_id,
        job_id=ids.job_of(event.run_id),
        version=event.version,
        spec=spec,
        scheduled=event.scheduled,
        due=event.due,
        queued=event.at,
        attempt=event.attempt,
        crash_count=event.crash_count,
        first_attempt=event.first_attempt,
        trigger=event.trigger,
        parent=event.parent,
        epoch=event.epoch,
        index=ids.member_index(event.run_id) if event.trigger == "fan_out" else None,
        exact=event.exact,
    )


def recovered_item(run: Run, spec: JobSpec) -> WorkItem:
    """The same work once more, when it may have been lost. The queue refuses it if it still holds the first."""
    return WorkItem(
        run_id=run.run_id,
        job_id=run.job_id,
        version=run.version,
        spec=spec,
        scheduled=run.scheduled,
        due=run.due,
        queued=run.queued_at,
        attempt=run.attempt,
        crash_count=run.crash_count,
        first_attempt=run.first_attempt,
        trigger=run.trigger,
        parent=run.parent,
        epoch=run.epoch,
        index=ids.member_index(run.run_id) if run.trigger == "fan_out" else None,
        exact=run.exact,
        recovered=True,
    )


def packed(items: Iterable[tuple[str, WorkItem]]) -> list[WorkMessage]:
    """One message for each parcel, and for each item that is in none; each item with its parcel."""
    parcels: dict[str, list[WorkItem]] = {}
    messages = []
    for parcel, item in items:
        if not parcel:
            messages.append(WorkMessage((item,)))
        elif parcel in parcels:
            parcels[parcel].append(item)
        else:
            parcels[parcel] = [item]
    messages += [WorkMessage(tuple(inside), parcel) for parcel, inside in parcels.items()]
    return messages


class WorkRecovery:
    """Publishes again what should be in the queue, a chunk after each pass."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._left: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, run_ids: Iterable[str]) -> None:
        """Their work may never have got to the queue."""
        self._left.update(dict.fromkeys(run_ids))

    def add_all(self, owner: Owner) -> None:
        """The server was away: compare the queue with all that should be in it."""
        self.add(run.run_id for run in owner.state.runs.values() if run.has_work)

    async def publish_chunk(self, owner: Owner) -> None:
        """What is still in doubt after that comes again with the next pass. So does what is added meanwhile, though it
        is just being published: the server may lose it again."""
        chunk = list(islice(self._left, _CHUNK))
        for run_id in chunk:
            del self._left[run_id]
        items = await self._items(owner, _with_their_parcels(owner, chunk))
        for _, item in items:
            self._left.pop(item.run_id, None)
        try:
            if items:
                await self._ports.work.publish(packed(items))
        except WorkInDoubt as error:
            _log.warning("work is still in doubt: %s", error)
            self.add([*chunk, *(item.run_id for _, item in items)])

    async def _items(self, owner: Owner, runs: Sequence[Run]) -> list[tuple[str, WorkItem]]:
        unknown = dict.fromkeys((run.job_id, run.version) for run in runs if not owner.knows_definition(run))
        for (job_id, version), spec in (await self._ports.definitions.specs_at(unknown)).items():
            if spec is not None:
                owner.remember_definition(job_id, version, spec)
        items = []
        for run in runs:
            try:
                spec = owner.spec_of(run)
            except Unusable:
                continue
            if spec is not None and run.has_work:
                items.append((run.parcel, recovered_item(run, spec)))
        return items


def _with_their_parcels(owner: Owner, run_ids: Iterable[str]) -> list[Run]:
    """The runs that have work, and all that travel with one of them: of what comes later under the name of a parcel
    that the queue has, it takes nothing."""
    found = [run for run_id in run_ids if (run := owner.state.runs.get(run_id)) is not None and run.has_work]
    parcels = {(run.parcel, run.queued_at) for run in found if run.parcel}
    if not parcels:
        return found
    alone = [run for run in found if not run.parcel]
    return alone + [
        run
        for run in owner.state.runs.values()
        if run.parcel and run.has_work and (run.parcel, run.queued_at) in parcels
    ]
