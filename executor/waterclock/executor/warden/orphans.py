"""Orphans that came to the warden, and whose they are."""

from collections.abc import Collection

from waterclock.executor.warden import process_tree


class Strays:
    """Each orphan with the wards it may belong to: one if its environment says so, else all that ran when it came.

    An orphan is killed when every ward it may belong to has ended. So a daemon that hides its origin lives
    no longer than the jobs that were there when it appeared.
    """

    def __init__(self) -> None:
        self._candidates: dict[int, set[str]] = {}
        self._killed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._candidates)

    def refresh(self, orphans: set[int], marks: Collection[str]) -> None:
        for gone in self._candidates.keys() - orphans:
            del self._candidates[gone]
            self._killed.discard(gone)
        for pid in orphans - self._candidates.keys():
            mark = process_tree.mark_of(pid)
            self._candidates[pid] = {mark} if mark is not None and mark in marks else set(marks)

    def of(self, mark: str) -> list[int]:
        """Those that certainly belong to a ward."""
        return [pid for pid, marks in self._candidates.items() if marks == {mark}]

    def left_by(self, mark: str, running: Collection[str]) -> list[int]:
        """Those a ward may have left, and no running ward may claim."""
        return [
            pid
            for pid, marks in self._candidates.items()
            if (mark in marks or not marks) and marks.isdisjoint(running)
        ]

    def is_new(self, pid: int) -> bool:
        """Whether this is the first time it is about to be killed."""
        known = pid in self._killed
        self._killed.add(pid)
        return not known

    def forget(self, mark: str) -> None:
        for marks in self._candidates.values():
            marks.discard(mark)
