"""CPU seconds and memory of processes, their descendants included, as the kernel counts them."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

MACHINE = "machine"

Account = dict[str, float]
"""CPU seconds by role."""


def tree(pid: int) -> list[int]:
    """A process and all its living descendants."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    except OSError:
        pass
    return found


def cpu_seconds(pid: int) -> float:
    """Of the tree so far. A descendant that has ended is in the count of whoever waited for it."""
    return sum(_ticks(each) for each in tree(pid)) / _TICK


def own_seconds(pid: int) -> float:
    """Of a process alone, without its children."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICK if fields else 0.0


def resident_mb(pid: int) -> float:
    """Of one process. Not of its tree: Postgres's backends share most of theirs."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * _PAGE / 1e6


def peak_mb(pid: int) -> float:
    """The most that one process ever had in memory."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
    return 0.0 if found is None else int(found.split()[1]) * 1024 / 1e6


def take(pids: Mapping[str, Iterable[int]]) -> Account:
    """CPU seconds of each role's processes, of this one, and of the whole machine."""
    account = {role: sum(cpu_seconds(pid) for pid in each) for role, each in pids.items()}
    times = os.times()
    return account | {"client": times.user + times.system, MACHINE: machine_seconds()}


def per_thousand(before: Account, after: Account, jobs: int) -> Account:
    """CPU seconds for 1,000 jobs by role, with their sum; `others` is what the rest of the machine did meanwhile."""
    spent = {role: max(0.0, after[role] - before.get(role, 0.0)) * 1000 / jobs for role in after}
    machine = spent.pop(MACHINE, None)
    total = sum(spent.values())
    spent["total"] = total
    if machine is not None:
        spent["others"] = max(0.0, machine - total)
    return {role: round(seconds, 4) for role, seconds in spent.items()}


def machine_seconds() -> float:
    """All cores: user, nice, system, and the time a hypervisor took away; not idle, not waiting for a disk."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft, stolen = fields[:8]
    return (user + nice + system + interrupts + soft + stolen) / _TICK


def disk_mb(directory: Path) -> float:
    """What the files below it take."""
    total = 0
    for root, _, files in os.walk(directory):
        for file in files:
            with suppress(OSError):
                total += (Path(root) / file).stat().st_blocks * 512
    return round(total / 1e6, 1)


def _ticks(pid: int) -> int:
    """User and system time, with that of children waited for."""
    fields = _stat(pid)
    return sum(int(field) for field in fields[11:15]) if fields else 0


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
