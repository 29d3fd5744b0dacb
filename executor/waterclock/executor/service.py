"""The executor: lanes of slots, filled from the work queue, reporting to the log."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Broadcast, Connection, open_log
from waterclock.core.jetstream.frames import FrameWriter
from waterclock.core.jetstream.log_identity import LogWatch
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.data_directory import resolved
from waterclock.core.runtime.lifecycle import StopSignal, instance_id, ready, run_service
from waterclock.core.runtime.settings import Settings, SettingsError, load
from waterclock.core.store.factory import open_store
from waterclock.executor.attempt.reporter import ProgressReports
from waterclock.executor.attempt.runner import Lane
from waterclock.executor.attempt.shared import Desk
from waterclock.executor.heartbeat import Membership
from waterclock.executor.in_flight import InHand
from waterclock.executor.intake.puller import Puller, sources_of
from waterclock.executor.intake.routes import Line, command_line, worker_line
from waterclock.executor.intake.sources import Slots
from waterclock.executor.logs.output import Outputs, telling
from waterclock.executor.metrics import Tally
from waterclock.executor.warden.client import Processes
from waterclock.executor.worker import Worker, load_workers
from waterclock.proto import names

_log = logging.getLogger(__name__)

_MOST_IN_HAND = 20_000
"""Ended, but not yet in the log: more than this and the log is away, so nothing more is begun."""


async def run(settings: Settings, stop: StopSignal) -> None:
    """Serve the queue's commands, programs and calls, and the handlers of the workers that were named."""
    await Executor(settings, load_workers(settings.worker), processes=True).run(stop)


class Executor:
    """One process's share of the work. `processes`: whether it runs commands too, or only handlers."""

    def __init__(self, settings: Settings, workers: Sequence[Worker], *, processes: bool) -> None:
        if settings.nats_url is None:
            raise SettingsError("nats_url", "a URL like nats://host:4222", "nothing", "executor")
        self.executor_id = instance_id("executor")
        self.taking_work = asyncio.Event()
        self._settings = settings
        self._workers = workers
        self._runs_processes = processes
        self._slots: list[Slots] = []

    async def run(self, stop: StopSignal) -> None:
        async with AsyncExitStack() as scope:
            connection = await scope.enter_async_context(open_log(self._settings, name=self.executor_id))
            log_watch = LogWatch(connection)
            await log_watch.check()
            publisher = Publisher(connection)
            frames = FrameWriter(publisher, writer=self.executor_id)
            control = Bucket(connection, publisher, names.CONTROL)
            in_hand = InHand()
            tally = Tally(slots=self._total_and_used, in_hand=lambda: len(in_hand))
            desk = Desk.furnished(
                self._settings,
                self.executor_id,
                connection=connection,
                frames=frames,
                control=control,
                in_hand=in_hand,
                tally=tally,
            )
            scope.enter_context(tally.registered())
            await scope.enter_async_context(desk.stops.listening(connection, self.executor_id))
            processes = await scope.enter_async_context(Processes.open()) if self._runs_processes else None
            lines = await self._lines(scope, connection, publisher, processes)
            opened = [await self._open(scope, connection, desk, line) for line in lines]
            membership = self._membership(control, in_hand)
            async with _background(
                desk.keep_alive.run(),
                desk.gates.keys.renew_for_ever(),
                membership.beat_for_ever(),
                ProgressReports(in_hand, frames.append, desk.reporter.partition_of).tell_for_ever(),
                log_watch.run(),
                _alive(processes),
            ):
                self.taking_work.set()
                ready()
                _log.info("taking work", extra={"executor": self.executor_id})
                await stop.wait()
                membership.state = "draining"
                await asyncio.gather(*(puller.stop() for _, puller in opened))
                await asyncio.gather(*(lane.drain(self._settings.grace_seconds) for lane, _ in opened))
                await frames.close()
            await membership.leave()

    async def _lines(
        self,
        scope: AsyncExitStack,
        connection: Connection,
        publisher: Publisher,
        processes: Processes | None,
    ) -> list[Line]:
        settings = self._settings
        logs = await scope.enter_async_context(open_store(settings, connection, publisher, names.LOGS))
        outputs = Outputs(logs, Broadcast(connection), settings.output_limit)
        await scope.enter_async_context(telling(connection, outputs, self.executor_id))
        lines = [scope.enter_context(worker_line(worker, outputs)) for worker in self._workers]
        if processes is not None:
            store = open_store(settings, connection, publisher, names.ARTIFACTS)
            artifacts = await scope.enter_async_context(store)
            commands = command_line(settings, outputs, processes, artifacts)
            lines.append(await scope.enter_async_context(commands))
        return lines

    async def _open(
        self, scope: AsyncExitStack, connection: Connection, desk: Desk, line: Line
    ) -> tuple[Lane, Puller]:
        slots = Slots(line.slots)
        self._slots.append(slots)
        lane = Lane(desk, slots, line.performers)
        puller = Puller(
            connection,
            sources_of(line.routes, line.tier),
            slots,
            take=lane.take,
            may_take=lambda: len(desk.in_hand) < _MOST_IN_HAND,
        )
        lane.on_room = puller.wake
        scope.push_async_callback(lane.close)
        await scope.enter_async_context(puller.pulling())
        return lane, puller

    def _membership(self, bucket: Bucket, in_hand: InHand) -> Membership:
        queues = {worker.queue for worker in self._workers}
        tiers = {worker.tier for worker in self._workers}
        if self._runs_processes:
            queues.add(self._settings.queue)
            tiers.add(self._settings.tier)
        return Membership(
            bucket,
            in_hand,
            executor_id=self.executor_id,
            tier=max(tiers, key=names.TIERS.index),
            queues=sorted(queues),
            handlers=sorted(name for worker in self._workers for name in worker.handlers),
            slots=self._total_and_used,
        )

    def _total_and_used(self) -> tuple[int, int]:
        return sum(slots.total for slots in self._slots), sum(slots.used for slots in self._slots)


async def _alive(processes: Processes | None) -> None:
    """Fails when the warden dies: without it we do not know what runs."""
    if processes is not None:
        await processes.lost


@asynccontextmanager
async def _background(*work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Tasks that live as long as the scope; if one fails, so does the scope."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        yield
        for task in tasks:
            task.cancel()


def serve_worker(worker: Worker, flags: dict[str, object]) -> int:
    """`Worker.run()`: a program that is one worker and nothing else. Returns the exit code."""

    async def entry(settings: Settings, stop: StopSignal) -> None:
        await Executor(settings, [worker], processes=False).run(stop)

    return run_service("worker", entry, resolved(load(flags), "executor"))
