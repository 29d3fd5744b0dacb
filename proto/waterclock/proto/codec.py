"""One codec for every message: JSON by msgspec. What cannot be read raises `Undecodable`, and nothing else."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

from waterclock.proto.events import Frame, JobFrame, RunEvent
from waterclock.proto.values import MAX_STORED_DEPTH, readable
from waterclock.proto.work import Parcel, WorkItem

T = TypeVar("T")

_VALUES = ("output", "item", "parameters")
"""Fields of events that hold a value of a user's."""


class Undecodable(msgspec.DecodeError):
    """A message that is not what its subject says: of a version that we do not know, damaged, or meant to harm."""


@overload
def decoder(kind: type[T]) -> Callable[[bytes], T]: ...


@overload
def decoder(kind: Any) -> Callable[[bytes], Any]: ...


def decoder(kind: Any) -> Callable[[bytes], Any]:
    """Reads one kind of message, and raises Undecodable for whatever else it is given."""
    decode = msgspec.json.Decoder(kind).decode

    def read(data: bytes) -> Any:
        try:
            return decode(data)
        except RecursionError:
            raise Undecodable("nested too deeply") from None
        except ValueError as error:  # msgspec's errors are ValueErrors; so is what is not UTF-8
            raise Undecodable(str(error)) from None

    return read


encode = msgspec.json.Encoder().encode
decode_job_frame = decoder(JobFrame)
_decode_item = decoder(WorkItem)
_decode_parcel = decoder(Parcel)
_decode_frame = decoder(Frame)


def decode_frame(data: bytes) -> Frame:
    """A value in it that no reader could pass on is replaced by a text: it must not take the others with it."""
    frame = _decode_frame(data)
    if data.count(b"[") + data.count(b"{") - len(frame.events) <= MAX_STORED_DEPTH:
        return frame
    events = tuple(map(with_readable_values, frame.events))
    return frame if events == frame.events else msgspec.structs.replace(frame, events=events)


def with_readable_values(event: RunEvent) -> RunEvent:
    """The event, with a text in the place of a value that is beyond what can be read everywhere."""
    for name in _VALUES:
        value = getattr(event, name, None)
        if value is not None and (shown := readable(value)) is not value:
            event = msgspec.structs.replace(event, **{name: shown})
    return event


_PARCEL = b'{"items":'
"""How a parcel begins, and no work item."""


def decode_work(data: bytes) -> tuple[WorkItem, ...]:
    """The attempts in a message of the work queue: one, or those of a parcel."""
    return _decode_parcel(data).items if data.startswith(_PARCEL) else (_decode_item(data),)
