"""Messages of the two streams, decoded. What cannot be read is put into quarantine and left out: one bad message must
not end the read models, and a rebuild with a version that understands it brings it in."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.messages import Delivery
from waterclock.core.runtime.quarantine import QUARANTINE
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_job_frame, decoder, with_readable_values
from waterclock.proto.events import Instant, JobEvent, RunEvent, RunQueued, RunRequested, RunRetryRequested

_Event = TypeVar("_Event")


class JobsMessage(Struct, frozen=True, gc=False):
    partition: int
    sequence: int
    stored_at: Instant
    events: tuple[JobEvent, ...]


class RunsMessage(Struct, frozen=True, gc=False):
    partition: int
    sequence: int
    stored_at: Instant
    events: tuple[RunEvent, ...]
    needs: int
    """The sequence up to which `JOBS` is to be folded before."""


def jobs_message(delivery: Delivery) -> JobsMessage:
    try:
        events = decode_job_frame(delivery.data).events
    except msgspec.MsgspecError as error:
        events = _readable(delivery, error, _decode_job_event)
    return JobsMessage(partition_of(delivery.subject), delivery.sequence, _stored_at(delivery), events)


def runs_message(delivery: Delivery) -> RunsMessage:
    needs = 0
    try:
        frame = decode_frame(delivery.data)
        events = frame.events
        if frame.cursor is not None:
            needs = frame.cursor.jobs
    except msgspec.MsgspecError as error:
        events = _readable(delivery, error, _decode_run_event)
    return RunsMessage(
        partition_of(delivery.subject),
        delivery.sequence,
        _stored_at(delivery),
        events,
        _needed_for(events, needs),
    )


def _needed_for(events: tuple[RunEvent, ...], seen: int) -> int:
    """The newest definition that must be folded before, of those that the writer had `seen`. One-shots that are queued
    need their own only: in a flood of them that is much less."""
    once = [event.version for event in events if type(event) is RunQueued and event.once]
    if len(once) == len(events):
        return max(once, default=seen)
    asked = [event.version for event in events if isinstance(event, RunRequested | RunRetryRequested)]
    return max(seen, *asked, 0)


def partition_of(subject: str) -> int:
    """`wc.jobs.<p>.<job_id>` and `wc.runs.<p>`."""
    return int(subject.split(".", 3)[2])


def stream_of(subject: str) -> str:
    return names.JOBS if subject.startswith("wc.jobs.") else names.RUNS


def _stored_at(delivery: Delivery) -> Instant:
    return delivery.timestamp_ns // 1000


class _Envelope(Struct):
    events: list[msgspec.Raw] = []


_decode_envelope: Callable[[bytes], _Envelope] = decoder(_Envelope)
_decode_job_event: Callable[[msgspec.Raw], JobEvent] = decoder(JobEvent)
_decode_any_run_event: Callable[[msgspec.Raw], RunEvent] = decoder(RunEvent)


def _decode_run_event(raw: msgspec.Raw) -> RunEvent:
    return with_readable_values(_decode_any_run_event(raw))


def _readable(
    delivery: Delivery, error: Exception, decode: Callable[[msgspec.Raw], _Event]
) -> tuple[_Event, ...]:
    """What can be read of a frame that cannot be read whole."""
    events = []
    try:
        for raw in _decode_envelope(delivery.data).events:
            try:
                events.append(decode(raw))
            except msgspec.MsgspecError:
                pass
    except msgspec.MsgspecError:
        pass
    QUARANTINE.report(stream_of(delivery.subject), delivery, error)
    return tuple(events)
