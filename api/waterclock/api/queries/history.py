"""The events of a run or a job, read from the log in its order."""

import re
from collections.abc import AsyncGenerator, Callable
from datetime import datetime, timedelta

from waterclock.api.application import Application
from waterclock.api.readmodels import runs as rows
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.core.domain import ids
from waterclock.core.domain.explain.explanation import Recorded
from waterclock.core.domain.instants import datetime_of
from waterclock.core.jetstream.messages import last_message, sequence_before
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.core.runtime.quarantine import read_frame, read_job_frame
from waterclock.proto import names
from waterclock.proto.codec import Undecodable, decoder
from waterclock.proto.events import Cursor, JobEvent, RunEvent, RunsMissed

Numbered = tuple[int, RunEvent]

_SKEW = timedelta(minutes=1)
"""How far the clocks of writers and of the log may be apart."""
_AFTER_LAST_CHANGE = 5000
"""How many sequences after its last change a run is still looked for: a rejected outcome changes nothing."""
_CURSOR = re.compile(rb'"cursor":(\{"jobs":[^{}]*\})[^{}]*\}$')
"""Read from the bytes: most frames are not about what was asked for, and need not be decoded. It is at the end of a
frame: what stands before it may be a user's."""

_decode_cursor = decoder(Cursor)


async def run_events(app: Application, run_id: str, after: int) -> list[Numbered]:
    """The events of one run after a sequence of `RUNS`."""
    found = await _records(app, run_id, lambda event: event.run_id == run_id, after)
    return [(record.sequence, record.event) for record in found]


async def run_records(app: Application, run_id: str) -> list[Recorded]:
    """All events of one run. The read models know where they are; without them the time in its id, or all is read."""
    first, last = await _extent(app, run_id)
    return await _records(app, run_id, lambda event: event.run_id == run_id, first - 1, last)


async def job_records(
    app: Application, job_id: str, since: datetime, enough: Callable[[Cursor, list[Recorded]], bool]
) -> list[Recorded]:
    """The events of a job's runs and of its schedule since a moment, until they are `enough`: that is asked with how
    far the partition was decided, and with what was found."""
    subject = names.runs_subject(app.partition_of(job_id))
    after = await sequence_before(app.connection, names.RUNS, subject, since - _SKEW)
    return await _records(app, job_id, lambda event: ids.job_of(event.run_id) == job_id, after, enough=enough)


async def job_events(app: Application, job_id: str) -> list[tuple[int, JobEvent]]:
    """The definitions a job has had, as far as the log reaches back."""
    return [found async for found in each_job_event(app, job_id)]


async def each_job_event(app: Application, job_id: str) -> AsyncGenerator[tuple[int, JobEvent], None]:
    """The same one by one, oldest first: together they may be large."""
    frame, tilde, _ = job_id.partition("~")
    for root in (frame, job_id) if tilde else (job_id,):
        subject = names.job_subject(app.partition_of(root), root)
        newest = await last_message(app.connection, names.JOBS, subject)
        if newest is None:
            continue
        async with Pull.ordered(app.connection, names.JOBS, [subject], after_sequence=0, batch=500) as pull:
            async for delivery in pull.through(newest.sequence):
                for event in read_job_frame(delivery).events:
                    if event.job_id == job_id:
                        yield delivery.sequence, event


async def _extent(app: Application, run_id: str) -> tuple[int, int | None]:
    """The first and the last sequence that can hold an event of a run; None: up to the end."""
    try:
        if (known := await rows.extent(app.pool, run_id)) is not None:
            first, last, more = known
            return first, None if more else last + _AFTER_LAST_CHANGE
    except ReadModelsAway:
        pass
    scheduled = ids.scheduled_of(run_id)
    if scheduled is None:
        return 1, None
    subject = names.runs_subject(app.partition_of(run_id))
    after = await sequence_before(app.connection, names.RUNS, subject, datetime_of(scheduled) - _SKEW)
    return after + 1, None


async def _records(
    app: Application,
    job_or_run_id: str,
    wanted: Callable[[RunEvent], bool],
    after: int,
    last: int | None = None,
    enough: Callable[[Cursor, list[Recorded]], bool] | None = None,
) -> list[Recorded]:
    subject = names.runs_subject(app.partition_of(job_or_run_id))
    newest = await last_message(app.connection, names.RUNS, subject)
    found: list[Recorded] = []
    if newest is None:
        return found
    end = newest.sequence if last is None else min(last, newest.sequence)
    if end <= after:
        return found
    root = job_or_run_id.partition("@")[0].encode()
    decided: Delivery | None = None
    async with Pull.ordered(app.connection, names.RUNS, [subject], after_sequence=after, batch=1000) as pull:
        async for delivery in pull.through(end):
            if root in delivery.data:
                found += _of_frame(delivery, wanted, decided)
            if (cursor := _CURSOR.search(delivery.data)) is not None:
                decided = delivery
                if enough is not None and enough(_cursor_of(cursor[1]), found):
                    return found
    return found


def _cursor_of(text: bytes) -> Cursor:
    try:
        return _decode_cursor(text)
    except Undecodable:
        return Cursor(jobs=0, time=0)


def _of_frame(
    record: Delivery, wanted: Callable[[RunEvent], bool], decided: Delivery | None
) -> list[Recorded]:
    """`decided`: the last frame of an owner before this one, which shows since when fires were missed."""
    frame = read_frame(record)
    found = []
    for event in frame.events:
        if not wanted(event):
            continue
        before = read_frame(decided) if isinstance(event, RunsMissed) and decided is not None else None
        cursor = None if before is None else before.cursor
        found.append(
            Recorded(
                sequence=record.sequence,
                writer=frame.writer,
                event=event,
                owner_before=None if before is None else before.writer,
                decided_before=None if cursor is None else cursor.time,
            )
        )
    return found
