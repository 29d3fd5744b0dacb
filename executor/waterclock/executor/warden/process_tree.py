"""Which process descends from which, read from /proc; and which job an orphan belongs to.

Every process of a job has a marker in its environment: the incarnation of its warden and the number of the job's
process. Its descendants inherit it.
"""

import os
from collections.abc import Collection, Iterable

MARKER_VARIABLE = "WATERCLOCK_WARD"
"""The environment variable that holds the marker. Its name is older than the rest of the vocabulary."""

_READ_BYTES = 64 * 1024
_DEAD_STATES = (b"Z", b"X")
_CHILDREN = f"/proc/self/task/{os.getpid()}/children"


def children() -> set[int]:
    """Our direct children, zombies included: the processes we started and the orphans that came to us."""
    try:
        file = os.open(_CHILDREN, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        me = os.getpid()
        return {pid for pid, (parent, _) in _table().items() if parent == me}
    try:
        text = os.read(file, _READ_BYTES)
        while more := os.read(file, _READ_BYTES):
            text += more
    finally:
        os.close(file)
    return {int(pid) for pid in text.split()}


def namespace() -> str:
    """The pid namespace in which our pids are unique."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def incarnation() -> str:
    """Names this process and no other, also when its pid is used again."""
    return f"{namespace()}.{os.getpid()}.{start_time(os.getpid())}"


def start_time(pid: int) -> int | None:
    """In ticks since the machine started; None if there is no such process or it is a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in _DEAD_STATES else int(fields[19])


def ancestors() -> list[int]:
    """Our parent, its parent, and so on."""
    found = []
    fields = _stat(os.getpid())
    while fields is not None and (parent := int(fields[1])):
        found.append(parent)
        fields = _stat(parent)
    return found


def marker_of(pid: int) -> str | None:
    """The marker in the environment of a process; None if it has none or cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return None
    prefix = MARKER_VARIABLE.encode() + b"="
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
    """The fields from the state on. The name before it may contain anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


class Orphans:
    """The orphans that the warden has adopted, each with the markers of the job processes it may belong to.

    That is one if its environment says so, else all that ran when it appeared. An orphan is killed when every process
    it may belong to has ended. So a daemon that hides its origin lives no longer than the jobs that ran with it.
    """

    def __init__(self) -> None:
        self._candidates: dict[int, set[str]] = {}
        self._killed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._candidates)

    def refresh(self, orphans: set[int], markers: Collection[str]) -> None:
        for gone in self._candidates.keys() - orphans:
            del self._candidates[gone]
            self._killed.discard(gone)
        for pid in orphans - self._candidates.keys():
            marker = marker_of(pid)
            self._candidates[pid] = {marker} if marker is not None and marker in markers else set(markers)

    def of(self, marker: str) -> list[int]:
        """Those that certainly belong to a job process."""
        return [pid for pid, markers in self._candidates.items() if markers == {marker}]

    def left_by(self, marker: str, running: Collection[str]) -> list[int]:
        """Those that a job process may have left, and that belong to none that is running."""
        return [
            pid
            for pid, markers in self._candidates.items()
            if (marker in markers or not markers) and markers.isdisjoint(running)
        ]

    def first_kill(self, pid: int) -> bool:
        """Whether this is the first time it is about to be killed."""
        known = pid in self._killed
        self._killed.add(pid)
        return not known

    def forget(self, marker: str) -> None:
        for markers in self._candidates.values():
            markers.discard(marker)
