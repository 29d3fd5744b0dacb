"""A whole waterclock of separate processes, kept running as `waterclock up` keeps them, each with a network of its own.

Between every component and NATS, and between projector or api and Postgres, there is a proxy of this process.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from chaos.cluster_nodes import ClusterNode
from chaos.proxy import Proxy
from waterclock.core.jetstream.access.permissions import ACCESS
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.data_directory import inbox_of
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.server import EmbeddedServer, ServerProgram
from waterclock.core.runtime.ports import LOOPBACK, Port
from waterclock.core.runtime.processes.program import Component
from waterclock.core.runtime.processes.program import Program as Kept
from waterclock.core.runtime.processes.supervisor import Child

TESTS = Path(__file__).parent.parent
TOKEN = "a-token-for-the-fault-suite"
COMPONENTS = ("scheduler", "executor", "projector", "api")
GRACE = 3.0

Environment = Callable[[str, Path], Mapping[str, str]]
"""What a process of this name has in its environment beside the usual."""


class Installation:
    """Names of processes: nats (or nats-1 to nats-3), postgres, and `<component>-<n>`."""

    def __init__(
        self, directory: Path, *, counts: Mapping[str, int], nodes: int, environment: Environment
    ) -> None:
        self.directory = directory
        self.counts = counts
        self._port = Port()
        self.url = f"http://{LOOPBACK}:{self._port.secure()}"
        self.children: dict[str, Child] = {}
        self.proxies: dict[str, list[Proxy]] = {}
        """By component process, those to NATS; `<name>/postgres`, the one to Postgres; `<node>/routes`."""
        self.nodes = nodes
        self.servers: list[EmbeddedServer] = []
        self._environment = environment
        self._scope = AsyncExitStack()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._programs: dict[str, Kept] = {}

    # -- its life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        logs = self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        postgres = EmbeddedPostgres(self.directory / "postgres", log=logs / "postgres.log")
        brokers: list[EmbeddedServer]
        if self.nodes == 1:
            brokers = [EmbeddedNats(self.directory / "nats", log=logs / "nats.log", access=ACCESS)]
        else:
            brokers = list(await ClusterNode.plan(self._scope, self.directory, self.nodes))
        self.servers = [*brokers, postgres]
        await asyncio.gather(*(asyncio.to_thread(server.prepare) for server in self.servers))
        for server in self.servers:
            self._programs[server.name] = ServerProgram(server)
        await self._run([server.name for server in self.servers])
        async with self.log() as log:
            await ensure_streams(log, Layout(replicas=3 if self.nodes > 1 else 1))
        for component in COMPONENTS:
            for number in range(1, self.counts.get(component, 1) + 1):
                name = f"{component}-{number}"
                environment = await self._environment_of(name, component, brokers, postgres)
                argv = [sys.executable, "-m", "waterclock.api.cli", component]
                self._programs[name] = Component(
                    name, argv, environment, grace=GRACE + 5, log=logs / f"{name}.log"
                )
        await self._run(self.component_names)

    async def close(self) -> None:
        await self.stop(self.component_names)
        await self.stop([server.name for server in self.servers])
        await self._scope.aclose()

    async def _run(self, names: Sequence[str]) -> None:
        """Start these; return when all do their work."""
        for name in names:
            child = self.children[name] = Child(self._programs[name], changed=lambda: None)
            self._tasks[name] = asyncio.create_task(child.run(), name=name)
        await asyncio.gather(*(self.children[name].started() for name in names))

    async def stop(self, names: Sequence[str]) -> None:
        await asyncio.gather(*(self.children[name].stop() for name in names if name in self.children))
        await asyncio.gather(*(self._tasks.pop(name) for name in names if name in self._tasks))
        for name in names:
            self.children.pop(name, None)

    async def restart(self, names: Sequence[str]) -> None:
        await self._run(names)

    def launch(self, names: Sequence[str]) -> None:
        """Start these without waiting for them: they may refuse."""
        for name in names:
            child = self.children[name] = Child(self._programs[name], changed=lambda: None)
            self._tasks[name] = asyncio.create_task(child.run(), name=name)

    # -- its parts ----------------------------------------------------------------------------------------

    @property
    def component_names(self) -> list[str]:
        return [name for name in self._programs if name.rpartition("-")[0] in COMPONENTS]

    @property
    def broker_names(self) -> list[str]:
        return [server.name for server in self.servers if server.name.startswith("nats")]

    @property
    def nats_url(self) -> str:
        return ",".join(server.url for server in self.servers if server.name.startswith("nats"))

    @property
    def database_url(self) -> str:
        return next(server.url for server in self.servers if server.name == "postgres")

    def pid(self, name: str) -> int | None:
        child = self.children.get(name)
        return None if child is None else child.pid

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> int:
        pid = self.pid(name)
        assert pid is not None, f"{name} does not run"
        os.kill(pid, how)
        return pid

    def log_of(self, name: str) -> str:
        file = self.directory / "logs" / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def http(self, **options: float) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {TOKEN}"},
            limits=limits,
            timeout=options.get("timeout", 3.0),
        )

    @asynccontextmanager
    async def log(self) -> AsyncIterator[Connection]:
        """A connection to NATS that passes no proxy."""
        async with Connection.open(self.nats_url, name="chaos") as connection:
            yield connection

    async def _environment_of(
        self, name: str, component: str, brokers: Sequence[EmbeddedServer], postgres: EmbeddedServer
    ) -> dict[str, str]:
        self.proxies[name] = [await self._proxy(_port(server.url)) for server in brokers]
        urls = [
            _through(_url_for(server, component), proxy.port)
            for server, proxy in zip(brokers, self.proxies[name], strict=True)
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH")))),
            "WATERCLOCK_DATA": str(self.directory / "data"),
            "WATERCLOCK_NATS_URL": ",".join(urls),
            "WATERCLOCK_NATS_INBOX": inbox_of(component),
            "WATERCLOCK_TOKEN": TOKEN,
            "WATERCLOCK_PORT": str(_port(self.url)),
            "WATERCLOCK_REPLICAS": "3" if self.nodes > 1 else "1",
            "WATERCLOCK_WORKER": "chaos.worker:worker",
            "WATERCLOCK_HTTP_PRIVATE": "true",
            "WATERCLOCK_GRACE_SECONDS": str(GRACE),
            **self._environment(name, self.directory),
        }
        if component in ("projector", "api"):
            proxy = await self._proxy(_port(postgres.url))
            self.proxies[f"{name}/postgres"] = [proxy]
            environment["WATERCLOCK_DATABASE_URL"] = _through(postgres.url, proxy.port)
        else:
            environment["WATERCLOCK_DATABASE_URL"] = postgres.url
        return environment

    async def _proxy(self, port: int) -> Proxy:
        return await self._scope.enter_async_context(Proxy.listening(port))


@asynccontextmanager
async def installed(
    directory: Path,
    *,
    counts: Mapping[str, int] | None = None,
    nodes: int = 1,
    environment: Environment = lambda _name, _directory: {},
) -> AsyncIterator[Installation]:
    installation = Installation(directory, counts=counts or {}, nodes=nodes, environment=environment)
    try:
        await installation.start()
        yield installation
    finally:
        await installation.close()


def _url_for(server: EmbeddedServer, component: str) -> str:
    """With the least rights, where the server knows any."""
    return server.url_for(component) if isinstance(server, EmbeddedNats) else server.url


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None, f"{url} has no port"
    return port


def _through(url: str, port: int) -> str:
    parts = urlsplit(url)
    user, _, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}@{LOOPBACK}:{port}" if user else f"{LOOPBACK}:{port}").geturl()
