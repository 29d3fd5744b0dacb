"""The scheduler's heartbeat, sent by a thread with a connection and a loop of its own.

Nothing that the partitions do can hold it up: not a long pass, not a connection full of definitions. It says that the
main loop lives, so it stops when that has not turned for a while. The main loop leaves here what is to be sent.

The thread also knows how far we can be sure of ourselves. Others take us for dead `lease_seconds` after the last beat
that the server has stored; so nobody has, as long as an acknowledged one was sent clearly less than that ago.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from math import ceil

import uvloop

from waterclock.core.jetstream.connection import Connection, Reply, open_log
from waterclock.core.jetstream.nats_client import Disconnected
from waterclock.core.jetstream.protocol import publish_command
from waterclock.core.runtime.settings import Settings
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.heartbeats import SchedulerHeartbeat

BEAT = 0.4
_MARGIN = 0.5
"""So long before others may take us for dead we are no longer sure of ourselves."""
_DOUBT_MARGIN = 0.1
"""A gap between beats that is shorter by this than what others judge by cannot have been seen as our death."""
_STALLED = 3.0
_UNANSWERED = 16
"""So many beats may wait for their answer; that of an older one is of no interest."""
_CLOSE = 3.0

_log = logging.getLogger(__name__)


class Heartbeat:
    def __init__(self, settings: Settings, instance: str) -> None:
        self.doubts = 0
        """How often somebody may have taken us for dead: beats came too far apart."""
        self._settings = settings
        self._dead_after = settings.lease_seconds
        self._ttl = max(2, ceil(settings.lease_seconds))
        """Not less than we may be silent: who comes new must not take a missing heartbeat for a death."""
        self._instance = instance
        self._subject = names.kv_subject(names.CONTROL, names.member_key("scheduler", instance))
        self._message = b""
        self._turned_at = time.monotonic()
        self._acknowledged: float | None = None
        """When the last beat that was acknowledged was sent."""
        self._unanswered: deque[str] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._stopping = False

    # -- for the main loop ------------------------------------------------------------------------------

    def put(self, message: bytes) -> None:
        """What to send from now on. So the main loop lives."""
        self._message = message
        self._turned_at = time.monotonic()

    def send_now(self, heartbeat: SchedulerHeartbeat) -> None:
        """Not only when it is time."""
        self.put(encode(heartbeat))
        self._hurry()

    async def feed(self, describe: Callable[[], SchedulerHeartbeat], doubted: Callable[[], None]) -> None:
        """The main loop's part, until cancelled: that it turns, and what to say. `doubted` is called when somebody may
        have taken us for dead."""
        doubts = self.doubts
        while True:
            self.put(encode(describe()))
            await asyncio.sleep(BEAT)
            if self.doubts != doubts:
                doubts = self.doubts
                doubted()

    @property
    def is_fresh(self) -> bool:
        """Whether an acknowledged beat was sent a moment ago."""
        last = self._acknowledged
        return last is not None and time.monotonic() - last < self._dead_after - _MARGIN

    @asynccontextmanager
    async def beating(self) -> AsyncIterator["asyncio.Future[None]"]:
        """Beat while the body runs. The future ends when the thread does, with its error if it has one."""
        ended: Future[None] = Future()
        ended.set_running_or_notify_cancel()  # from now on nobody but the thread ends it
        thread = threading.Thread(target=self._run, args=(ended,), name="heartbeat", daemon=True)
        thread.start()
        try:
            yield asyncio.wrap_future(ended)
        finally:
            self._stopping = True
            self._hurry()
            await asyncio.to_thread(thread.join, _CLOSE)

    def _hurry(self) -> None:
        with suppress(RuntimeError):  # its loop is closed
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._wake.set)

    # -- the thread -------------------------------------------------------------------------------------

    def _run(self, ended: "Future[None]") -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._beat())
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    async def _beat(self) -> None:
        async with open_log(self._settings, name=f"{self._instance} heartbeat") as connection:
            self._loop = asyncio.get_running_loop()
            while not self._stopping:
                self._wake.clear()
                if self._message and time.monotonic() - self._turned_at < _STALLED:
                    self._send(connection)
                try:
                    async with asyncio.timeout(BEAT):
                        await self._wake.wait()
                except TimeoutError:
                    pass
            self._loop = None

    def _send(self, connection: Connection) -> None:
        """Does not wait for the answer: the next beat is not to be late because the server is."""
        reply, answer = connection.inbox.expect()
        sent = time.monotonic()
        self._unanswered.append(reply)
        if len(self._unanswered) > _UNANSWERED:
            connection.inbox.forget(self._unanswered.popleft())

        def answered(future: "asyncio.Future[Reply]") -> None:
            if not future.cancelled() and future.exception() is None:
                self._answered(sent, *future.result())

        answer.add_done_callback(answered)
        try:
            connection.nc.send(
                publish_command(self._subject, reply, {"Nats-TTL": f"{self._ttl}s"}, self._message)
            )
        except Disconnected:
            connection.inbox.forget(reply)

    def _answered(self, sent: float, header: bytes, payload: bytes) -> None:
        if header.startswith(b"NATS/1.0 503") or b'"error"' in payload:
            _log.warning("a heartbeat was refused: %s", payload.decode(errors="replace") or "no stream")
            return
        last = self._acknowledged
        # The server has stored it between then and now: this is the longest that it can have had no beat of ours.
        if last is not None and time.monotonic() - last > self._dead_after - _DOUBT_MARGIN:
            self.doubts += 1
        self._acknowledged = sent if last is None else max(last, sent)
