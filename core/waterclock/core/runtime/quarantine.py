"""What a reader does with a record that it cannot read: reports it, and goes on as if it were empty.

Whoever can write one bad record must not end those who read it. Where reports go is set by the service
(`core/jetstream/quarantined.py`: to a stream of their own); without that they are logged and counted.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct

from waterclock.core.runtime.metrics import ScopedCollector, counter
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_job_frame
from waterclock.proto.events import Frame, JobFrame

T = TypeVar("T")

_log = logging.getLogger(__name__)
_NO_FRAME = Frame(writer="", events=())
_NO_JOB_FRAME = JobFrame(events=())


class Record(Protocol):
    """A message of a stream."""

    @property
    def sequence(self) -> int: ...

    @property
    def data(self) -> bytes: ...


class Unreadable(Struct, frozen=True, kw_only=True):
    stream: str
    sequence: int
    subject: str
    data: bytes
    error: str


class Quarantine(ScopedCollector):
    """Of this process."""

    def __init__(self) -> None:
        self.sink: Callable[[Unreadable], None] | None = None
        self._counts: Counter[str] = Counter()

    def report(self, stream: str, record: Record, error: Exception) -> None:
        found = Unreadable(
            stream=stream,
            sequence=record.sequence,
            subject=str(getattr(record, "subject", "")),
            data=record.data,
            error=str(error) or type(error).__name__,
        )
        self._counts[stream] += 1
        _log.error(
            "a record that cannot be read is left out",
            extra={
                "stream": stream,
                "sequence": found.sequence,
                "subject": found.subject,
                "error": found.error,
            },
        )
        if self.sink is not None:
            self.sink(found)

    def collect(self):  # type: ignore[no-untyped-def]
        yield counter(
            "waterclock_unreadable_records",
            "Records that could not be read, by stream.",
            "stream",
            self._counts,
        )


QUARANTINE = Quarantine()


def read_record(decode: Callable[[bytes], T], stream: str, record: Record, otherwise: T) -> T:
    """What the record says; `otherwise` if it cannot be read."""
    try:
        return decode(record.data)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors; so is what is not UTF-8
        QUARANTINE.report(stream, record, error)
        return otherwise


def read_frame(record: Record) -> Frame:
    """Of `RUNS`. One that cannot be read has no events."""
    return read_record(decode_frame, names.RUNS, record, _NO_FRAME)


def read_job_frame(record: Record) -> JobFrame:
    """Of `JOBS`. One that cannot be read has no events."""
    return read_record(decode_job_frame, names.JOBS, record, _NO_JOB_FRAME)
