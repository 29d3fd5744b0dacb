"""Lines of work: what an executor serves, with which slots, and who performs it."""

import pwd
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from msgspec import Struct

from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.core.store.store import Store
from waterclock.executor.logs.output import Outputs
from waterclock.executor.perform.artifact import ArtifactPerformer
from waterclock.executor.perform.artifact_cache import ArtifactCache
from waterclock.executor.perform.handler import HandlerPerformer, Threads
from waterclock.executor.perform.handler_process import Crew
from waterclock.executor.perform.performer import Performer
from waterclock.executor.perform.process import ProcessPerformer
from waterclock.executor.warden.client import Processes
from waterclock.executor.worker import Worker
from waterclock.proto import names
from waterclock.proto.spec import Argv, Artifact, Handler, Http, Shell


class Line(Struct, frozen=True, kw_only=True):
    routes: list[str]
    tier: str
    slots: int
    performers: dict[type, Performer]


@asynccontextmanager
async def command_line(
    settings: Settings, outputs: Outputs, processes: Processes, artifacts: Store
) -> AsyncIterator[Line]:
    """A queue's commands, programs, artifacts and calls: everything but handlers."""
    from waterclock.executor.perform.http import HttpPerformer

    process = ProcessPerformer(processes, outputs, identity=_identity(settings.run_as))
    cache = ArtifactCache(artifacts, settings.data.absolute() / "artifacts", settings.cache_bytes)
    async with HttpPerformer.open(
        outputs, private=settings.http_private, loopback=bool(settings.http_loopback)
    ) as http:
        yield Line(
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


@contextmanager
def worker_line(worker: Worker, outputs: Outputs) -> Iterator[Line]:
    """A worker's handlers: each has a route of its own, so that nobody is handed what it cannot run."""
    threads, crew = Threads(worker.slots), Crew()
    try:
        yield Line(
            routes=[names.route_of(worker.queue, name) for name in worker.handlers],
            tier=worker.tier,
            slots=worker.slots,
            performers={Handler: HandlerPerformer(worker.handlers, outputs, threads, crew)},
        )
    finally:
        crew.close()
        threads.close()


def _identity(name: str | None) -> tuple[int, int] | None:
    """User and group of somebody on this machine."""
    if name is None:
        return None
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise SettingsError("run_as", "a user of this machine", name, "executor") from None
    return user.pw_uid, user.pw_gid
