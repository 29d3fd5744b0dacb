"""What every handler has at hand. Opened once, by the composition root in `service`."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from waterclock.api.admission.admission import Admission
from waterclock.api.auth.access_log import AccessLog
from waterclock.api.auth.gate import Gate
from waterclock.api.auth.quotas import Quotas
from waterclock.api.auth.sessions import Sessions
from waterclock.api.auth.streams import StreamLimits
from waterclock.api.auth.tokens import Tokens
from waterclock.api.eventlog.job_writer import JobWriter
from waterclock.api.eventlog.run_requests import RunRequests
from waterclock.api.readmodels.freshness import Freshness
from waterclock.api.readmodels.pool import Pool
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection, open_log
from waterclock.core.jetstream.job_definitions import Definitions
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.quarantined import quarantining
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.lifecycle import instance_id
from waterclock.core.runtime.settings import Settings
from waterclock.core.store.factory import open_store
from waterclock.core.store.secret_keys import SecretKeys
from waterclock.core.store.secrets import SecretStore
from waterclock.core.store.store import Store
from waterclock.proto import names


@dataclass(frozen=True, slots=True)
class Application:
    settings: Settings
    instance: str
    connection: Connection
    publisher: Publisher
    tokens: Tokens
    sessions: Sessions
    gate: Gate
    access_log: AccessLog
    secret_keys: SecretKeys
    secrets: SecretStore
    streams: StreamLimits
    quotas: Quotas
    admission: Admission
    definitions: Definitions
    job_writer: JobWriter
    run_requests: RunRequests
    pool: Pool
    """The read models."""
    freshness: Freshness
    control: Bucket
    artifacts: Store
    logs: Store
    """Output of runs, and parts of uploads that are not complete."""

    def partition_of(self, job_or_run_id: str) -> int:
        return names.partition_of(job_or_run_id, self.settings.partitions)


@asynccontextmanager
async def open_application(settings: Settings) -> AsyncIterator[Application]:
    instance = instance_id("api")
    async with AsyncExitStack() as scope:
        connection = await scope.enter_async_context(open_log(settings, name=instance))
        pool = await scope.enter_async_context(Pool.open(settings.database_url))
        await ensure_streams(connection, Layout(partitions=settings.partitions, replicas=settings.replicas))
        publisher = Publisher(connection)
        scope.enter_context(quarantining(connection, "api"))
        artifacts, logs = [
            await scope.enter_async_context(open_store(settings, connection, publisher, kind))
            for kind in (names.ARTIFACTS, names.LOGS)
        ]
        control = Bucket(connection, publisher, names.CONTROL)
        tokens = Tokens(connection, control)
        await scope.enter_async_context(tokens.follow())
        sessions = Sessions(connection, control)
        await scope.enter_async_context(sessions.follow())
        secret_keys = SecretKeys(settings)
        freshness = Freshness(connection, pool)
        job_writer = await scope.enter_async_context(
            JobWriter.open(connection, publisher, settings.partitions, written=freshness.wrote)
        )
        yield Application(
            settings=settings,
            instance=instance,
            connection=connection,
            publisher=publisher,
            tokens=tokens,
            sessions=sessions,
            gate=Gate(settings, tokens, sessions),
            access_log=await scope.enter_async_context(AccessLog.open(connection, publisher)),
            secret_keys=secret_keys,
            secrets=SecretStore(Bucket(connection, publisher, names.SECRETS), secret_keys),
            streams=StreamLimits(settings.streams_per_token),
            quotas=Quotas(control, pool, settings),
            admission=await scope.enter_async_context(Admission.open(control, instance)),
            definitions=Definitions(connection, publisher, settings.partitions),
            job_writer=job_writer,
            run_requests=RunRequests(publisher, instance),
            pool=pool,
            freshness=freshness,
            control=control,
            artifacts=artifacts,
            logs=logs,
        )
