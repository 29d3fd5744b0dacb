"""The only file that touches the insides of nats-py (2.16).

`WireClient` is its client with three things changed. Bytes go straight into the socket, so that a batch is one
write and nothing is kept over a disconnect to be sent later by surprise. Incoming messages of a tapped
subscription go to a plain function, without a queue and a task in between. And a dead socket is aborted
before a reconnect, since closing it politely waits for a peer that no longer reads.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from nats.aio.client import Client
from nats.errors import Error, ProtocolError
from nats.protocol.parser import Parser

logger = logging.getLogger(__name__)

Tap = Callable[[bytes, bytes, bytes, bytes], None]
"""Called in the read loop with subject, reply, header block and payload. Must not block or raise."""


class Disconnected(Exception):
    """The socket is away; nothing was sent."""


class WireClient(Client):
    def __init__(self) -> None:
        super().__init__()
        self.taps: dict[int, Tap] = {}
        self._ps = _TapParser(self)
        self._soon: list[bytes] = []

    async def tap(self, subject: str, tap: Tap) -> Callable[[], None]:
        """Subscribe with a plain function; nats-py replays the subscription after a reconnect. Returns the end."""
        subscription = await self.subscribe(subject, cb=_tapped)
        sid = subscription._id
        self.taps[sid] = tap

        def end() -> None:
            if self.taps.pop(sid, None) is None or self.is_closed:
                return
            subscription._closed = True
            subscription._stop_processing()
            self._remove_sub(sid)
            if self.is_connected:
                self.send(b"UNSUB %d\r\n" % sid)

        return end

    def send(self, data: bytes) -> None:
        """Write now, after whatever nats-py has gathered itself (a SUB must precede the request that needs it)."""
        if not self.is_connected or self._transport is None:
            raise Disconnected
        if self._pending:
            self._transport.writelines(self._pending)
            self.forget_pending()
        self._transport.write(data)

    def send_soon(self, data: bytes) -> None:
        """Write at the end of this turn of the loop, together with everything else said in it."""
        if not self._soon:
            asyncio.get_running_loop().call_soon(self._send_gathered)
        self._soon.append(data)

    def _send_gathered(self) -> None:
        gathered, self._soon = self._soon, []
        try:
            self.send(b"".join(gathered))
        except Disconnected:
            logger.debug("dropped %d commands: disconnected", len(gathered))

    async def drain_socket(self) -> None:
        """Wait while the socket's buffer is over its high-water mark."""
        if self._transport is not None and self.is_connected:
            await self._transport.drain()

    def forget_pending(self) -> None:
        self._pending = []
        self._pending_data_size = 0

    async def _attempt_reconnect(self) -> None:
        self.forget_pending()
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
        await super()._attempt_reconnect()


async def _tapped(message: Any) -> None:
    """Stands in for the callback of a tapped subscription; never called."""


class _TapParser(Parser):
    """The same protocol, cut by `find` and `split` instead of regular expressions."""

    def __init__(self, nc: WireClient) -> None:
        self.client = nc
        super().__init__(nc)

    def reset(self) -> None:
        super().reset()
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 0

    async def parse(self, data: bytes = b"") -> None:
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
        """Handle every whole command in the buffer; returns what is left over."""
        position, length = 0, len(buffer)
        client, taps = self.client, self.client.taps
        self._need = 0
        while position < length:
            line_end = buffer.find(b"\r\n", position)
            if line_end < 0:
                break
            line = buffer[position:line_end]
            if line.startswith((b"MSG ", b"HMSG ")):
                fields = line.split()
                start = line_end + 2
                stop = start + int(fields[-1])
                if stop + 2 > length:
                    self._need = stop + 2 - position
                    break
                body = start
                if line[0] == 72:  # H
                    body += int(fields[-2])
                    reply = fields[3] if len(fields) == 6 else b""
                else:
                    reply = fields[3] if len(fields) == 5 else b""
                sid = int(fields[2])
                tap = taps.get(sid)
                if tap is None:
                    await client._process_msg(sid, fields[1], reply, buffer[body:stop], buffer[start:body])
                else:
                    try:
                        tap(fields[1], reply, buffer[start:body], buffer[body:stop])
                    except Exception:
                        logger.exception("a subscription on %s failed", fields[1].decode(errors="replace"))
                position = stop + 2
                continue
            position = line_end + 2
            await self._control(line)
        return buffer[position:] if position else buffer

    async def _control(self, line: bytes) -> None:
        client = self.client
        if line == b"PING":
            await client._process_ping()
        elif line == b"PONG":
            pongs = client._pongs
            if pongs:
                waiter = pongs.pop(0)
                if not waiter.done():
                    waiter.set_result(True)
                client._pongs_received += 1
                client._pings_outstanding = 0
        elif line.startswith(b"INFO "):
            await client._process_info(json.loads(line[5:]))
        elif line.startswith(b"-ERR"):
            await self._refused(line[4:].decode(errors="replace").strip().strip("'"))
        elif not line.startswith(b"+OK"):
            raise ProtocolError

    async def _refused(self, reason: str) -> None:
        """nats-py closes for good on most errors; we only ever reconnect."""
        error = Error(f"nats: {reason.lower()}")
        await self.client._error_cb(error)
        if "permissions violation" not in reason.lower():
            await self.client._process_op_err(error)
