"""Which performer runs which kind of job. A new kind is a file beside this one and a line here."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

from waterclock.core.runtime.settings import Settings
from waterclock.core.store.store import Store
from waterclock.executor.attempt_record import Attempt, Result
from waterclock.executor.in_flight import RunningAttempt
from waterclock.executor.logs.output import OutputLogs
from waterclock.executor.perform.artifact import ArtifactPerformer
from waterclock.executor.perform.artifact_cache import ArtifactCache
from waterclock.executor.perform.handler import HandlerPerformer, Secrets
from waterclock.executor.perform.job_confinement import artifact_directory, most_of
from waterclock.executor.perform.process import ProcessPerformer
from waterclock.executor.warden.client import WardenClient
from waterclock.executor.worker import Worker
from waterclock.proto.spec import Argv, Artifact, Handler, Http, Shell


class Performer(Protocol):
    """Does what an attempt is for. If it is stopped, it returns only once nothing of it is left."""

    async def perform(self, attempt: Attempt, running: RunningAttempt) -> Result: ...


Performers = Mapping[type, Performer]
"""By the type of the job's task."""


@asynccontextmanager
async def queue_performers(
    settings: Settings, outputs: OutputLogs, warden: WardenClient, artifacts: Store
) -> AsyncIterator[Performers]:
    """For everything that any executor of a queue can run: all kinds but handlers."""
    from waterclock.executor.perform.http import HttpPerformer  # aiohttp, which a worker does without

    process = ProcessPerformer(warden, outputs, most_of(settings))
    cache = ArtifactCache(artifacts, artifact_directory(settings), settings.cache_bytes)
    async with HttpPerformer.open(
        outputs, private=settings.http_private, loopback=bool(settings.http_loopback)
    ) as http:
        yield {
            Shell: process,
            Argv: process,
            Artifact: ArtifactPerformer(process, cache, warden),
            Http: http,
        }


@contextmanager
def worker_performers(worker: Worker, outputs: OutputLogs, secrets: Secrets) -> Iterator[Performers]:
    """For the handlers of one worker."""
    with HandlerPerformer.open(worker.handlers, worker.slots, outputs, secrets) as handler:
        yield {Handler: handler}
