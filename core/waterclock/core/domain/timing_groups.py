"""Which entries of the timing index are stored together, and what the key of such a group says about it.

Most minutes have few entries: what a pass files in one is one group. A minute with many is divided: its groups hold
recurring schedules or one-shots, of a few seconds each. So whoever has no room for the whole minute reads it in parts,
in the order of time, and what recurs is not behind a crowd of one-shots. The keys tell which group comes when, so that
it need not be read for that.
"""

import re
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from waterclock.core.domain.instants import SECOND
from waterclock.proto.codec import Undecodable, decoder
from waterclock.proto.events import Instant
from waterclock.proto.policies import ScheduleType

PART = 5 * SECOND
"""How much time a group of a crowded minute covers."""
CROWDED = 1_000
"""So many entries of a minute are in groups that may hold any of it."""
_GROUP_ENTRIES = 500
_GROUP_BYTES = 256 * 1024

Kind = Literal["any", "once", "recurring", "void"]
"""What a group holds. "void": no entries, only marks."""
_LETTERS: dict[Kind, str] = {"any": "a", "once": "o", "recurring": "r", "void": "v"}
_KINDS: dict[str, Kind] = {letter: kind for kind, letter in _LETTERS.items()}
_LABEL = re.compile(r"\.[0-9]+-([aorv])([0-9]{1,9})-([0-9]{1,18})-([0-9]{1,18})-([0-9]{1,18})-([0-9]{1,18})$")


class Filed(Struct, frozen=True, gc=False):
    """An entry, and the instant it is filed under."""

    at: Instant
    entry: Raw
    version: int = 0
    """0: it has to be looked up in the entry, and so has the next."""
    recurring: bool = False


class Void(Struct, frozen=True, gc=False, array_like=True):
    """Entries of a job up to a version do not count any more. Filed where they may be, and found with them."""

    at: Instant
    job_id: str
    version: int


class Group(Struct, omit_defaults=True):
    """The stored form of what was filed together."""

    entries: list[tuple[Instant, Raw]] = []
    void: list[Void] = []


class Label(Struct, frozen=True, gc=False):
    """What the key of a group says about it."""

    kind: Kind
    count: int
    first: Instant
    last: Instant
    oldest: int = 0
    """The lowest and the highest version in it; 0: not known."""
    newest: int = 0

    def __str__(self) -> str:
        letter = _LETTERS[self.kind]
        return f"{letter}{self.count}-{self.first}-{self.last}-{self.oldest}-{self.newest}"


def label_of(key: str) -> Label | None:
    """None: the key says nothing, as those of earlier releases, or nothing that can be read."""
    found = _LABEL.search(key)
    if found is None:
        return None
    kind, *numbers = found.groups()
    return Label(_KINDS[kind], *map(int, numbers))


class Grouped(Struct, frozen=True):
    slot: str
    label: Label
    value: bytes


class OpenGroup:
    """A group that is being filled."""

    def __init__(self, slot: str, kind: Kind) -> None:
        self.slot = slot
        self.kind = kind
        self._group = Group(entries=[], void=[])
        self._size = 0
        self._first = self._last = -1
        self._oldest = self._newest = 0

    def add(self, filed: Filed, version: int) -> bool:
        """Whether it is full now."""
        self._reach(filed.at)
        if version:
            self._oldest = min(self._oldest or version, version)
            self._newest = max(self._newest, version)
        entries = self._group.entries
        entries.append((filed.at, filed.entry))
        self._size += len(bytes(filed.entry))
        return len(entries) >= _GROUP_ENTRIES or self._size >= _GROUP_BYTES

    def mark(self, void: Void) -> None:
        self._reach(void.at)
        self._group.void.append(void)

    def close(self) -> Grouped:
        label = Label(
            self.kind, len(self._group.entries), self._first, self._last, self._oldest, self._newest
        )
        return Grouped(self.slot, label, encode_group(self._group))

    def _reach(self, at: Instant) -> None:
        if self._first < 0:
            self._first = self._last = at
        elif at < self._first:
            self._first = at
        elif at > self._last:
            self._last = at


class _OutlineSchedule(Struct, frozen=True):
    schedule_type: ScheduleType = "IMMEDIATE"


class _OutlineSpec(Struct, frozen=True):
    schedule: _OutlineSchedule = _OutlineSchedule()


class _Outline(Struct, frozen=True):
    """Of an entry, what decides its group."""

    version: int
    spec: _OutlineSpec


def version_and_kind(filed: Filed) -> tuple[int, Kind]:
    """Of an entry that belongs in a crowded minute."""
    if filed.version:
        return filed.version, "recurring" if filed.recurring else "once"
    try:
        outline = _decode_outline(bytes(filed.entry))
    except Undecodable:
        return 0, "recurring"  # whoever reads it will report it
    recurring = outline.spec.schedule.schedule_type in ("CRON", "INTERVAL")
    return outline.version, "recurring" if recurring else "once"


encode_group = msgspec.json.Encoder().encode
decode_group = decoder(Group)
_decode_outline = decoder(_Outline)
