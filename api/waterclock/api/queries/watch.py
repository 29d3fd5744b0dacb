"""What happens to jobs and runs, from the log itself, as it happens or from a position on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Invalid
from waterclock.api.queries.changes import (
    Conflation,
    Selection,
    change_of_ended,
    changes_of_job_frame,
    changes_of_run_frame,
    read_interval,
)
from waterclock.api.queries.jobs import find
from waterclock.api.readmodels import jobs, runs
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import streams
from waterclock.core.domain import ids
from waterclock.core.jetstream.messages import sequence_before, stream_state
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.proto import methods, names
from waterclock.proto.answers import Change, Run
from waterclock.proto.queries import WatchQuery
from waterclock.proto.verdicts import TERMINAL

_CLOCK_SKEW = timedelta(seconds=2)
"""How far a caller's clock may be from the server's."""
_BATCH = 500
_FEW = 50
"""Messages that wait here for a reader who is slow; one may be of a thousand jobs."""
_SEQUENCE_DIGITS = 18


class _Position(Struct, frozen=True):
    jobs: int
    runs: int

    def __str__(self) -> str:
        return f"{self.jobs}-{self.runs}"

    @classmethod
    def read(cls, text: str) -> "_Position":
        jobs, dash, runs = text.partition("-")
        if not (dash and _is_sequence(jobs) and _is_sequence(runs)):
            raise Invalid.field("after", "not a position; take it from a change")
        return cls(int(jobs), int(runs))


def _is_sequence(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _SEQUENCE_DIGITS


@streams(methods.EVENTS_WATCH)
async def watch(app: Application, request: WatchQuery, caller: Caller) -> AsyncIterator[Change]:
    if request.conflate is not None:
        read_interval(request.conflate)
    selection = await _selection(app, request, caller)
    subjects = _subjects(app, selection)
    position = await _start(app, request, subjects)
    yield Change(position=str(position), type="position", at=datetime.now(UTC))
    if request.after is None and request.since is None and (ended := await _ended(app, selection, caller)):
        yield change_of_ended(ended, str(position))
        return
    deadline = (
        None if request.stay_seconds is None else asyncio.get_running_loop().time() + request.stay_seconds
    )
    if request.conflate is not None:
        every = read_interval(request.conflate)
        async for change in _conflated(app, selection, subjects, position, every, deadline):
            yield change
        return
    async with _Streams.open(app, subjects, position) as log:
        while arrived := await log.next(deadline):
            for stream, delivery in arrived:
                read = changes_of_job_frame if stream == names.JOBS else changes_of_run_frame
                wanted = [change for change in read(delivery) if selection.wants(change)]
                before, position = position, log.after(stream, delivery.sequence)
                for left, change in zip(range(len(wanted) - 1, -1, -1), wanted, strict=True):
                    final = selection.is_final(change)
                    # Only the last change of a frame moves on: who breaks off before it gets the frame again.
                    yield msgspec.structs.replace(
                        change, position=str(before if left else position), final=final
                    )
                    if final:
                        return


async def _conflated(
    app: Application,
    selection: Selection,
    subjects: dict[str, str],
    position: _Position,
    every: float,
    deadline: float | None,
) -> AsyncIterator[Change]:
    """What is new, at once after a silence and then at most so often. While the reader does not take it the log is not
    read on either, so that nothing piles up here."""
    loop = asyncio.get_running_loop()
    pending, not_before = Conflation(), 0.0
    async with _Streams.open(app, subjects, position, batch=_FEW) as log:
        while True:
            waits = not_before if pending else None
            until = min((time for time in (waits, deadline) if time is not None), default=None)
            for stream, delivery in await log.next(until):
                read = changes_of_job_frame if stream == names.JOBS else changes_of_run_frame
                for change in read(delivery):
                    if selection.wants(change):
                        pending.add(change, final=selection.is_final(change))
                position = log.after(stream, delivery.sequence)
            now = loop.time()
            is_over = pending.final or (deadline is not None and now >= deadline)
            if pending and (now >= not_before or is_over):
                yield pending.take(str(position))
                not_before = loop.time() + every
            if is_over:
                return


async def _selection(app: Application, request: WatchQuery, caller: Caller) -> Selection:
    """What is watched must exist: a typing error would otherwise wait for ever."""
    once = False
    if (job_id := request.job or (ids.job_of(request.run) if request.run else None)) is not None:
        definition = await find(app, job_id, caller)
        once = definition.job.spec.schedule.schedule_type in ("IMMEDIATE", "FUTURE")
    return Selection(
        namespace=caller.namespace,
        job=request.job,
        run=request.run,
        workflow_run=request.workflow_run,
        ids=frozenset(request.ids),
        types=frozenset(request.type),
        once=once,
    )


async def _ended(app: Application, selection: Selection, caller: Caller) -> Run | None:
    """What is watched, if it was over before the watch began: its last event would never come."""
    if selection.run is None and not selection.once:
        return None
    with suppress(ReadModelsAway):
        await app.freshness.of_runs(app.partition_of(selection.run or selection.job or ""))
        if selection.run is not None:
            run = await runs.one(app.pool, caller.namespace, selection.run)
        else:
            row = await jobs.one(app.pool, caller.namespace, selection.job or "")
            run = None if row is None else row.last_run
        return run if run is not None and run.status in TERMINAL else None
    return None


def _subjects(app: Application, selection: Selection) -> dict[str, str]:
    """The subject to read in each stream."""
    watched = selection.job or selection.run or selection.workflow_run
    if watched is None:
        return {names.JOBS: names.jobs_of_partition(), names.RUNS: names.runs_subject()}
    partition = app.partition_of(watched)
    subjects = {names.RUNS: names.runs_subject(partition)}
    if selection.job is not None:
        subjects[names.JOBS] = names.job_subject(partition, selection.job)
    return subjects


async def _start(app: Application, request: WatchQuery, subjects: dict[str, str]) -> _Position:
    if request.after is not None:
        return _Position.read(request.after)
    found = {names.JOBS: 0, names.RUNS: 0}
    for stream, subject in subjects.items():
        if request.since is not None:
            found[stream] = await sequence_before(
                app.connection, stream, subject, request.since - _CLOCK_SKEW
            )
        else:
            found[stream] = (await stream_state(app.connection, stream)).last_seq
    return _Position(found[names.JOBS], found[names.RUNS])


class _Streams:
    """`JOBS` and `RUNS` at once, in the order in which their messages arrive."""

    def __init__(self, pulls: dict[str, Pull], position: _Position) -> None:
        self._pulls = pulls
        self._position = position
        self._waiting: dict[asyncio.Task[list[Delivery]], str] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls, app: Application, subjects: dict[str, str], position: _Position, batch: int = _BATCH
    ) -> AsyncIterator["_Streams"]:
        after = {names.JOBS: position.jobs, names.RUNS: position.runs}
        async with AsyncExitStack() as stack:
            pulls = {
                stream: await stack.enter_async_context(
                    Pull.ordered(app.connection, stream, [subject], after_sequence=after[stream], batch=batch)
                )
                for stream, subject in subjects.items()
            }
            log = cls(pulls, position)
            try:
                yield log
            finally:
                for task in log._waiting:
                    task.cancel()
                await asyncio.gather(*log._waiting, return_exceptions=True)

    async def next(self, deadline: float | None) -> list[tuple[str, Delivery]]:
        """What has arrived, at least one message; nothing at the deadline."""
        for stream, pull in self._pulls.items():
            if stream not in self._waiting.values():
                self._waiting[asyncio.create_task(pull.next())] = stream
        left = None if deadline is None else max(0, deadline - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait(self._waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        arrived = []
        for task in done:
            stream = self._waiting.pop(task)
            arrived += [(stream, delivery) for delivery in task.result()]
        return arrived

    def after(self, stream: str, sequence: int) -> _Position:
        """The position once this message has been seen."""
        self._position = msgspec.structs.replace(self._position, **{stream.lower(): sequence})
        return self._position
