"""The executor: pools of slots, each filled from the work queue, reporting to the log. Its parts are opened here."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from waterclock.core.jetstream.access.work_consumers import may_take_lines
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Broadcast, Connection, open_log
from waterclock.core.jetstream.frame_writer import FrameWriter
from waterclock.core.jetstream.log_identity import LogWatch
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.quarantined import quarantining
from waterclock.core.jetstream.work_queue import Acks
from waterclock.core.runtime.data_directory import resolved
from waterclock.core.runtime.lifecycle import StopSignal, instance_id, ready, run_service
from waterclock.core.runtime.settings import Settings, SettingsError, load
from waterclock.core.runtime.tasks import supervised
from waterclock.core.store.factory import open_store
from waterclock.core.store.secret_keys import SecretKeys
from waterclock.core.store.secrets import SecretStore
from waterclock.executor.attempt.keepalive import KeepAlive
from waterclock.executor.attempt.recalls import Recalls
from waterclock.executor.attempt.reporter import ProgressReports, Reporter
from waterclock.executor.attempt.runner import Runner
from waterclock.executor.attempt.stop_requests import StopRequests
from waterclock.executor.heartbeat import Heartbeat
from waterclock.executor.in_flight import InFlight
from waterclock.executor.intake.dispatcher import Dispatcher
from waterclock.executor.intake.puller import Puller
from waterclock.executor.intake.redelivery import Claims
from waterclock.executor.intake.slots import Slots
from waterclock.executor.intake.sources import sources_of
from waterclock.executor.limits.admission import Admission
from waterclock.executor.limits.concurrency import ConcurrencyLimits
from waterclock.executor.limits.exactly_once import RunLeases
from waterclock.executor.limits.rate import RateLimits
from waterclock.executor.logs.output import OutputLogs, answering_output_requests
from waterclock.executor.metrics import ExecutorMetrics
from waterclock.executor.perform.handler import Secrets
from waterclock.executor.perform.job_confinement import confinement_of, users_of
from waterclock.executor.perform.performers import Performers, queue_performers, worker_performers
from waterclock.executor.secrets import SecretCache, SecretResolver
from waterclock.executor.warden.client import WardenClient
from waterclock.executor.worker import Worker, load_workers
from waterclock.proto import names

_log = logging.getLogger(__name__)

_RIGHTS_SECONDS = 30.0
_MAX_IN_FLIGHT = 20_000
"""Ended, but not yet in the log: if there are more than this the log is away, and nothing more is begun."""


async def run(settings: Settings, stop: StopSignal) -> None:
    """Serve the queue's commands, programs and calls, and the handlers of the workers that were named."""
    await Executor(settings, load_workers(settings.worker), processes=True).run(stop)


def serve_worker(worker: Worker, flags: dict[str, object]) -> int:
    """`Worker.run()`: a program that is one worker and nothing else. Returns the exit code."""

    async def entry(settings: Settings, stop: StopSignal) -> None:
        await Executor(settings, [worker], processes=False).run(stop)

    return run_service("worker", entry, resolved(load(flags), "executor"))


class _Pool(Struct, frozen=True, kw_only=True):
    """Slots, and what they serve. There is one for the queue's commands and one for each worker."""

    routes: list[str]
    tier: str
    slots: int
    performers: Performers


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
        self._protections: dict[str, str] = {}

    async def run(self, stop: StopSignal) -> None:
        settings, executor_id = self._settings, self.executor_id
        async with AsyncExitStack() as scope:
            connection = await scope.enter_async_context(open_log(settings, name=executor_id))
            log_watch = LogWatch(connection)
            await log_watch.check()
            publisher = Publisher(connection)
            frames = FrameWriter(publisher, writer=executor_id)
            control = Bucket(connection, publisher, names.CONTROL)
            in_flight = InFlight()
            metrics = ExecutorMetrics(slots=self._total_and_used, in_flight=lambda: len(in_flight))
            scope.enter_context(metrics.registered())
            scope.enter_context(quarantining(connection, "executor"))
            secret_keys = SecretKeys(settings)
            secrets = SecretStore(Bucket(connection, publisher, names.SECRETS), secret_keys)
            shared = _SharedParts(
                settings, executor_id, connection, frames, control, in_flight, metrics, secrets
            )
            stop_requests = shared.stop_requests.subscribed(connection, executor_id)
            await scope.enter_async_context(stop_requests)
            await scope.enter_async_context(shared.recalls.heard(connection))
            warden = await scope.enter_async_context(self._open_warden()) if self._runs_processes else None
            cache = SecretCache(connection, shared.secrets, secret_keys)
            if self._workers:
                await scope.enter_async_context(cache.follow())
            pools = await self._pools(scope, connection, publisher, warden, cache.value)
            route = next((route for pool in pools for route in pool.routes), "")
            may_take = await may_take_lines(connection, route)
            exact = may_take is not False
            opened = [await self._open(scope, connection, shared, pool, exact) for pool in pools]
            heartbeat = self._heartbeat(control, in_flight)
            heartbeat.lines = bool(may_take)
            progress = ProgressReports(in_flight, frames.append, shared.reporter.partition_of)
            async with supervised() as tasks:
                tasks.keep(shared.keepalive.run(), name="renew deliveries")
                tasks.keep(shared.admission.concurrency.keep_renewed(), name="renew concurrency permits")
                tasks.keep(shared.recalls.keep_known(), name="know what was recalled")
                tasks.keep(heartbeat.run(), name="heartbeat")
                if may_take is None:
                    tasks.spawn(_ask_again(heartbeat, connection, route), name="may it take lines")
                tasks.keep(progress.run(), name="report progress")
                tasks.keep(log_watch.run(), name="watch the log's identity")
                if warden is not None:
                    tasks.keep(warden.until_lost(), name="warden")
                self.taking_work.set()
                ready()
                _log.info("taking work", extra={"executor": executor_id})
                await stop.wait()
                heartbeat.state = "draining"
                await asyncio.gather(*(puller.stop() for _, puller in opened))
                await asyncio.gather(*(dispatcher.drain(settings.grace_seconds) for dispatcher, _ in opened))
                shared.reporter.report_rest()
                await frames.close()
                shared.keepalive.send_acks()
            await heartbeat.remove()

    @asynccontextmanager
    async def _open_warden(self) -> AsyncIterator[WardenClient]:
        settings = self._settings
        users, reported = users_of(settings)
        async with WardenClient.open(confinement=confinement_of(settings), users=users) as warden:
            self._protections = {**warden.protections, **reported}
            for what, reason in self._protections.items():
                if reason:
                    _log.warning(
                        "jobs run without a protection", extra={"protection": what, "reason": reason}
                    )
            yield warden

    async def _pools(
        self,
        scope: AsyncExitStack,
        connection: Connection,
        publisher: Publisher,
        warden: WardenClient | None,
        secrets: Secrets,
    ) -> list[_Pool]:
        settings = self._settings
        logs = await scope.enter_async_context(open_store(settings, connection, publisher, names.LOGS))
        outputs = OutputLogs(logs, Broadcast(connection), settings.output_limit)
        await scope.enter_async_context(answering_output_requests(connection, outputs, self.executor_id))
        pools = [
            _Pool(
                # Each handler has a route of its own, so that no worker is given what it cannot run.
                routes=[names.route_of(worker.queue, name) for name in worker.handlers],
                tier=worker.tier,
                slots=worker.slots,
                performers=scope.enter_context(worker_performers(worker, outputs, secrets)),
            )
            for worker in self._workers
        ]
        if warden is not None:
            store = open_store(settings, connection, publisher, names.ARTIFACTS)
            artifacts = await scope.enter_async_context(store)
            performers = queue_performers(settings, outputs, warden, artifacts)
            pools.append(
                _Pool(
                    routes=[settings.queue],
                    tier=settings.tier,
                    slots=settings.slots,
                    performers=await scope.enter_async_context(performers),
                )
            )
        return pools

    async def _open(
        self,
        scope: AsyncExitStack,
        connection: Connection,
        shared: "_SharedParts",
        pool: _Pool,
        exact: bool,
    ) -> tuple[Dispatcher, Puller]:
        slots = Slots(pool.slots)
        self._slots.append(slots)
        dispatcher = shared.dispatcher(slots, pool.performers)
        puller = Puller(
            connection,
            sources_of(pool.routes, pool.tier),
            slots,
            dispatch=dispatcher.dispatch,
            may_pull=lambda: len(shared.in_flight) < _MAX_IN_FLIGHT,
            exact=exact,
        )
        dispatcher.on_free_slot = puller.wake
        scope.push_async_callback(dispatcher.close)
        await scope.enter_async_context(puller.pulling())
        return dispatcher, puller

    def _heartbeat(self, bucket: Bucket, in_flight: InFlight) -> Heartbeat:
        queues = {worker.queue for worker in self._workers}
        tiers = {worker.tier for worker in self._workers}
        if self._runs_processes:
            queues.add(self._settings.queue)
            tiers.add(self._settings.tier)
        return Heartbeat(
            bucket,
            in_flight,
            executor_id=self.executor_id,
            tier=max(tiers, key=names.TIERS.index),
            queues=sorted(queues),
            handlers=sorted(name for worker in self._workers for name in worker.handlers),
            parcels=sorted(_may_share_messages(self._workers)),
            slots=self._total_and_used,
            protections=self._protections,
        )

    def _total_and_used(self) -> tuple[int, int]:
        return sum(slots.total for slots in self._slots), sum(slots.used for slots in self._slots)


async def _ask_again(heartbeat: Heartbeat, connection: Connection, route: str) -> None:
    may_take: bool | None = None
    while may_take is None:
        await asyncio.sleep(_RIGHTS_SECONDS)
        may_take = await may_take_lines(connection, route)
    heartbeat.lines = may_take


def _may_share_messages(workers: Sequence[Worker]) -> set[str]:
    """Handlers of which many attempts may come in one message: not those that need a process each."""
    handlers = [handler for worker in workers for handler in worker.handlers.values()]
    return {each.name for each in handlers} - {each.name for each in handlers if each.run_in == "process"}


class _SharedParts:
    """What the pools of an executor have in common."""

    def __init__(
        self,
        settings: Settings,
        executor_id: str,
        connection: Connection,
        frames: FrameWriter,
        control: Bucket,
        in_flight: InFlight,
        metrics: ExecutorMetrics,
        secrets: SecretStore,
    ) -> None:
        partitions = settings.partitions
        self._executor_id = executor_id
        self._stop_grace = settings.stop_grace_seconds
        self._acks = Acks(connection)
        self._claims = Claims(connection, metrics, executor_id=executor_id, partitions=partitions)
        self._leases = RunLeases(control, executor_id)
        self.secrets = secrets
        self.in_flight = in_flight
        self.keepalive = KeepAlive(
            in_flight,
            self._acks,
            ack_wait=settings.ack_wait_seconds,
            connected=lambda: connection.nc.is_connected,
        )
        self.reporter = Reporter(frames, in_flight, metrics, executor_id=executor_id, partitions=partitions)
        self.stop_requests = StopRequests(in_flight, grace=settings.stop_grace_seconds)
        self.recalls = Recalls(control)
        self.admission = Admission(ConcurrencyLimits(control, executor_id), RateLimits(control))

    def dispatcher(self, slots: Slots, performers: Performers) -> Dispatcher:
        runner = Runner(
            performers,
            executor_id=self._executor_id,
            in_flight=self.in_flight,
            keepalive=self.keepalive,
            reporter=self.reporter,
            secrets=SecretResolver(self.secrets),
            leases=self._leases,
            concurrency=self.admission.concurrency,
            stop_grace=self._stop_grace,
        )
        return Dispatcher(
            slots,
            runner,
            in_flight=self.in_flight,
            acks=self._acks,
            keepalive=self.keepalive,
            reporter=self.reporter,
            stop_requests=self.stop_requests,
            recalls=self.recalls,
            claims=self._claims,
            admission=self.admission,
        )
