"""Carrying a pass out: into the index, the log, the work queue, and to whoever must hear of it.

The order is part of the protocol; see waterclock.core.domain.partition.owner.

Pausing a schedule after failures in a row: the owner edits the definition as a user would, by compare-and-set.
"""

import logging

from waterclock.core.domain.job.aggregate import PauseJob, Refused
from waterclock.core.domain.partition.decisions import LinesNeeded, Pass
from waterclock.core.domain.partition.dependency_state import Notice
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.jetstream.definitions import Definitions
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.store.store import StoreError
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Frame, RunEvent
from waterclock.scheduler.artifact_lines import Lines, Unreadable
from waterclock.scheduler.fenced_log import FencedLog
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.timing_index import TimingIndex
from waterclock.scheduler.work_messages import work_message

_log = logging.getLogger(__name__)


async def pause_job(definitions: Definitions, job_id: str, note: str) -> None:
    """Harmless when repeated. Somebody who edits at the same moment wins, and the next failure tries again."""
    found = await definitions.read(job_id)
    if found is None:
        return
    try:
        changed = await definitions.change(
            found, lambda _: PauseJob(actor="scheduler", note=note), only_version=found.version
        )
    except (Conflict, Refused) as error:
        _log.info("not paused: %s", error, extra={"job_id": job_id})
    else:
        if changed.version != found.version:
            _log.warning("paused a schedule", extra={"job_id": job_id, "note": note})


_FRAME_EVENTS = 500
_STORE_PAUSE = 2_000_000
"""How long until a store that is away is asked again, in microseconds."""


class CarryingOut:
    def __init__(self, ports: Ports, log: FencedLog, index: TimingIndex) -> None:
        self._ports = ports
        self._log = log
        self._index = index
        self._lines = Lines(ports.artifacts)

    async def carry_out(self, owner: Owner, decided: Pass) -> int:
        """A pass, and those that follow from carrying it out. Answers how many events they were."""
        events = 0
        while decided:
            events += len(decided.events)
            await self._record(owner, decided)
            await self._tell(decided)
            for job_id, version in decided.definitions_needed:
                spec = await self._ports.spec_at(job_id, version)
                owner.provide_definition(job_id, version, spec, self._ports.clock.now_us())
            for run_id, lacking in decided.lines_needed.items():
                await self._supply(owner, run_id, lacking)
            if decided.notices:
                await self._post(decided.notices)
                owner.delivered(decided.notices, self._ports.clock.now_us())
            decided = owner.take_pass()
        return events

    async def _record(self, owner: Owner, decided: Pass) -> None:
        if decided.index:
            await self._index.write(decided.index_changes())
        if decided.events:
            await self._log.append(decided.events, owner.state.cursor)
            owner.appended(self._log.last, decided.events)
            self._ports.tally.decided(decided.events)
        for job_id, version in decided.void_entries.items():
            await self._index.forget(job_id, version)
        owner.cleaned(owner.state.cursor.jobs)
        if decided.queued:
            await self._ports.publisher.publish_work(
                [work_message(event, spec) for event, spec in decided.queued]
            )
            owner.published(self._log.last)

    async def _tell(self, decided: Pass) -> None:
        connection = self._ports.connection
        for run_id in decided.withdrawn:
            await connection.api(f"STREAM.PURGE.{names.WORK}", {"filter": f"wc.work.*.*.*.{run_id}.>"})
        for executor_id, request in decided.stops:
            await connection.nc.publish(names.stop_subject(executor_id or "all"), encode(request))
        for job_id, note in decided.pauses:
            await pause_job(self._ports.definitions, job_id, note)

    async def _supply(self, owner: Owner, run_id: str, lacking: LinesNeeded) -> None:
        """Read the lines a fan-out needs. A store that is away is asked again when the partition is next looked at."""
        try:
            lines, total = await self._lines.read(run_id, lacking)
        except Unreadable as error:
            owner.fail_lines(run_id, str(error), self._ports.clock.now_us())
        except StoreError as error:
            _log.warning("cannot read a fan-out's lines", extra={"run_id": run_id, "error": str(error)})
            owner.need_lines_at(run_id, self._ports.clock.now_us() + _STORE_PAUSE)
        else:
            owner.supply_lines(run_id, lacking.start, lines, total, self._ports.clock.now_us())

    async def _post(self, letters: list[Notice]) -> None:
        """Tell other partitions, or this one as if it were another: the log is where they meet."""
        by_partition: dict[int, list[RunEvent]] = {}
        for letter in letters:
            partition = names.partition_of(letter.to, self._ports.partitions)
            by_partition.setdefault(partition, []).append(letter.event)
        writer = f"{self._log.writer}/post"
        for partition, events in by_partition.items():
            for start in range(0, len(events), _FRAME_EVENTS):
                frame = Frame(writer=writer, events=tuple(events[start : start + _FRAME_EVENTS]))
                await self._ports.publisher.publish(names.runs_subject(partition), encode(frame))
