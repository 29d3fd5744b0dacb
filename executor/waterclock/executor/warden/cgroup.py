"""A memory limit for all jobs of an executor together, by a cgroup (version 2) of the warden's own.

It can be had as root on a machine that uses version 2, and by a user to whom the part of the tree is delegated, as with
`Delegate=yes` in a systemd unit. The kernel kills the largest process in it when it is full; that is a job's.
"""

import os
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OURS = "waterclock-service"


def limit_memory(limit: int) -> str:
    """Returns nothing, or why there is no limit."""
    if not limit:
        return "no limit is set"
    try:
        here = _own()
        if here is None:
            return "this machine has no cgroups of version 2"
        jobs = here / f"waterclock-jobs-{os.getpid()}"
        if "memory" not in (here / "cgroup.subtree_control").read_text().split():
            if "memory" not in (here / "cgroup.controllers").read_text().split():
                return "the memory controller is not available to this cgroup"
            if not _is_delegated(here):
                return "this cgroup is not ours to divide (systemd: Delegate=yes)"
            _move_down(here)
            (here / "cgroup.subtree_control").write_text("+memory")
        jobs.mkdir()
        (jobs / "memory.max").write_text(str(limit))
        (jobs / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        return f"no cgroup can be made: {error.strerror or error}"
    return ""


def remove_empty() -> None:
    """Cgroups of wardens that are gone. One with a process in it cannot be removed."""
    try:
        here = _own()
        for old in [] if here is None else here.glob("waterclock-jobs-*"):
            try:
                old.rmdir()
            except OSError:
                pass
    except OSError:
        pass


def _own() -> Path | None:
    """Our place in the tree of version 2, if it is the one in use."""
    if not (_ROOT / "cgroup.controllers").exists():
        return None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            here = _ROOT / line[3:].strip().lstrip("/")
            return (
                here.parent if here.name == _OURS else here
            )  # another executor of this service has moved us down
    return None


def _is_delegated(here: Path) -> bool:
    """Whether systemd has left this part of the tree to the service that runs in it."""
    for name in ("trusted.delegate", "user.delegate"):
        try:
            if os.getxattr(here, name) == b"1":
                return True
        except OSError:
            pass
    return False


def _move_down(here: Path) -> None:
    """A cgroup that passes a controller on may hold no process itself: those that are in ours move one down."""
    inner = here / _OURS
    inner.mkdir(exist_ok=True)
    for pid in (here / "cgroup.procs").read_text().split():
        try:
            (inner / "cgroup.procs").write_text(pid)
        except OSError:
            pass
