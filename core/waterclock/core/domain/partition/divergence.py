"""Decisions that are in the log and have not come back from it.

What is decided is applied when it is decided, not when it comes back. That is the order of the log unless a frame of
somebody else stands before a decision about the same run that had not read it.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from waterclock.proto.events import (
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    RunClosed,
    RunEvent,
)
from waterclock.proto.names import job_of

_OF_WAITING = (DependenciesChanged, DependenciesUsed, DependencyCompleted)


class Diverged(Exception):
    """Something was in the log before a decision that contradicts it, unread. The log is right: rebuild from it."""


class Unread:
    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        """Run id -> the last frame that decides on it."""
        self._frames: deque[tuple[int, list[str]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._frames)

    def wrote(self, sequence: int, events: Sequence[RunEvent]) -> None:
        """The end of a whole run also concerns those who wait for its job."""
        run_ids = [_about(event) for event in events]
        run_ids += [job_of(event.run_id) for event in events if type(event) is RunClosed]
        self._last.update(dict.fromkeys(run_ids, sequence))
        self._frames.append((sequence, run_ids))

    def came_back(self, sequence: int) -> Iterator[str]:
        """The runs that nothing up to this frame contradicts any more."""
        while self._frames and self._frames[0][0] <= sequence:
            written, run_ids = self._frames.popleft()
            for run_id in run_ids:
                if self._last.get(run_id) == written:
                    del self._last[run_id]
                    yield run_id

    def contradicts(self, event: RunEvent, sequence: int) -> bool:
        """Whether somebody else's frame should have been read before what was decided."""
        return self._last.get(_about(event), 0) > sequence


def _about(event: RunEvent) -> str:
    """What must not have changed unread when something is decided about it. What a job waits for is another thing than
    who waits for it."""
    return f"{event.run_id}<" if isinstance(event, _OF_WAITING) else event.run_id
