"""Live state equals replayed state: the property on which every takeover rests.

`Replayed` is the state that the whole log gives, folded frame by frame as it is stored. Whatever an owner has in
memory, and whatever is rebuilt from a snapshot and the frames after it, must be the same, field by field.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from waterclock.core.domain.partition.evolve import evolve, move_cursor
from waterclock.core.domain.partition.state import PartitionState
from waterclock.proto.events import Cursor, Frame, RunQueued


@dataclass
class Replayed:
    frames: Sequence[Frame]
    state: PartitionState = field(default_factory=PartitionState)
    through: int = 0
    queued: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """Frames that queue runs."""
    checks: int = 0

    def fold(self, through: int) -> PartitionState:
        """The state after a frame. Frames are folded once: nobody asks for an earlier one than before."""
        assert through >= self.through, "the log was read further than this before"
        for sequence in range(self.through + 1, through + 1):
            frame = self.frames[sequence - 1]
            for event in frame.events:
                evolve(self.state, event)
            run_ids = tuple(event.run_id for event in frame.events if isinstance(event, RunQueued))
            if run_ids:
                self.queued.append((sequence, run_ids))
            if frame.cursor is not None:
                move_cursor(self.state, frame.cursor)
        self.through = through
        self.checks += 1
        return self.state


def check_live(replayed: Replayed, live: PartitionState, consumed: int) -> None:
    """An owner that is caught up: all it decided is in the log, and it has read the log up to `consumed`.

    Only its cursor may be ahead: it moves with time, and is written with the next frame. What was unpublished when it
    took over it has published.
    """
    state = replace(replayed.fold(consumed), unpublished=[])
    _check_not_behind(live.cursor, state.cursor)
    move_cursor(state, live.cursor)
    _check_equal(live, state, "the live state")


def check_rebuilt(
    replayed: Replayed, rebuilt: PartitionState, consumed: int, known_through: int | None
) -> None:
    """What a takeover makes of the log, before it decides anything. `known_through`: how far its snapshot reaches, if
    it has one. A snapshot may be ahead of the log in its cursor, like the owner that wrote it."""
    state = replayed.fold(consumed)
    if known_through is None:
        assert rebuilt.cursor == state.cursor
    _check_not_behind(rebuilt.cursor, state.cursor)
    published = max(known_through or 0, rebuilt.cursor.work)
    unpublished = [queued for queued in replayed.queued if queued[0] > published]
    expected = replace(state, unpublished=unpublished)
    move_cursor(expected, rebuilt.cursor)
    _check_equal(rebuilt, expected, "the rebuilt state")


def _check_not_behind(found: Cursor, logged: Cursor) -> None:
    assert (found.time, found.through) >= (logged.time, logged.through), f"{found}, the log has {logged}"
    for name in set(Cursor.__struct_fields__) - {"through_version"}:
        assert getattr(found, name) >= getattr(logged, name), f"cursor {name}: {found}, the log has {logged}"


def _check_equal(found: PartitionState, expected: PartitionState, what: str) -> None:
    if found == expected:
        return
    wrong = []
    for name in PartitionState.__struct_fields__:
        here, there = getattr(found, name), getattr(expected, name)
        if here != there:
            wrong.append(f"{name}: {_difference(here, there)}")
    raise AssertionError(f"{what} is not what the log says: " + "; ".join(wrong))


def _difference(here: object, there: object) -> str:
    if isinstance(here, msgspec.Struct) and isinstance(there, msgspec.Struct):
        here, there = msgspec.structs.asdict(here), msgspec.structs.asdict(there)
    if isinstance(here, dict) and isinstance(there, dict):
        keys = [key for key in (*here, *there) if here.get(key) != there.get(key)][:3]
        return ", ".join(f"{key} is {here.get(key)!r}, not {there.get(key)!r}" for key in keys)
    return f"{here!r}, not {there!r}"
