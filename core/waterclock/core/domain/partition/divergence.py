"""Decisions that are in the log and have not been read back from it.

What is decided is applied when it is decided, not when it is read back. That is the order of the log unless a frame of
somebody else stands before a decision about the same run that had not read it.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from waterclock.core.domain.ids import job_of
from waterclock.proto.events import (
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    RunClosed,
    RunEvent,
)

_OF_DEPENDENCIES: tuple[type, ...] = (DependenciesChanged, DependenciesUsed, DependencyCompleted)


class Diverged(Exception):
    """A frame that had not been read stands in the log before a decision about the same run. The log is right: the
    partition is rebuilt from it."""


class UnreadDecisions:
    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        """Run id -> the last frame that decides on it."""
        self._frames: deque[tuple[int, list[str]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._frames)

    def appended(self, sequence: int, events: Sequence[RunEvent]) -> None:
        """The end of a whole run also concerns those who wait for its job."""
        subjects = [_subject(event) for event in events]
        subjects += [job_of(event.run_id) for event in events if type(event) is RunClosed]
        self._last.update(dict.fromkeys(subjects, sequence))
        self._frames.append((sequence, subjects))

    def read_back(self, sequence: int) -> Iterator[str]:
        """The runs that nothing up to this frame contradicts any more."""
        while self._frames and self._frames[0][0] <= sequence:
            written, subjects = self._frames.popleft()
            for subject in subjects:
                if self._last.get(subject) == written:
                    del self._last[subject]
                    yield subject

    def contradict(self, event: RunEvent, sequence: int) -> bool:
        """Whether somebody else's frame should have been read before what was decided."""
        return bool(self._last) and self._last.get(_subject(event), 0) > sequence


def _subject(event: RunEvent) -> str:
    """What must not have changed unread when something is decided about it. What a job waits for is another thing than
    who waits for it."""
    return f"{event.run_id}<" if type(event) in _OF_DEPENDENCIES else event.run_id
