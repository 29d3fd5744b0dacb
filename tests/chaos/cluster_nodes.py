"""nats-servers that form a JetStream cluster on loopback, with a network between them that can be cut."""

import http.client
import json
import signal
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from chaos.proxy import Proxy
from waterclock.core.runtime.embedded.nats import nats_server_binary
from waterclock.core.runtime.ports import LOOPBACK, Port
from waterclock.core.runtime.processes.process import Process, spawn

_PASSWORD = "a-password-for-the-fault-suite"
_NOWHERE = f"{LOOPBACK}:1"


class ClusterNode:
    """Routes to every other node through a proxy for each direction, so that one node can be cut off from the rest."""

    stop_signal = signal.SIGTERM

    def __init__(self, number: int, directory: Path) -> None:
        self.name = f"nats-{number}"
        self._ports = [Port(), Port(), Port()]
        self.port, self.monitor_port, self.route_port = (port.secure() for port in self._ports)
        self.routes: dict[str, Proxy] = {}
        """The way to each other node."""
        self._directory = directory / self.name
        self._log = directory / "logs" / f"{self.name}.log"

    @classmethod
    async def plan(cls, scope: AsyncExitStack, directory: Path, count: int) -> list["ClusterNode"]:
        nodes = [cls(number, directory) for number in range(1, count + 1)]
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.routes[other.name] = await scope.enter_async_context(
                        Proxy.listening(other.route_port)
                    )
        return nodes

    @property
    def url(self) -> str:
        return f"nats://waterclock:{_PASSWORD}@{LOOPBACK}:{self.port}"

    def prepare(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "nats.conf").write_text(json.dumps(self._config()))

    def launch(self, *, inherit: Sequence[int] = ()) -> Process:
        return spawn(
            [nats_server_binary(), "--config", str(self._directory / "nats.conf")],
            log=self._log,
            pass_fds=inherit,
        )

    def ready(self) -> bool:
        """It takes clients, knows the leader and has caught up with it."""
        try:
            socket.create_connection((LOOPBACK, self.port), 1.0).close()
            connection = http.client.HTTPConnection(LOOPBACK, self.monitor_port, timeout=1.0)
            try:
                connection.request("GET", "/healthz")
                return connection.getresponse().status == 200
            finally:
                connection.close()
        except (OSError, http.client.HTTPException):
            return False

    def lost_port(self) -> bool:
        return False  # the ports are held: the others know their numbers

    def failing(self) -> str | None:
        return None

    def _config(self) -> dict[str, object]:
        return {
            "server_name": self.name,
            "listen": f"{LOOPBACK}:{self.port}",
            "http": f"{LOOPBACK}:{self.monitor_port}",
            "max_payload": 8 * 1024 * 1024,
            "authorization": {"users": [{"user": "waterclock", "password": _PASSWORD}]},
            "jetstream": {
                "store_dir": str(self._directory),
                "sync_interval": "always",
                "limits": {"default_max_consumers": 10_000},
            },
            "cluster": {
                "name": "waterclock",
                "listen": f"{LOOPBACK}:{self.route_port}",
                "advertise": _NOWHERE,  # nobody finds a way around the proxies
                "no_advertise": True,
                "pool_size": -1,
                "routes": [f"nats://{LOOPBACK}:{proxy.port}" for proxy in self.routes.values()],
            },
        }
