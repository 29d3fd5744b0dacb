"""The executor: lanes of slots, filled from the work queue, reporting to the log."""

import asyncio
import logging
import pwd
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from waterclock.core.jetstream.broadcast import Broadcast
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.frames import FrameWriter
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.work_queue import Acks
from waterclock.core.runtime.instance import instance_id
from waterclock.core.runtime.service import StopSignal, ready
from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.core.store.opening import open_store
from waterclock.core.store.store import Store
from waterclock.executor.artifacts import ArtifactCache
from waterclock.executor.claims import Claims
from waterclock.executor.crew import Crew
from waterclock.executor.fences import Fences
from waterclock.executor.gates import Gates
from waterclock.executor.keepalive import KeepAlive
from waterclock.executor.keys import Keys
from waterclock.executor.lane import Desk, Lane
from waterclock.executor.loading import load_workers
from waterclock.executor.membership import Membership
from waterclock.executor.output import Outputs
from waterclock.executor.performer.artifact import ArtifactPerformer
from waterclock.executor.performer.handler import HandlerPerformer
from waterclock.executor.performer.performer import Performer
from waterclock.executor.performer.process import ProcessPerformer
from waterclock.executor.processes import Processes
from waterclock.executor.puller import Puller, sources_of
from waterclock.executor.rates import Rates
from waterclock.executor.reporter import Reporter
from waterclock.executor.running import InHand
from waterclock.executor.slots import Slots
from waterclock.executor.stops import Stops
from waterclock.executor.tally import Tally
from waterclock.executor.tells import telling
from waterclock.executor.threads import Threads
from waterclock.executor.worker import Worker
from waterclock.proto import names
from waterclock.proto.spec import Argv, Artifact, Handler, Http, Shell

_log = logging.getLogger(__name__)


async def run(settings: Settings, stop: StopSignal) -> None:
    """Serve the queue's commands, programs and calls, and the handlers of the workers that were named."""
    await Executor(settings, load_workers(settings.worker), processes=True).run(stop)


class Line(Struct, frozen=True, kw_only=True):
    """What one lane serves, and with what."""

    routes: list[str]
    tier: str
    slots: int
    performers: dict[type, Performer]


class Executor:
    """One process's share of the work. `processes`: whether it runs commands too, or only handlers."""

    def __init__(self, settings: Settings, workers: Sequence[Worker], *, processes: bool) -> None:
        if settings.nats_url is None:
            raise SettingsError("nats_url", "a URL like nats://host:4222", "nothing", "executor")
        self.executor_id = instance_id("executor")
        self.taking_work = asyncio.Event()
        self._lanes: list[Lane] = []
        self._url = settings.nats_url
        self._settings = settings
        self._workers = workers
        self._runs_processes = processes

    async def run(self, stop: StopSignal) -> None:
        async with AsyncExitStack() as scope:
            connection = await scope.enter_async_context(Connection.open(self._url, name=self.executor_id))
            publisher = Publisher(connection)
            frames = FrameWriter(publisher, writer=self.executor_id)
            control = Bucket(connection, publisher, names.CONTROL)
            in_hand = InHand()
            tally = Tally(slots=self._slots, in_hand=lambda: len(in_hand))
            desk = self._desk(connection, frames, control, in_hand, tally)
            await scope.enter_async_context(desk.stops.listening(connection, self.executor_id))
            logs = await scope.enter_async_context(
                open_store(self._settings, connection, publisher, names.LOGS)
            )
            outputs = Outputs(logs, Broadcast(connection), self._settings.output_limit)
            await scope.enter_async_context(telling(connection, outputs, self.executor_id))
            processes = await scope.enter_async_context(Processes.open()) if self._runs_processes else None
            artifacts = await scope.enter_async_context(
                open_store(self._settings, connection, publisher, names.ARTIFACTS)
            )
            lines = [self._worker_line(scope, worker, outputs) for worker in self._workers]
            if processes is not None:
                lines.insert(0, await self._command_line(scope, outputs, processes, artifacts))
            opened = [await self._open_line(scope, connection, desk, line) for line in lines]
            self._lanes = [lane for lane, _ in opened]
            await scope.enter_async_context(tally.shown())
            membership = self._membership(control, in_hand)
            async with _background(
                desk.keep_alive.run(),
                membership.beat_for_ever(),
                desk.gates.keys.renew_for_ever(),
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

    def _desk(
        self, connection: Connection, frames: FrameWriter, control: Bucket, in_hand: InHand, tally: Tally
    ) -> Desk:
        acks = Acks(connection)
        partitions = self._settings.partitions
        return Desk(
            executor_id=self.executor_id,
            in_hand=in_hand,
            acks=acks,
            keep_alive=KeepAlive(
                in_hand,
                acks,
                ack_wait=self._settings.ack_wait_seconds,
                connected=lambda: connection.nc.is_connected,
            ),
            reporter=Reporter(frames, in_hand, tally, executor_id=self.executor_id, partitions=partitions),
            claims=Claims(connection, tally, executor_id=self.executor_id, partitions=partitions),
            stops=Stops(in_hand, grace=self._settings.stop_grace_seconds),
            fences=Fences(control, self.executor_id),
            gates=Gates(Keys(control, self.executor_id), Rates(control)),
            stop_grace=self._settings.stop_grace_seconds,
        )

    async def _command_line(
        self, scope: AsyncExitStack, outputs: Outputs, processes: Processes, artifacts: Store
    ) -> Line:
        """Everything but handlers: commands, programs, artifacts and calls."""
        from waterclock.executor.performer.http import (
            HttpPerformer,  # a worker of handlers does without aiohttp
        )

        settings = self._settings
        process = ProcessPerformer(processes, outputs, identity=_identity(settings.run_as))
        cache = ArtifactCache(artifacts, settings.data.absolute() / "artifacts", settings.cache_bytes)
        http = await scope.enter_async_context(HttpPerformer.open(outputs, private=settings.http_private))
        return Line(
            routes=[settings.queue],
            tier=settings.tier,
            slots=settings.slots,
            performers={
                Shell: process,
                Argv: process,
                Artifact: ArtifactPerformer(process, cache, processes.root),
                Http: http,
            },
        )

    def _worker_line(self, scope: AsyncExitStack, worker: Worker, outputs: Outputs) -> Line:
        threads, crew = Threads(worker.slots), Crew()
        scope.callback(threads.close)
        scope.callback(crew.close)
        return Line(
            routes=[names.route_of(worker.queue, name) for name in worker.handlers],
            tier=worker.tier,
            slots=worker.slots,
            performers={Handler: HandlerPerformer(worker.handlers, outputs, threads, crew)},
        )

    async def _open_line(
        self, scope: AsyncExitStack, connection: Connection, desk: Desk, line: Line
    ) -> tuple[Lane, Puller]:
        slots = Slots(line.slots)
        lane = Lane(desk, slots, line.performers)
        puller = Puller(connection, sources_of(line.routes, line.tier), slots, lane.take)
        lane.on_room = puller.wake
        scope.push_async_callback(lane.close)
        await scope.enter_async_context(puller.pulling())
        return lane, puller

    def _slots(self) -> tuple[int, int]:
        """How many there are, and how many are in use."""
        return sum(lane.slots.total for lane in self._lanes), sum(lane.slots.used for lane in self._lanes)

    def _membership(self, bucket: Bucket, in_hand: InHand) -> Membership:
        queues = {worker.queue for worker in self._workers}
        if self._runs_processes:
            queues.add(self._settings.queue)
        return Membership(
            bucket,
            in_hand,
            executor_id=self.executor_id,
            tier=self._settings.tier if self._runs_processes else self._workers[0].tier,
            queues=sorted(queues),
            handlers=sorted(name for worker in self._workers for name in worker.handlers),
            slots=self._slots,
        )


def _identity(name: str | None) -> tuple[int, int] | None:
    if name is None:
        return None
    try:
        user = pwd.getpwnam(name)
        return user.pw_uid, user.pw_gid
    except KeyError:
        raise SettingsError("run_as", "a user of this machine", name, "executor") from None


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
