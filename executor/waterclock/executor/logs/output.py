"""The output of an attempt: masked, limited, published while it runs, and saved to the store when it is over."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.core.store.store import Store, StoreError, log_name, log_url, one_piece
from waterclock.executor.attempt_record import Attempt, Result
from waterclock.executor.masking import Masker, SecretValues
from waterclock.proto import names
from waterclock.proto.spec import JobSpec

_log = logging.getLogger(__name__)

_TRIES = 5
_PAUSE_SECONDS = 0.2
_ROOM_FOR_HEADERS = 1024

Publish = Callable[[str, bytes], None]
"""Sends a message to whoever listens now. Never fails, never waits."""


class OutputLogs:
    """Opens the log of each attempt, and finds the one of a run that is being performed."""

    def __init__(self, store: Store, publish: Publish, limit: int) -> None:
        self.store = store
        self.publish = publish
        self.limit = limit
        self._open: dict[str, OutputLog] = {}

    def open(self, attempt: Attempt, secrets: SecretValues) -> "OutputLog":
        """`secrets`: what the attempt must not say."""
        spec = attempt.item.spec
        masker = Masker(secrets)
        log = OutputLog(self, attempt.item.run_id, attempt.item.attempt, self.limit_of(spec), masker)
        self._open[log.run_id] = log
        return log

    def of_run(self, run_id: str) -> "OutputLog | None":
        """Of the attempt that is being performed."""
        return self._open.get(run_id)

    def close(self, log: "OutputLog") -> None:
        if self._open.get(log.run_id) is log:
            del self._open[log.run_id]

    def limit_of(self, spec: JobSpec) -> int:
        wanted = spec.limits.output_bytes if spec.limits is not None else None
        return self.limit if wanted is None else min(wanted, self.limit)


class OutputLog:
    __slots__ = ("_dropped", "_masker", "_outputs", "_parts", "_room", "attempt", "run_id", "size")

    def __init__(self, outputs: OutputLogs, run_id: str, attempt: int, limit: int, masker: Masker) -> None:
        self._outputs = outputs
        self._masker = masker
        self._parts: list[bytes] = []
        self._room = limit
        self._dropped = 0
        self.run_id = run_id
        self.attempt = attempt
        self.size = 0

    def write(self, data: bytes) -> None:
        self._add(self._masker.feed(data))

    def finish(self, dropped: int = 0) -> None:
        """There is no more output. `dropped`: how many bytes over the limit were dropped before they came here."""
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

    def content_from(self, start: int) -> bytes:
        """From a byte on, without what is before it."""
        kept: list[bytes] = []
        left = self.size - start
        for part in reversed(self._parts):
            if left <= 0:
                break
            kept.append(part[-left:])
            left -= len(part)
        return b"".join(reversed(kept))

    def tail(self, limit: int = 2048) -> str:
        """The last lines, for an error message."""
        text = b"".join(self._parts[-8:])[-limit:].decode(errors="replace")
        return text.strip()

    async def save(self, result: Result) -> Result:
        """Put a finished log into the store. Returns the result with the log's URL."""
        try:
            return await self._save(result)
        finally:
            self._outputs.close(self)

    async def _save(self, result: Result) -> Result:
        if not self.size:
            return result
        for pause in range(1, _TRIES + 1):
            try:
                await self._outputs.store.put(log_name(self.run_id, self.attempt), one_piece(self.content()))
                details = msgspec.structs.replace(result.details, log_url=log_url(self.run_id))
                return msgspec.structs.replace(result, details=details)
            except StoreError as error:
                _log.warning("cannot save a log", extra={"run_id": self.run_id, "error": str(error)})
                lost = str(error)
                await asyncio.sleep(pause * _PAUSE_SECONDS)
        details = msgspec.structs.replace(result.details, log_lost=lost)
        return msgspec.structs.replace(result, details=details)

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


@asynccontextmanager
async def answering_output_requests(
    connection: Connection, outputs: OutputLogs, executor_id: str
) -> AsyncIterator[None]:
    """Answer what a run has written until now, for those who start to follow it in the middle.

    The request is the run's id, and the answer what fits into one from the beginning on. With a byte in a second line
    it is what comes from there on, below a line that says which attempt it is of, where it begins, and how much there
    is.
    Requests about runs that are not here get no answer; the asker looks elsewhere after a while.
    """
    publish = Broadcast(connection)

    def answer(_subject: bytes, reply: bytes, _headers: bytes, request: bytes) -> None:
        run_id, newline, start = request.decode(errors="replace").partition("\n")
        log = outputs.of_run(run_id)
        if log is None or not reply or (newline and not _is_number(start)):
            return
        room = connection.nc.max_payload - _ROOM_FOR_HEADERS
        if newline:
            first = min(int(start), log.size)
            head = b"%d %d %d\n" % (log.attempt, first, log.size)
            publish(reply.decode(), head + log.content_from(first)[:room])
        else:
            publish(reply.decode(), log.content()[:room])

    unsubscribe = await connection.nc.tap(names.tell_subject(executor_id), answer)
    try:
        yield
    finally:
        unsubscribe()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18
