"""Parcels: which attempts travel to the executors together, in one message.

Under load the message costs more than the attempt. So attempts of one line (route, tier, priority) that are decided in
the same pass share one, if runs are short there (`Room.parcel_size`). A parcel is named after its first run, and each
`RunQueued` says which it is in: whoever replays the log makes the same parcels of it, and the queue refuses one that it
still holds.
"""

from msgspec import Struct

from waterclock.core.domain.partition.room import Room
from waterclock.proto.codec import encode
from waterclock.proto.events import Instant
from waterclock.proto.spec import Handler, JobSpec

MOST = 64
_LARGEST = 8 * 1024
"""Bytes of a definition that may travel with others: a full parcel is half of what the server takes."""

Line = tuple[str, int, Instant]
"""Route, priority, and when they are queued."""


class OpenParcel(Struct):
    name: str
    left: int
    """How many more it takes."""


class Parcels:
    """Those of one pass."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[Line, OpenParcel] = {}

    def add(self, run_id: str, spec: JobSpec, route: str, now: Instant, room: Room) -> str:
        """The parcel for an attempt that is queued now; empty: it goes by itself."""
        size = room.parcel_size(route)
        if size < 2 or not may_travel_with_others(spec):
            return ""
        line = route, spec.priority, now
        parcel = self._open.get(line)
        if parcel is None or not parcel.left:
            parcel = self._open[line] = OpenParcel(run_id, min(size, MOST))
        parcel.left -= 1
        return parcel.name


def may_travel_with_others(spec: JobSpec) -> bool:
    """Not what may have to wait for a turn or for several slots, nor what is large, nor what has to start by some time:
    it may have to be taken out of the queue."""
    return (
        type(spec.task) is Handler
        and spec.slots == 1
        and spec.start_deadline_seconds is None
        and spec.concurrency_key is None
        and spec.rate_key is None
        and len(encode(spec)) <= _LARGEST
    )
