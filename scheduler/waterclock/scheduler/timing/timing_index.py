"""The timing index of a partition: what is filed where, over a store of keys.

What is written together and belongs to one slot is one key. Slots that are about to begin are opened: what is in them
is filed again, in shorter ones. Of the minutes that are near, the keys are listed; the groups under them are read when
there is room for what is in them.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Protocol, TypeVar
from zlib import crc32

from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.timing_groups import (
    CROWDED,
    Filed,
    Group,
    Label,
    Void,
    decode_group,
    label_of,
)
from waterclock.core.domain.timing_index import (
    HOUR_MINUTES,
    SPANS,
    IndexEntry,
    Slots,
    decode_entry,
    decode_whole_group,
    minute_of,
    minute_slot,
)
from waterclock.core.runtime.quarantine import read_record
from waterclock.proto import names
from waterclock.proto.codec import Undecodable
from waterclock.proto.events import Instant
from waterclock.scheduler.timing.group_directory import GroupDirectory, Unread, is_unlabelled

T = TypeVar("T")

_AHEAD = 10
"""So many minutes before an hour begins what is filed under it is filed by minute, a part in each pass."""
_LIST_BY_HOUR = 120
"""From this many minutes on, a stretch is listed hour by hour."""

Stored = tuple[str, bytes]
"""Key and value."""


class TimingStore(Protocol):
    @property
    def writer(self) -> str:
        """Names this ownership: no other has the same."""

    async def scan(self, pattern: str) -> Sequence[Stored]:
        """All that is there under a pattern of keys."""

    async def some(self, pattern: str) -> Sequence[Stored]:
        """Some of it, as long as there is any."""

    async def keys(self, pattern: str) -> Sequence[str]:
        """The keys alone. Some may be there no more."""

    async def get(self, keys: Sequence[str]) -> Sequence[Stored]:
        """Those that are there."""

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        """None deletes: an entry that would not fire again if it were still there. Raises LeaseLost."""

    async def remove_hot(self, void: Mapping[str, int]) -> None:
        """The hot entries of some jobs, each of versions up to one."""

    async def purge(self, *patterns: str) -> None:
        """What we have read or written of them; what somebody else may have written since stays."""


class TimingIndex:
    """`begin` comes before all else."""

    def __init__(
        self,
        store: TimingStore,
        partition: int,
        spans: tuple[int, ...] = SPANS,
        crowded: int = CROWDED,
    ) -> None:
        self._store = store
        self._partition = partition
        self._spans = spans
        self._crowded = crowded
        self._slots = Slots(0, spans, crowded)
        self._opening: str | None = None
        """A slot in which nothing is filed any more, and which may not be empty yet."""
        self._numbers = count(1)
        self._occupied: set[int] = set()
        """Minutes known to have entries: the others need no purge."""
        self.near = GroupDirectory(0)
        self._void: dict[str, Void] = {}
        """By job: marks that were read, of what may still be read."""

    def begin(self, first_minute: int) -> None:
        """Nothing before this minute will be asked for."""
        self._slots = Slots(first_minute, self._spans, self._crowded)
        self._opening = None
        self.near = GroupDirectory(first_minute)
        self._void = {}

    # -- reading ------------------------------------------------------------------------------------------

    async def hot(self) -> list[IndexEntry]:
        found = await self._store.scan(names.timing_all_hot(self._partition))
        entries = (_read(decode_entry, key, value) for key, value in found)
        return [entry for entry in entries if entry is not None]

    async def list_until(self, minute: int) -> None:
        """Know which groups there are before a minute."""
        while self._slots.open_until < minute or self._opening is not None:
            await self._open_some()
        first, last = self.near.listed_until, minute - 1
        if last - first >= _LIST_BY_HOUR:
            hours = range(first // HOUR_MINUTES, last // HOUR_MINUTES + 1)
            patterns = [names.timing_hour(self._partition, hour) for hour in hours]
        else:
            minutes = range(first, last + 1)
            patterns = [names.timing_slot(self._partition, minute_slot(minute)) for minute in minutes]
        for pattern in patterns:
            self._list(await self._store.keys(pattern), first, last)
        self.near.listed_until = max(self.near.listed_until, minute)

    def _list(self, keys: Iterable[str], first: int, last: int) -> None:
        """Minutes before the first were decided; if something there was changed since, only later minutes say so."""
        unlabelled: dict[int, int] = {}
        for key in keys:
            slot = _slot_of(key)
            minute = minute_of(slot)
            if minute is None:
                continue
            self._occupied.add(minute)
            if not first <= minute <= last:
                continue
            label = label_of(key)
            if label is None:
                unlabelled[minute] = unlabelled.get(minute, 0) + 1
                continue
            self.near.add(minute, key, label)
            self._slots.note(slot, label.count)
        for minute, number in unlabelled.items():
            pattern = names.timing_slot(self._partition, minute_slot(minute))
            self.near.add(minute, pattern, Label("any", number, minute * MINUTE, (minute + 1) * MINUTE - 1))

    async def read(self, groups: Sequence[Unread]) -> list[IndexEntry]:
        """The entries of some groups that count."""
        entries: list[IndexEntry] = []
        found = list(await self._store.get([group.key for group in groups if not is_unlabelled(group)]))
        for group in filter(is_unlabelled, groups):
            found += [each for each in await self._store.scan(group.key) if label_of(each[0]) is None]
        for key, value in found:
            entries += self._entries(key, value)
            await asyncio.sleep(0)
        void = self._void
        return [
            entry
            for entry in entries
            if entry.job_id not in void or entry.version > void[entry.job_id].version
        ]

    async def read_void(self, until: Instant) -> list[Void]:
        """The marks of what is due before an instant, as far as they have not been read."""
        found: list[Void] = []
        keys = self.near.take_void(until)
        for key, value in await self._store.get(keys) if keys else ():
            found += (_read(decode_group, key, value) or _EMPTY).void
        self._note_void(found)
        return found

    def forget_void(self, before: Instant) -> None:
        """All that is due before an instant has been read."""
        if self._void:
            self._void = {job: mark for job, mark in self._void.items() if mark.at >= before}

    def _entries(self, key: str, value: bytes) -> list[IndexEntry]:
        if not names.is_timing_group(key):
            single = _read(decode_entry, key, value)
            return [] if single is None else [single]
        try:
            whole = decode_whole_group(value)
        except Undecodable:
            group = _read(decode_group, key, value) or _EMPTY
            self._note_void(group.void)
            members = (_read(decode_entry, key, bytes(entry)) for _, entry in group.entries)
            return [entry for entry in members if entry is not None]
        self._note_void(whole.void)
        return [entry for _, entry in whole.entries]

    def _note_void(self, void: Iterable[Void]) -> None:
        for mark in void:
            known = self._void.get(mark.job_id)
            if known is None:
                self._void[mark.job_id] = mark
            else:
                at, version = max(mark.at, known.at), max(mark.version, known.version)
                self._void[mark.job_id] = Void(at, mark.job_id, version)

    async def open_ahead(self, minute: int) -> None:
        """A part of what has to be done before a minute somewhat later can be read."""
        if self._slots.open_until <= minute + _AHEAD or self._opening is not None:
            await self._open_some()

    async def _open_some(self) -> None:
        """File a part of the first slot that is not open again."""
        if self._opening is None:
            self._opening = self._slots.open_next()
        found = await self._store.some(names.timing_slot(self._partition, self._opening))
        if not found:
            self._opening = None
            return
        groups = [_read(decode_group, key, value) or _EMPTY for key, value in found]
        kept = self._slots.first_minute * MINUTE
        filed = [Filed(at, entry) for group in groups for at, entry in group.entries if at >= kept]
        void = [mark for group in groups for mark in group.void if mark.at >= kept]
        await self._store.write(self._keyed(filed, void) | dict.fromkeys(key for key, _ in found))
        await asyncio.sleep(0)

    # -- writing ------------------------------------------------------------------------------------------

    async def write(self, entries: Sequence[Filed], hot: Mapping[str, bytes]) -> None:
        """Raises LeaseLost."""
        await self._store.write({**self._keyed(entries), **hot})

    async def delete(self, keys: Iterable[str]) -> None:
        """A server that is killed may bring them back. Raises LeaseLost."""
        await self._store.write(dict.fromkeys(keys))

    async def purge(self, keys: Sequence[str]) -> None:
        """For good."""
        await self._store.purge(*keys)

    async def void(self, marks: Iterable[Void]) -> None:
        """These do not count any more, though they stay until their minute is purged. Raises LeaseLost."""
        keyed = self._keyed((), marks)
        if keyed:
            await self._store.write(keyed)

    async def remove_hot(self, void: Mapping[str, int]) -> None:
        await self._store.remove_hot(void)

    async def purge_before(self, instant: Instant) -> None:
        """Drop the minutes that ended before an instant up to which everything is decided."""
        passed = [minute for minute in self._occupied if (minute + 1) * MINUTE <= instant]
        for minute in passed:
            slot = minute_slot(minute)
            await self._store.purge(names.timing_slot(self._partition, slot))
            self._occupied.discard(minute)
            self._slots.forget(slot)
        if passed:
            self.near.forget(passed)

    def _keyed(self, entries: Iterable[Filed], void: Iterable[Void] = ()) -> dict[str, bytes | None]:
        keyed: dict[str, bytes | None] = {}
        for group in self._slots.grouped(entries, void):
            minute = minute_of(group.slot)
            label = "" if minute is None else str(group.label)
            key = names.timing_group(
                self._partition, group.slot, self._store.writer, next(self._numbers), label
            )
            keyed[key] = group.value
            if minute is not None:
                self._occupied.add(minute)
                if minute < self.near.listed_until:
                    self.near.add(minute, key, group.label)
        return keyed


_EMPTY = Group(entries=[], void=[])


class _Value(Struct, frozen=True):
    """A value of the index, as a report shows it."""

    subject: str
    data: bytes

    @property
    def sequence(self) -> int:
        """Tells it from others: the index is read without them."""
        return crc32(self.subject.encode())


def _read(decode: Callable[[bytes], T], key: str, value: bytes) -> T | None:
    return read_record(decode, names.kv_stream(names.TIMING), _Value(key, value), None)


def _slot_of(key: str) -> str:
    _, hour, minute, _ = key.split(".", 3)
    return f"{hour}.{minute}"
