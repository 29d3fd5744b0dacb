"""Who descends from whom, read from /proc."""

import os
from collections.abc import Iterable

MARK = "WATERCLOCK_WARD"
"""The environment variable that names the ward of a process, however far it has wandered."""

_MUCH = 64 * 1024
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
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        table[int(name)] = int(fields[1]), int(fields[3])
    return table
