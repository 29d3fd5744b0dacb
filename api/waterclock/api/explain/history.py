"""What the log says about a run or a job, in its order."""

from datetime import datetime

from waterclock.api.application import Application
from waterclock.api.moments import sequence_before
from waterclock.core.jetstream.pull import Pull
from waterclock.core.jetstream.reader import last_message
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_job_frame
from waterclock.proto.events import JobEvent, RunEvent

Numbered = tuple[int, RunEvent]


async def run_events(app: Application, run_id: str, after: int) -> list[Numbered]:
    """The events of one run after a sequence of `RUNS`."""
    return [
        (sequence, event)
        for sequence, event in await _partition(app, run_id, after)
        if event.run_id == run_id
    ]


async def job_run_events(app: Application, job_id: str, since: datetime) -> list[Numbered]:
    """The events of all runs of a job since a moment."""
    subject = names.runs_subject(app.partition_of(job_id))
    after = await sequence_before(app.connection, names.RUNS, subject, since)
    return [
        (sequence, event)
        for sequence, event in await _partition(app, job_id, after)
        if names.job_of(event.run_id) == job_id
    ]


async def job_events(app: Application, job_id: str) -> list[tuple[int, JobEvent]]:
    """The definitions a job has had, as far as the log reaches back."""
    frame, tilde, _ = job_id.partition("~")
    found: list[tuple[int, JobEvent]] = []
    for root in (frame, job_id) if tilde else (job_id,):
        subject = names.job_subject(app.partition_of(root), root)
        newest = await last_message(app.connection, names.JOBS, subject)
        if newest is None:
            continue
        reached = 0
        async with Pull.ordered(app.connection, names.JOBS, [subject], after_sequence=0, batch=500) as pull:
            while reached < newest.sequence:
                for delivery in await pull.next():
                    reached = delivery.sequence
                    events = decode_job_frame(delivery.data).events
                    found += [(delivery.sequence, event) for event in events if event.job_id == job_id]
    return found


async def _partition(app: Application, job_or_run_id: str, after: int) -> list[Numbered]:
    subject = names.runs_subject(app.partition_of(job_or_run_id))
    newest = await last_message(app.connection, names.RUNS, subject)
    found: list[Numbered] = []
    if newest is None or newest.sequence <= after:
        return found
    root = job_or_run_id.partition("@")[0].encode()
    async with Pull.ordered(app.connection, names.RUNS, [subject], after_sequence=after, batch=1000) as pull:
        reached = after
        while reached < newest.sequence:
            for delivery in await pull.next():
                reached = delivery.sequence
                if root in delivery.data:
                    found += [(delivery.sequence, event) for event in decode_frame(delivery.data).events]
    return found
