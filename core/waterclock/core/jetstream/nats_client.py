"""The only file that touches the insides of nats-py (2.16).

`WireClient` is its client with these changes:
- Bytes go straight into the socket. A batch is one write, and nothing is kept over a disconnect to be sent
  afterwards, when the caller has long been told that it failed.
- Messages of a tapped subscription go from the socket to a plain function, without a queue and tasks in between.
- An `-ERR` from the server leads to a reconnect; nats-py closes for good on most of them.
- A dead socket is aborted, since closing it politely waits for a peer that no longer reads.

Import the names of nats-py from here: so it is loaded without aiohttp.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from waterclock.core.runtime.nats_without_aiohttp import import_nats_without_aiohttp

import_nats_without_aiohttp()

from nats.aio.client import Client  # noqa: E402
from nats.aio.msg import Msg  # noqa: E402
from nats.errors import Error as NatsError  # noqa: E402
from nats.errors import ProtocolError  # noqa: E402
from nats.protocol.parser import Parser  # noqa: E402

__all__ = ["Client", "Msg", "NatsError", "Parser", "ProtocolError"]


logger = logging.getLogger(__name__)

Tap = Callable[[bytes, bytes, bytes, bytes], None]
"""Called when it is read, with subject, reply, header block and payload. Must be quick."""

_WITH_PAYLOAD = {b"MSG": 5, b"HMSG": 6}
"""Commands that carry a message, and how many fields they have when there is a reply."""


_REFUSED_PAUSE = 1.0
"""Whoever is not let in asks once a second: each time an api looks at what they brought."""


class Disconnected(Exception):
    def __init__(self) -> None:
        super().__init__("the server is away")


class WireClient(Client):
    def __init__(self) -> None:
        super().__init__()
        self.taps: dict[int, Tap] = {}
        self._ps: _TapParser = _TapParser(self)
        self._gathered: list[bytes] = []
        self._introduced = 0.0

    @property
    def answered_within(self) -> float:
        """How long ago we last said who we are: if the server has just refused us, how long it took to."""
        return time.monotonic() - self._introduced

    @property
    def is_clustered(self) -> bool:
        """Whether the server that we talk to is one of several."""
        return bool(self._server_info.get("cluster"))

    @property
    def knows_users(self) -> bool:
        """Whether the server asks who comes; one that does not has no accounts either."""
        return bool(self._server_info.get("auth_required"))

    async def tap(self, subject: str, tap: Tap) -> Callable[[], None]:
        """Subscribe with a plain function, through reconnects too. Returns what ends it."""
        subscription = await self.subscribe(subject, cb=_never_called)
        sid = subscription._id
        self.taps[sid] = tap

        def end() -> None:
            if self.taps.pop(sid, None) is None:
                return
            subscription._closed = True
            subscription._stop_processing()
            self._remove_sub(sid)
            with suppress(Disconnected):
                self.send(b"UNSUB %d\r\n" % sid)

        return end

    def send(self, data: bytes) -> None:
        """Write now, after what was gathered: a SUB of nats-py must precede the request that relies on it."""
        if not self.is_connected or self._transport is None:
            raise Disconnected
        try:
            if self._pending:
                self._transport.writelines(self._pending)
                self.forget_pending()
            if self._gathered:
                data = b"".join([*self._gathered, data])
                self._gathered.clear()
            self._transport.write(data)
        except RuntimeError as error:  # uvloop: the socket is closed, and nats-py does not know it yet
            raise Disconnected from error

    def send_soon(self, data: bytes) -> None:
        """Write at the end of this turn of the loop, together with everything else sent in it; lost if disconnected."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.send_gathered)
        self._gathered.append(data)

    def send_gathered(self) -> None:
        if self._gathered:
            with suppress(Disconnected):
                self.send(b"")
        self._gathered.clear()

    async def drain_socket(self) -> None:
        """Wait while the socket's buffer is over its high-water mark."""
        transport: Any = self._transport
        try:
            await transport.drain()
        except OSError as error:
            raise Disconnected from error

    async def close_within(self, grace: float) -> None:
        """Send what was gathered and close, by force if the server does not read any more.

        When nats-py is just reconnecting, its close awaits a future that it has cancelled itself. A cancellation
        that nobody asked of this task is that one, and the socket is gone.
        """
        self.send_gathered()
        try:
            async with asyncio.timeout(grace):
                await self.close()
        except TimeoutError:
            self.abort_socket()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise

    def abort_socket(self) -> None:
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    def forget_pending(self) -> None:
        self._pending = []
        self._pending_data_size = 0

    def _connect_command(self) -> bytes:
        """The first secret that is sent. nats-py would send it in the clear if the server offers no TLS."""
        if "tls" in self.options and self._encryption is None:
            raise NatsError("nats: the server does not speak TLS")
        self._introduced = time.monotonic()
        return super()._connect_command()

    async def _process_connect_init(self) -> None:
        transport: Any = self._transport
        read_line = transport.readline

        async def read_answer() -> bytes:
            """The server may ask whether we are there while it asks an api who we are; nats-py takes that for a yes."""
            while (line := await read_line()).strip() == b"PING":
                transport.write(b"PONG\r\n")
            return bytes(line)

        transport.readline = read_answer
        try:
            await super()._process_connect_init()
            transport.readline = read_line
        except NatsError as error:
            if "authorization violation" in str(error).lower():
                await self._error_cb(error)
                await asyncio.sleep(_REFUSED_PAUSE)
            raise

    async def _read_loop(self) -> None:
        reader = getattr(self._transport, "_io_reader", None)
        if reader is not None:
            self._ps.read_from(reader)
        await super()._read_loop()

    @property
    def _encryption(self) -> Any:
        writer = getattr(self._transport, "_io_writer", None)
        return None if writer is None else writer.get_extra_info("ssl_object")

    async def _attempt_reconnect(self) -> None:
        self.forget_pending()
        self.abort_socket()
        await super()._attempt_reconnect()


async def _never_called(message: Any) -> None:
    """A subscription needs a callback, but the parser serves a tapped one before it comes to that."""


def _reply(fields: list[bytes]) -> bytes:
    return fields[3] if len(fields) == _WITH_PAYLOAD[fields[0]] else b""


class _TapParser(Parser):
    """The protocol cut by `find` and `split`, three times as fast as by regular expressions."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        super().__init__(client)

    def reset(self) -> None:
        super().reset()
        self._chunks: list[bytes] = []
        self._parsing = False
        self._have = 0
        self._need = 0

    def read_from(self, reader: Any) -> None:
        """Take tapped messages straight from the socket: a wake-up of the read loop costs more than most of them. It
        gets the rest, and all that comes while it has not done with that: so they stay in order."""
        feed_data = reader.feed_data

        def feed(data: bytes) -> None:
            if not (self._parsing or self._chunks or reader._buffer) and self.client.is_connected:
                taken = self._tapped(data, 0)
                if taken == len(data):
                    return
                data = data[taken:]
            feed_data(data)

        reader.feed_data = feed

    async def parse(self, data: bytes = b"") -> None:
        self._parsing = True
        try:
            await self._parse(data)
        finally:
            self._parsing = False

    async def _parse(self, data: bytes) -> None:
        if self._chunks:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._chunks)
            self._chunks = []
        rest = await self._consume(data)
        if rest:
            self._chunks = [rest]
            self._have = len(rest)

    async def _consume(self, buffer: bytes) -> bytes:
        """Handle every whole command in the buffer; returns what is left."""
        position = self._need = 0
        while True:
            position = self._tapped(buffer, position)
            line_end = buffer.find(b"\r\n", position)
            if line_end < 0:
                break
            line = buffer[position:line_end]
            fields = line.split(b" ")
            if fields[0] not in _WITH_PAYLOAD:
                position = line_end + 2
                await self._control(line)
                continue
            start = line_end + 2
            stop = start + int(fields[-1])
            if stop + 2 > len(buffer):
                self._need = stop + 2 - position
                break
            position = stop + 2
            body = start + int(fields[-2]) if fields[0] == b"HMSG" else start
            await self.client._process_msg(
                int(fields[2]), fields[1], _reply(fields), buffer[body:stop], buffer[start:body]
            )
        return buffer[position:] if position else buffer

    def _tapped(self, buffer: bytes, position: int) -> int:
        """Hand over the messages of tapped subscriptions that come next. Returns where something else begins, or a
        message that is not whole."""
        taps, length = self.client.taps, len(buffer)
        while (line_end := buffer.find(b"\r\n", position)) >= 0:
            fields = buffer[position:line_end].split(b" ")
            operation = fields[0]
            tap = taps.get(int(fields[2])) if operation in _WITH_PAYLOAD else None
            if tap is None:
                break
            start = line_end + 2
            stop = start + int(fields[-1])
            if stop + 2 > length:
                break
            position = stop + 2
            body = start + int(fields[-2]) if operation == b"HMSG" else start
            try:
                tap(fields[1], _reply(fields), buffer[start:body], buffer[body:stop])
            except Exception:
                logger.exception("a message on %s could not be handled", fields[1].decode(errors="replace"))
        return position

    async def _control(self, line: bytes) -> None:
        client = self.client
        if line == b"PING":
            await client._process_ping()
        elif line == b"PONG":
            self._pong()
        elif line.startswith(b"INFO "):
            await client._process_info(json.loads(line[5:]))
        elif line.startswith(b"-ERR"):
            reason = line[4:].decode(errors="replace").strip().strip("'")
            error = NatsError(f"nats: {reason}")
            await client._error_cb(error)
            if "permissions violation" not in reason.lower():
                await client._process_op_err(error)
        elif not line.startswith(b"+OK"):
            raise ProtocolError

    def _pong(self) -> None:
        """nats-py's own trips over a flush that was given up, and stops reading."""
        client = self.client
        if client._pongs:
            waiter = client._pongs.pop(0)
            if not waiter.done():
                waiter.set_result(True)
            client._pongs_received += 1
            client._pings_outstanding = 0
