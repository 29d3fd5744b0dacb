"""The ports of a partition, against JetStream: what the service opens once, and what is made of it for each lease."""

import logging
from collections.abc import Iterable
from functools import partial

from msgspec import Struct, field

from waterclock.core.domain.job.aggregate import CommandRefused, PauseJob
from waterclock.core.domain.partition.room import Room
from waterclock.core.jetstream.access.work_consumers import WorkLines
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.job_definitions import Definitions
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.clock import Clock, SystemClock
from waterclock.core.store.store import Store
from waterclock.proto import names
from waterclock.proto.events import JobEvent
from waterclock.proto.spec import JobSpec
from waterclock.scheduler.credit import Credit
from waterclock.scheduler.fan_out_lines import StoredLines
from waterclock.scheduler.heartbeat import Heartbeat
from waterclock.scheduler.jetstream.executors import ExecutorLink
from waterclock.scheduler.jetstream.logs import LeasedLog, StreamLog
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.jetstream.snapshot_bucket import SnapshotBucket
from waterclock.scheduler.jetstream.timing_bucket import TimingBucket
from waterclock.scheduler.jetstream.work_queue import WorkStream
from waterclock.scheduler.metrics import SchedulerMetrics
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.timing.near_future import capacity_of
from waterclock.scheduler.timing.timing_index import TimingIndex

_log = logging.getLogger(__name__)


class Connections(Struct, frozen=True, kw_only=True):
    """What all partitions of a scheduler share."""

    connection: Connection
    """For what is written, its acknowledgements, and small questions."""
    reading: Connection
    """For what is read in bulk: an acknowledgement must not wait behind a thousand definitions."""
    publisher: Publisher
    """Repeats until the outcome is known."""
    heartbeat: Heartbeat
    definitions: Definitions
    timing: Bucket
    control: Bucket
    snapshots: Bucket
    artifacts: Store
    instance: str
    partitions: int
    credit: Credit
    lines: WorkLines
    clock: Clock = field(default_factory=SystemClock)
    metrics: SchedulerMetrics = field(default_factory=SchedulerMetrics)


async def open_ports(shared: Connections, partition: int, lease: Lease, room: Room) -> Ports:
    """The ports of a partition whose lease is held. From here on nobody else writes to its index. Raises LeaseLost."""
    connection, publisher, reading = shared.connection, shared.publisher, shared.reading
    decisions = LeasedLog(
        publisher,
        partition,
        lease,
        shared.heartbeat,
        instance=shared.instance,
        partitions=shared.partitions,
    )
    timing = TimingBucket(shared.timing, partition)
    await timing.take(lease)
    return Ports(
        partition=partition,
        runs=StreamLog(reading, names.RUNS, names.runs_subject(partition)),
        jobs=StreamLog(reading, names.JOBS, names.jobs_of_partition(partition)),
        decisions=decisions,
        index=TimingIndex(timing, partition),
        snapshots=SnapshotBucket(shared.snapshots, partition),
        definitions=JobDefinitions(shared.definitions),
        lines=StoredLines(shared.artifacts),
        work=WorkStream(connection, publisher, shared.lines, lambda: decisions.is_certain),
        executors=ExecutorLink(connection, shared.control, partition),
        room=room,
        capacity=lambda: capacity_of(shared.credit.equal_part),
        clock=shared.clock,
        metrics=shared.metrics,
    )


class JobDefinitions:
    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    async def specs_at(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], JobSpec | None]:
        return await until_known("definitions", partial(self._definitions.specs_at, list(wanted)))

    async def before(
        self, changed: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[JobEvent, int] | None]:
        return await until_known("definitions", partial(self._definitions.before, list(changed)))

    async def pause(self, job_id: str, note: str) -> None:
        """By compare-and-set. Somebody who edits at the same moment wins, and the next failure tries again."""
        found = await until_known(job_id, partial(self._definitions.read, job_id))
        if found is None:
            return
        change = partial(
            self._definitions.change,
            found,
            lambda _: PauseJob(actor="scheduler", note=note),
            only_version=found.version,
        )
        try:
            changed = await until_known(job_id, change)
        except (Conflict, CommandRefused) as error:
            _log.info("not paused: %s", error, extra={"job_id": job_id})
        else:
            if changed.version != found.version:
                _log.warning("paused a schedule", extra={"job_id": job_id, "note": note})
