"""What every handler has at hand. Opened once, by the composition root in `service`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from waterclock.api.gate import Gate
from waterclock.api.intake import Intake
from waterclock.api.ledger import Ledger
from waterclock.api.readmodels import ReadModels
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.frames import FrameWriter
from waterclock.core.jetstream.objects import Objects
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.instance import instance_id
from waterclock.core.runtime.settings import Settings
from waterclock.proto import names


@dataclass(frozen=True, slots=True)
class Application:
    settings: Settings
    instance: str
    connection: Connection
    publisher: Publisher
    gate: Gate
    ledger: Ledger
    intake: Intake
    requests: FrameWriter
    """Appends what users ask of runs to `RUNS`."""
    read_models: ReadModels
    logs: Objects

    def partition_of(self, job_or_run_id: str) -> int:
        return names.partition_of(job_or_run_id, self.settings.partitions)


@asynccontextmanager
async def open_application(settings: Settings) -> AsyncIterator[Application]:
    if settings.nats_url is None:
        raise ValueError("settings without nats_url: resolve them first")
    instance = instance_id("api")
    async with (
        Connection.open(settings.nats_url, name=instance) as connection,
        ReadModels.open(settings.database_url) as read_models,
    ):
        await ensure_streams(connection, Layout(partitions=settings.partitions, replicas=settings.replicas))
        publisher = Publisher(connection)
        requests = FrameWriter(publisher, writer=instance)
        try:
            yield Application(
                settings=settings,
                instance=instance,
                connection=connection,
                publisher=publisher,
                gate=Gate(settings.token),
                ledger=Ledger(connection, publisher, settings.partitions),
                intake=Intake(publisher, settings.partitions),
                requests=requests,
                read_models=read_models,
                logs=Objects(connection, publisher, names.LOGS),
            )
        finally:
            await requests.close()
