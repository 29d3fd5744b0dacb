"""The output of an attempt, from any byte on: in the store once the attempt has ended, with its executor until then."""

from collections.abc import AsyncIterator

from msgspec import Struct

from waterclock.api.application import Application
from waterclock.core.jetstream.errors import LogUnavailable
from waterclock.core.store.store import Missing, log_name
from waterclock.proto import names
from waterclock.proto.answers import Run

_EXECUTOR_SECONDS = 1.0
_BEYOND_ANY = 2**53


class AttemptOutput(Struct, frozen=True, kw_only=True):
    run_id: str
    attempt: int
    size: int
    executor_id: str | None = None
    """Who has it, while it runs; None: the store."""


class _Told(Struct, frozen=True):
    """What an executor says a running attempt has put out."""

    attempt: int
    first: int
    size: int
    data: bytes


async def attempt_output(app: Application, run: Run, attempt: int) -> AttemptOutput:
    """How much there is by now; nothing if there was none."""
    stored = await stored_output(app, run.run_id, attempt)
    if stored.size or run.status != "RUNNING" or attempt != run.attempt_number or run.executor_id is None:
        return stored
    told = await _ask(app, run.executor_id, run.run_id, _BEYOND_ANY)
    if told is None or told.attempt != attempt:
        return stored
    return AttemptOutput(run_id=run.run_id, attempt=attempt, size=told.size, executor_id=run.executor_id)


async def stored_output(app: Application, run_id: str, attempt: int) -> AttemptOutput:
    """Of an attempt that has ended."""
    size = await app.logs.size(log_name(run_id, attempt))
    return AttemptOutput(run_id=run_id, attempt=attempt, size=size or 0)


async def read_output(app: Application, output: AttemptOutput, start: int) -> AsyncIterator[bytes]:
    """From a byte on, as far as its size was known."""
    left = output.size - start
    while output.executor_id is not None and left > 0:
        told = await _ask(app, output.executor_id, output.run_id, start)
        if told is None or told.attempt != output.attempt or not told.data:
            break  # it has ended meanwhile, and is in the store
        data = told.data[:left]
        yield data
        start, left = start + len(data), left - len(data)
    if left <= 0:
        return
    try:
        async for piece in app.logs.get(log_name(output.run_id, output.attempt), start):
            data = piece[:left]
            if data:
                yield data
            left -= len(data)
            if left <= 0:
                return
    except Missing:
        return


async def _ask(app: Application, executor_id: str, run_id: str, start: int) -> _Told | None:
    """None if nobody answers, or one of the version before, who knows of no byte to begin at."""
    try:
        reply = await app.connection.request(
            names.tell_subject(executor_id), f"{run_id}\n{start}".encode(), timeout=_EXECUTOR_SECONDS
        )
    except LogUnavailable:
        return None
    head, _, data = reply.data.partition(b"\n")
    try:
        attempt, first, size = map(int, head.split())
    except ValueError:
        return None
    return _Told(attempt, first, size, data)
