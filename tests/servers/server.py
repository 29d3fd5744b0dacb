"""A server a test may stop, kill and start again. It keeps its port and its data."""

from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.server import EmbeddedServer, start_blocking
from waterclock.core.runtime.processes.process import Process, stop_blocking


class Server:
    """Calls block: `start` until clients are welcome, `kill` and `stop` until the process is gone."""

    def __init__(self, embedded: EmbeddedServer) -> None:
        self._embedded = embedded
        self._process: Process | None = None
        embedded.prepare()

    @property
    def url(self) -> str:
        return self._embedded.url

    def url_for(self, role: str) -> str:
        """For one of the users of a nats-server; `url` is the administrator's."""
        assert isinstance(self._embedded, EmbeddedNats)
        return self._embedded.url_for(role)

    @property
    def address(self) -> str:
        assert isinstance(self._embedded, EmbeddedNats)
        return self._embedded.address

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        assert self._process is None, "already started"
        self._process = start_blocking(self._embedded)

    def stop(self) -> None:
        if self._process is not None:
            stop_blocking(self._process, self._embedded.stop_signal)
            self._process = None

    def kill(self) -> None:
        assert self._process is not None, "not started"
        self._process.kill()
        self._process.wait_blocking(10)
        self._process = None
