"""Where a schedule stands in the timing index.

If it fires again within the horizon it is hot: `<p>.hot.0.<id>.<version>`, always in memory, never rewritten. Otherwise
it is filed under its next fire, together with others whose fires are near that one. Slots are minutes for the hours
that are about to begin, hours for the days after that, and longer the further away: what is far away is in few groups,
and is filed again, more finely, before its time comes. Minutes that have passed are purged whole, so a fire costs no
delete.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.schedule.fires import Fires
from waterclock.core.domain.timing_groups import (
    CROWDED,
    PART,
    Filed,
    Grouped,
    Kind,
    OpenGroup,
    Void,
    version_and_kind,
)
from waterclock.proto.codec import decoder
from waterclock.proto.events import Instant
from waterclock.proto.spec import JobSpec

HORIZON = 2 * MINUTE
HOUR_MINUTES = 60
SPANS = (1, 16, 256, 4_096)
"""Hours in the slots that are longer than a minute."""


class IndexEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored form."""

    job_id: str
    version: int
    spec: JobSpec
    since: Instant
    """Fires up to this instant are not this definition's to take; how far they are decided, the log's cursor says."""


class WholeGroup(Struct):
    """A group, decoded with its entries."""

    entries: list[tuple[Instant, IndexEntry]] = []
    void: list[Void] = []


class Slots:
    """Which slot an instant belongs to: the longest that is not open yet. Opening goes from the longest slots to the
    hours, each time the first that is needed to open the next hour.
    """

    def __init__(self, first_minute: int, spans: tuple[int, ...] = SPANS, crowded: int = CROWDED) -> None:
        """`spans`: each a multiple of the one before. `crowded`: from so many entries on a minute is divided."""
        hour = first_minute // HOUR_MINUTES
        self.first_minute = first_minute
        self._spans = spans
        self._open_until = [hour // span * span for span in spans]
        """By span: slots before this hour are open."""
        self._crowded = crowded
        self._filed: dict[str, int] = {}
        """How many entries a minute is known to have."""

    @property
    def open_until(self) -> int:
        """The first minute that has no slot of its own."""
        return self._open_until[0] * HOUR_MINUTES

    def open_next(self) -> str:
        """From now on nothing is filed in this slot: what is in it has to be filed again."""
        levels = range(len(self._spans))
        level = next(
            (each for each in levels[:-1] if self._open_until[each] < self._open_until[each + 1]), levels[-1]
        )
        hour = self._open_until[level]
        self._open_until[level] += self._spans[level]
        return self._slot(level, hour)

    def slot_of(self, at: Instant) -> str:
        minute = at // MINUTE
        hour = minute // HOUR_MINUTES
        for level in range(len(self._spans) - 1, -1, -1):
            if hour >= self._open_until[level]:
                return self._slot(level, hour)
        return minute_slot(max(minute, self.first_minute))

    def _slot(self, level: int, hour: int) -> str:
        return f"{hour}.h" if level == 0 else f"{'abcdef'[level]}{hour // self._spans[level]}.0"

    def note(self, slot: str, count: int) -> None:
        """A minute has so many entries more."""
        self._filed[slot] = self._filed.get(slot, 0) + count

    def forget(self, slot: str) -> None:
        self._filed.pop(slot, None)

    def grouped(self, entries: Iterable[Filed], void: Iterable[Void] = ()) -> list[Grouped]:
        """Values for the index."""
        groups: dict[tuple[str, Kind, int], OpenGroup] = {}
        done: list[Grouped] = []
        minute, slot, is_short = -1, "", False
        for filed in entries:
            if filed.at // MINUTE != minute:
                minute, slot = filed.at // MINUTE, self.slot_of(filed.at)
                is_short = minute_of(slot) is not None
            version, kind, part = 0, _ANY, 0
            if is_short:
                self.note(slot, 1)
                if self._filed[slot] > self._crowded:
                    (version, kind), part = version_and_kind(filed), filed.at // PART
            place = (slot, kind, part)
            group = groups.get(place)
            if group is None:
                group = groups[place] = OpenGroup(slot, kind)
            if group.add(filed, version):
                done.append(groups.pop(place).close())
        for mark in void:
            slot = self.slot_of(mark.at)
            place = (slot, _VOID, 0 if minute_of(slot) is None else mark.at // PART)
            group = groups.get(place)
            if group is None:
                group = groups[place] = OpenGroup(place[0], _VOID)
            group.mark(mark)
        return done + [group.close() for group in groups.values()]


_ANY: Kind = "any"
_VOID: Kind = "void"


def minute_slot(minute: int) -> str:
    """Minutes since the epoch, by hour, so that a long downtime is read in few scans."""
    return f"{minute // HOUR_MINUTES}.{minute % HOUR_MINUTES}"


def minute_of(slot: str) -> int | None:
    """None: it is no slot of a minute."""
    hour, _, minute = slot.partition(".")
    return int(hour) * HOUR_MINUTES + int(minute) if hour.isdigit() and minute.isdigit() else None


def is_hot(fires: Fires, scheduled: Instant) -> bool:
    """Whether a schedule whose next fire is at `scheduled` fires again within the horizon."""
    if fires.is_sparse:
        return False
    following = fires.after(scheduled)
    return following is not None and following.scheduled - scheduled < HORIZON


_encode = msgspec.json.Encoder().encode
encode_entry = _encode
decode_entry = decoder(IndexEntry)
decode_whole_group = decoder(WholeGroup)
