"""The work message of an attempt.

It has no message id: its subject is its identity, and the queue holds one message a subject. Once that is acked, what
is published again is marked `recovered`, and an executor asks before it runs it.
"""

from functools import lru_cache

from waterclock.core.domain.partition.state import Run
from waterclock.core.jetstream.publisher import Message
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import RunQueued
from waterclock.proto.spec import Handler, JobSpec
from waterclock.proto.work import WorkItem


def work_message(event: RunQueued, spec: JobSpec) -> Message:
    """What an executor gets for a run that was just queued."""
    item = WorkItem(
        run_id=event.run_id,
        job_id=names.job_of(event.run_id),
        version=event.version,
        spec=spec,
        scheduled=event.scheduled,
        due=event.due,
        queued=event.at,
        attempt=event.attempt,
        crash_count=event.crash_count,
        first_attempt=event.first_attempt,
        trigger=event.trigger,
        parent=event.parent,
        epoch=event.epoch,
        index=names.member_index(event.run_id) if event.trigger == "fan_out" else None,
    )
    return _message(item)


def recovered_message(run: Run, spec: JobSpec) -> Message:
    """The same work once more, when it may have been lost. The queue refuses it if it still holds the first."""
    item = WorkItem(
        run_id=run.run_id,
        job_id=run.job_id,
        version=run.version,
        spec=spec,
        scheduled=run.scheduled,
        due=run.due,
        queued=run.queued_at,
        attempt=run.attempt,
        crash_count=run.crash_count,
        first_attempt=run.first_attempt,
        trigger=run.trigger,
        parent=run.parent,
        epoch=run.epoch,
        index=names.member_index(run.run_id) if run.trigger == "fan_out" else None,
        recovered=True,
    )
    return _message(item)


def _message(item: WorkItem) -> Message:
    spec = item.spec
    handler = spec.task.handler if isinstance(spec.task, Handler) else None
    line = _line(spec.queue, handler, spec.tier, spec.priority)
    return Message(subject=names.work_in(line, item.run_id, item.queued), data=encode(item))


@lru_cache(maxsize=1024)
def _line(queue: str, handler: str | None, tier: str, priority: int) -> str:
    return names.work_line(names.route_of(queue, handler), tier, names.band_of(priority))
