"""What an attempt says: heard live, masked, limited, and kept when it is over.

Answers what a running attempt has said until now, for those who start to listen in the middle.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.core.store.store import Store, StoreError, log_name, log_url, one_piece
from waterclock.executor.attempt_record import Attempt, Ending
from waterclock.executor.logs.masking import NOTHING_SECRET, Masker
from waterclock.proto import names
from waterclock.proto.spec import JobSpec

_log = logging.getLogger(__name__)

_TRIES = 5
_PAUSE = 0.2

Publish = Callable[[str, bytes], None]
"""Sends a message to whoever listens now. Never fails, never waits."""


class Outputs:
    """Opens the log of each attempt."""

    def __init__(self, store: Store, publish: Publish, limit: int) -> None:
        self.store = store
        self.publish = publish
        self.limit = limit
        self._open: dict[str, OutputLog] = {}

    def open(self, attempt: Attempt) -> "OutputLog":
        spec = attempt.item.spec
        masker = Masker(_secret_values(spec)) if spec.secrets else NOTHING_SECRET
        log = OutputLog(self, attempt.item.run_id, attempt.item.attempt, self.limit_of(spec), masker)
        self._open[log.run_id] = log
        return log

    def so_far(self, run_id: str) -> bytes | None:
        """What a running attempt has said until now; None if none of this run is heard here."""
        log = self._open.get(run_id)
        return None if log is None else log.content()

    def close(self, log: "OutputLog") -> None:
        if self._open.get(log.run_id) is log:
            del self._open[log.run_id]

    def limit_of(self, spec: JobSpec) -> int:
        wanted = spec.limits.output_bytes if spec.limits is not None else None
        return self.limit if wanted is None else min(wanted, self.limit)


class OutputLog:
    __slots__ = ("_dropped", "_masker", "_outputs", "_parts", "_room", "attempt", "run_id", "size")

    def __init__(self, outputs: Outputs, run_id: str, attempt: int, limit: int, masker: Masker) -> None:
        self._outputs = outputs
        self._masker = masker
        self._parts: list[bytes] = []
        self._room = limit
        self._dropped = 0
        self.run_id = run_id
        self.attempt = attempt
        self.size = 0

    def hear(self, data: bytes) -> None:
        self._add(self._masker.feed(data))

    def finish(self, dropped: int = 0) -> None:
        """Nothing more will be said; so much was, but not passed on. Once."""
        self._add(self._masker.end())
        self._dropped += dropped
        if self._dropped:
            self._append(b"\n[output over the limit: %d bytes dropped]\n" % self._dropped)

    @property
    def is_full(self) -> bool:
        return self._room <= 0

    def mask(self, text: str) -> str:
        return self._masker.mask(text)

    def content(self) -> bytes:
        return b"".join(self._parts)

    def tail(self, limit: int = 2048) -> str:
        """The last lines, for an error message."""
        text = b"".join(self._parts[-8:])[-limit:].decode(errors="replace")
        return text.strip()

    async def kept(self, end: Ending) -> Ending:
        """Put a finished log into the store, and where it is into the ending's traces."""
        try:
            return await self._kept(end)
        finally:
            self._outputs.close(self)

    async def _kept(self, end: Ending) -> Ending:
        if not self.size:
            return end
        for pause in range(1, _TRIES + 1):
            try:
                await self._outputs.store.put(log_name(self.run_id, self.attempt), one_piece(self.content()))
                traces = msgspec.structs.replace(end.traces, log_url=log_url(self.run_id))
                return msgspec.structs.replace(end, traces=traces)
            except StoreError as error:
                _log.warning("cannot keep a log", extra={"run_id": self.run_id, "error": str(error)})
                await asyncio.sleep(pause * _PAUSE)
        return end

    def _add(self, data: bytes) -> None:
        if not data:
            return
        if len(data) > self._room:
            self._dropped += len(data) - self._room
            data = data[: self._room]
        self._room -= len(data)
        self._append(data)

    def _append(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self._outputs.publish(names.log_chunk_subject(self.run_id, self.attempt, self.size), data)
            self.size += len(data)


def _secret_values(spec: JobSpec) -> list[str]:
    """Secrets are named: variables of the environment, or headers of a call."""
    named: dict[str, str] = {**getattr(spec.task, "env", {}), **getattr(spec.task, "headers", {})}
    return [named[name] for name in spec.secrets if name in named]


_ROOM_FOR_HEADERS = 1024


@asynccontextmanager
async def telling(connection: Connection, outputs: Outputs, executor_id: str) -> AsyncIterator[None]:
    """Silent about runs that are not here, so that the asker looks elsewhere after a while."""
    say = Broadcast(connection)

    def asked(_subject: bytes, reply: bytes, _headers: bytes, run_id: bytes) -> None:
        said = outputs.so_far(run_id.decode(errors="replace"))
        if said is not None and reply:
            say(reply.decode(), said[: connection.nc.max_payload - _ROOM_FOR_HEADERS])

    end = await connection.nc.tap(names.tell_subject(executor_id), asked)
    try:
        yield
    finally:
        end()
