"""Who descends from whom, read from /proc.

Orphans that came to the warden, and whose they are.
"""

import os
from collections.abc import Collection, Iterable

MARK = "WATERCLOCK_WARD"
"""The environment variable that names the ward of a process, however far it has wandered."""

_MUCH = 64 * 1024
_REMAINS = (b"Z", b"X")
_CHILDREN = f"/proc/self/task/{os.getpid()}/children"


def children() -> set[int]:
    """Our direct children, zombies included: the processes we started and the orphans that came to us."""
    try:
        file = os.open(_CHILDREN, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        me = os.getpid()
        return {pid for pid, (parent, _) in _table().items() if parent == me}
    try:
        text = os.read(file, _MUCH)
        while more := os.read(file, _MUCH):
            text += more
    finally:
        os.close(file)
    return {int(pid) for pid in text.split()}


def namespace() -> str:
    """The space in which our pids are unique."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def incarnation() -> str:
    """This process and no other, also when its pid is used again."""
    return f"{namespace()}.{os.getpid()}.{start_time(os.getpid())}"


def start_time(pid: int) -> int | None:
    """In ticks since the machine started; None if there is no such process, or only its remains."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in _REMAINS else int(fields[19])


def ancestors() -> list[int]:
    """Our parent, its parent, and so on."""
    found = []
    fields = _stat(os.getpid())
    while fields is not None and (parent := int(fields[1])):
        found.append(parent)
        fields = _stat(parent)
    return found


def mark_of(pid: int) -> str | None:
    """The ward written in the environment of a process; None if it cannot be told."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return None
    prefix = MARK.encode() + b"="
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def family(pid: int, orphans: Iterable[int] = ()) -> list[int]:
    """A process, its session, its orphans, and all their descendants."""
    table = _table()
    found = {pid, *orphans} | {other for other, (_, session) in table.items() if session == pid}
    offspring: dict[int, list[int]] = {}
    for other, (parent, _) in table.items():
        offspring.setdefault(parent, []).append(other)
    queue = list(found)
    while queue:
        for child in offspring.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return [member for member in found if member in table]


def _table() -> dict[int, tuple[int, int]]:
    """Parent and session of every process."""
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        fields = _stat(int(name))
        if fields is not None:
            table[int(name)] = int(fields[1]), int(fields[3])
    return table


def _stat(pid: int) -> list[bytes] | None:
    """From the state on: the name before it may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


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
            mark = mark_of(pid)
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
