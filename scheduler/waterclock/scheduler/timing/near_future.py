"""What is soon due is brought from the timing index into the owner's memory, as much as there is room for.

All that is due within the horizon, mostly. Of a crowd that is too large only the first of it: the rest is read when
that has fired. So the memory of a scheduler is bounded, whatever is stored, due or behind; what recurs and one-shots
have room of their own. What waits for slots of slow work, or for executors that nobody has started, is counted apart up
to a limit: it must not keep out what could run.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.timing_groups import PART
from waterclock.core.domain.timing_index import HORIZON, IndexEntry
from waterclock.proto.events import Instant
from waterclock.scheduler.timing.group_directory import Unread, is_unlabelled
from waterclock.scheduler.timing.timing_index import TimingIndex

_TURN = 256
"""Others get their turn after so many entries."""
_SLICE = 2_000
"""So many entries a pass reads of each kind."""
_ONCE_IN = SECOND
"""How often it is looked whether something later can make room for what is due."""
_COUNT_EVERY = SECOND // 4

MOST_ONCE = 100_000
MOST_RECURRING = 60_000
"""How many schedules a scheduler holds in memory, about: its partitions share it."""


class Capacity(Struct, frozen=True):
    """How many schedules may be in memory, of one partition."""

    once: int
    recurring: int


def capacity_of(share: float) -> Capacity:
    """Of a partition that may have such a part of all there is."""
    return Capacity(max(500, int(MOST_ONCE * share)), max(250, int(MOST_RECURRING * share)))


class NearFuture:
    """`begin` comes first; then what fires is in time in the owner's memory as long as each pass begins with `load`."""

    def __init__(self, owner: Owner, index: TimingIndex, capacity: Callable[[], Capacity]) -> None:
        self._owner = owner
        self._near = owner.schedules.near
        self._index = index
        self._capacity = capacity
        self._looked_at: Instant = 0
        self._counted_at: Instant = 0

    async def begin(self, now: Instant) -> None:
        """After the index has begun."""
        await load(self._owner, await self._index.hot(), now)
        await self._list(now)
        while await self._fill(now):
            pass

    async def load(self, now: Instant) -> bool:
        """A part of what there is room for. Whether that is not all of it."""
        index = self._index
        await index.open_ahead((now + HORIZON) // MINUTE)
        if self.next_listing() <= now:
            await self._list(now)
            await index.purge_before(self._owner.state.cursor.time - MINUTE)
        return await self._fill(now)

    def next_listing(self) -> Instant:
        """When the next minute is to be looked at."""
        return self._index.near.listed_until * MINUTE - HORIZON

    async def _list(self, now: Instant) -> None:
        await self._index.list_until((now + HORIZON) // MINUTE + 1)

    async def _fill(self, now: Instant) -> bool:
        more = False
        for recurring in (True, False):
            self._leave_out_later(now, recurring=recurring)
            groups = self._choose(now, recurring=recurring)
            until = max([now, *((group.part + 1) * PART for group in groups)]) + PART
            self._owner.schedules.unload(await self._index.read_void(until))
            if groups:
                await load(self._owner, await self._index.read(groups), now, self._before(groups))
                more = more or self._has_room(self._index.near.next(recurring=recurring), recurring=recurring)
            reached, oldest = self._index.near.reach(recurring=recurring)
            self._near.loaded(reached, recurring=recurring, unread_version=oldest)
        self._index.forget_void(self._near.loaded_until)
        if not 0 <= now - self._counted_at < _COUNT_EVERY:
            self._counted_at, self._near.unread = now, self._index.near.count_due(now)
        return more

    def _choose(self, now: Instant, *, recurring: bool) -> list[Unread]:
        """What to read now. Not as soon as there is room for a single group: several are read at once."""
        near, chosen, count = self._index.near, [], 0
        group = near.next(recurring=recurring)
        if group is None or not self._has_room(group, recurring=recurring, enough=True):
            return []
        while group is not None and count < _SLICE:
            if not self._has_room(group, recurring=recurring, beside=count):
                break
            chosen.append(near.take(recurring=recurring))
            count += group.count
            group = near.next(recurring=recurring)
        return chosen

    def _has_room(
        self, group: Unread | None, *, recurring: bool, beside: int = 0, enough: bool = False
    ) -> bool:
        """Whether a group can be read. One is, if there is nothing in memory; so is what does not say when it is due,
        as earlier releases have filed it."""
        if group is None:
            return False
        held, most = beside + self._held(recurring), self._most(recurring)
        if held == 0 or is_unlabelled(group):
            return True
        return held + group.count <= most and (not enough or held <= most - most // 4)

    def _held(self, recurring: bool) -> int:
        held = self._near.count(recurring=recurring)
        most = self._most(recurring)
        if held <= most // 2:
            return held
        return held - min(self._owner.waiting_for_slots(recurring=recurring), most)

    def _most(self, recurring: bool) -> int:
        capacity = self._capacity()
        return capacity.recurring if recurring else capacity.once

    def _before(self, groups: Sequence[Unread]) -> Instant | None:
        """What is due after the minutes that are known is filed under that time, too; but not by earlier releases."""
        if any(map(is_unlabelled, groups)):
            return None
        return self._index.near.listed_until * MINUTE

    def _leave_out_later(self, now: Instant, *, recurring: bool) -> None:
        """If what was stored lately is too much, or is in the way of what is due first."""
        most, near = self._most(recurring), self._index.near
        asleep = self._near.count(recurring=recurring) - len(self._owner.backlog)
        if asleep > most + most // 4:
            until = self._near.shed(most - most // 4, now + PART, recurring=recurring)
        elif (
            now - self._looked_at >= _ONCE_IN
            and (group := near.next(recurring=recurring)) is not None
            and group.first <= now
            and not self._has_room(group, recurring=recurring)
        ):
            self._looked_at = now
            until = self._near.shed(most // 2, now + PART, recurring=recurring)
        else:
            return
        if until is not None:
            near.shed(until, recurring=recurring)


async def load(
    owner: Owner, entries: Sequence[IndexEntry], now: Instant, before: Instant | None = None
) -> None:
    """Arm what was read from the index, with pauses for others."""
    for start in range(0, len(entries), _TURN):
        owner.load(entries[start : start + _TURN], now, before)
        await asyncio.sleep(0)
