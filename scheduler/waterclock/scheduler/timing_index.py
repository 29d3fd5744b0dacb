"""The timing index of a partition: what is filed where, over a store of keys.

What is written together and belongs to one slot is one key. Slots that are about to begin are opened: what is in them
is filed again, in shorter ones. Reading is by minute, so it finds all that is due then, and what of it is void.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Protocol, TypeVar
from zlib import crc32

from msgspec import Struct

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.timing_index import (
    HOUR_MINUTES,
    SPANS,
    Filed,
    Group,
    IndexEntry,
    Slots,
    Void,
    decode_entry,
    decode_group,
    minute_of,
    minute_slot,
)
from waterclock.core.runtime.quarantine import read_record
from waterclock.proto import names
from waterclock.proto.events import Instant

T = TypeVar("T")

_AHEAD = 10
"""So many minutes before an hour begins what is filed under it is filed by minute, a part in each pass."""
_SCAN_BY_HOUR = 120
"""From this many minutes on, a stretch is read hour by hour."""

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

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        """None deletes: an entry that would not fire again if it were still there. Raises LeaseLost."""

    async def remove_hot(self, void: Mapping[str, int]) -> None:
        """The hot entries of some jobs, each of versions up to one."""

    async def purge(self, *patterns: str) -> None:
        """What we have read or written of them; what somebody else may have written since stays."""


class TimingIndex:
    """`begin` comes before all else."""

    def __init__(self, store: TimingStore, partition: int, spans: tuple[int, ...] = SPANS) -> None:
        self._store = store
        self._partition = partition
        self._spans = spans
        self._slots = Slots(0, spans)
        self._opening: str | None = None
        """A slot in which nothing is filed any more, and which may not be empty yet."""
        self._numbers = count(1)
        self._occupied: set[int] = set()
        """Minutes known to have entries: the others need no purge."""

    def begin(self, first_minute: int) -> None:
        """Nothing before this minute will be asked for."""
        self._slots = Slots(first_minute, self._spans)
        self._opening = None

    # -- reading ------------------------------------------------------------------------------------------

    async def hot(self) -> list[IndexEntry]:
        found = await self._store.scan(names.timing_all_hot(self._partition))
        entries = (_read(decode_entry, key, value) for key, value in found)
        return [entry for entry in entries if entry is not None]

    async def minutes(self, first: int, last: int) -> list[IndexEntry]:
        """The entries of a stretch of minutes, both ends included."""
        while self._slots.open_until <= last or self._opening is not None:
            await self._open_some()
        if last - first >= _SCAN_BY_HOUR:
            hours = range(first // HOUR_MINUTES, last // HOUR_MINUTES + 1)
            patterns = [names.timing_hour(self._partition, hour) for hour in hours]
        else:
            minutes = range(first, last + 1)
            patterns = [names.timing_slot(self._partition, minute_slot(minute)) for minute in minutes]
        entries: list[IndexEntry] = []
        void: dict[str, int] = {}
        for pattern in patterns:
            for key, value in await self._store.scan(pattern):
                minute = minute_of(_slot_of(key))
                if minute is None:
                    continue
                self._occupied.add(minute)
                if minute < first:
                    continue  # its fires are decided; if it was changed since, only later minutes say so
                if not names.is_timing_group(key):
                    single = _read(decode_entry, key, value)
                    entries += [] if single is None else [single]
                    continue
                group = _read(decode_group, key, value) or _EMPTY
                members = (_read(decode_entry, key, bytes(entry)) for _, entry in group.entries)
                entries += [entry for entry in members if entry is not None]
                for mark in group.void:
                    void[mark.job_id] = max(mark.version, void.get(mark.job_id, 0))
        return [entry for entry in entries if entry.version > void.get(entry.job_id, 0)]

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
            await self._store.purge(names.timing_slot(self._partition, minute_slot(minute)))
            self._occupied.discard(minute)

    def _keyed(self, entries: Iterable[Filed], void: Iterable[Void] = ()) -> dict[str, bytes | None]:
        keyed: dict[str, bytes | None] = {}
        for slot, value in self._slots.grouped(entries, void):
            minute = minute_of(slot)
            if minute is not None:
                self._occupied.add(minute)
            key = names.timing_group(self._partition, slot, self._store.writer, next(self._numbers))
            keyed[key] = value
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
