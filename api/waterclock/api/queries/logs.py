"""`runs.log`: a run's output, followed to its end if asked."""

import asyncio
from collections.abc import AsyncIterator

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.queries.changes import status_after
from waterclock.api.queries.run_log import News, Said, Tape, and_events, kept, listening, so_far
from waterclock.api.queries.runs import find
from waterclock.api.registry import streams
from waterclock.core.jetstream.messages import stream_state
from waterclock.proto import methods, names
from waterclock.proto.answers import LogChunk, Run
from waterclock.proto.events import Outcome, RunCancelled, RunEvent, RunLost, RunQueued
from waterclock.proto.queries import LogQuery
from waterclock.proto.verdicts import TERMINAL


@streams(methods.RUNS_LOG)
async def log(app: Application, request: LogQuery, caller: Caller) -> AsyncIterator[LogChunk]:
    if request.follow:
        chunks = _followed(app, request, caller)
    else:
        chunks = _until_now(app, await find(app, request.run_id, caller), request)
    async for chunk in chunks:
        yield chunk


async def _until_now(app: Application, run: Run, request: LogQuery) -> AsyncIterator[LogChunk]:
    """All that was said so far; or what one attempt said."""
    tape = Tape(request.offset)
    attempts = range(1, run.attempt_number + 1) if request.attempt is None else (request.attempt,)
    for attempt in attempts:
        content = await kept(app, run.run_id, attempt)
        if not content and attempt == run.attempt_number and run.status == "RUNNING":
            content = await so_far(app, run)
        for chunk in tape.take(0, content):
            yield chunk
        tape.next_attempt(len(content))
    yield tape.end(last=run.status in TERMINAL)


async def _followed(app: Application, request: LogQuery, caller: Caller) -> AsyncIterator[LogChunk]:
    run_id, tape = request.run_id, Tape(request.offset)
    deadline = (
        None if request.stay_seconds is None else asyncio.get_running_loop().time() + request.stay_seconds
    )
    async with listening(app, run_id) as news:
        position = (await stream_state(app.connection, names.RUNS)).last_seq
        run = await find(app, run_id, caller)
        over = (
            run.attempt_number
            if run.status in TERMINAL or run.status == "RETRYING"
            else run.attempt_number - 1
        )
        for attempt in range(1, over + 1):
            content = await kept(app, run_id, attempt)
            for chunk in tape.take(0, content):
                yield chunk
            tape.next_attempt(len(content))
        if run.status in TERMINAL:
            yield tape.end(last=True)
            return
        if run.status == "RUNNING":
            for chunk in tape.take(0, await so_far(app, run)):
                yield chunk
        attempt = max(over + 1, 1)
        async with and_events(app, run_id, position, news):
            while (heard := await _next(news, deadline)) is not None:
                match heard:
                    case Said():
                        if heard.attempt == attempt:
                            for chunk in tape.take(heard.offset, heard.data):
                                yield chunk
                    case RunQueued():
                        attempt = heard.attempt
                    case Outcome() | RunCancelled() | RunLost() if heard.attempt in (0, attempt):
                        content = await kept(app, run_id, attempt)
                        for chunk in tape.take(0, content):
                            yield chunk
                        if status_after(heard) in TERMINAL:
                            yield tape.end(last=True)
                            return
                        tape.next_attempt(len(content))


async def _next(news: News, deadline: float | None) -> Said | RunEvent | None:
    """What is heard next; None at the deadline."""
    left = None if deadline is None else deadline - asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(left):
            return await news.get()
    except TimeoutError:
        return None
