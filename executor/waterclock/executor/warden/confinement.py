"""What stands between jobs and this machine. Everything here is done once, when the warden starts, and inherited by all
that it starts, so that no job waits for it.

- A mount namespace of its own, in which the data directory is empty and files with secrets are, too; the artifacts are
  there to read at a place of their own. As root directly, else in a user namespace that maps nobody but the current
  user. From inside of that no process outside can be inspected either, whoever owns it.
- Limits on processes and on the size of files: a default, and a maximum up to which a job may ask for more.
- A memory limit for all jobs together where a cgroup can be made; and jobs are the first to go when memory is short.

Each of these may be refused by the machine. Then jobs run without it, and what is missing is reported with the reason.
"""

import ctypes
import os
import resource
from collections.abc import Callable

from msgspec import Struct

from waterclock.executor.warden import cgroup, landlock

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 32, 4096, 16384, 1 << 19
_PR_SET_DUMPABLE = 4
_OOM_SCORE = "500"
"""Added to the share of memory, in thousandths: a job goes before a server that uses half of what there is."""

DATA = "data_directory"
INSPECTION = "inspection"
USERS = "job_users"
PROCESSES = "processes"
FILE_SIZE = "file_size"
MEMORY = "memory"
ARTIFACTS = "artifacts"
ARCHIVES = "archives"

_libc = ctypes.CDLL(None, use_errno=True)


class Confinement(Struct, frozen=True, kw_only=True):
    """What is wanted. `hidden` are files and directories; `artifacts` is shown, read-only, at `artifacts_at`."""

    hidden: list[str] = []
    artifacts: str = ""
    artifacts_at: str = ""
    processes: int = 0
    processes_max: int = 0
    file_bytes: int = 0
    file_bytes_max: int = 0
    memory_bytes: int = 0


def confine(wanted: Confinement) -> dict[str, str]:
    """Put it into effect. Returns what was asked for: with nothing where it holds, else with why it does not."""
    found = dict.fromkeys((DATA, ARTIFACTS, INSPECTION, PROCESSES, FILE_SIZE, MEMORY), "")
    try:
        _enter_namespaces(os.getuid(), os.getgid())
    except OSError as error:
        found[DATA] = found[ARTIFACTS] = f"no mount namespace: {error.strerror or error}"
    else:
        found[ARTIFACTS] = _tried(
            _show_artifacts, wanted.artifacts, wanted.artifacts_at
        )  # they are in what is hidden
        found[DATA] = _tried(_hide, wanted.hidden)
    found[FILE_SIZE] = _tried(_limit, resource.RLIMIT_FSIZE, wanted.file_bytes, wanted.file_bytes_max)
    found[PROCESSES] = _tried(_limit_processes, wanted)
    _be_first_to_go()
    found[MEMORY] = cgroup.limit_memory(wanted.memory_bytes)
    found[ARCHIVES] = (
        "" if landlock.version() else "this kernel has no Landlock: only our own checks hold them"
    )
    return found


def close_to_inspection() -> None:
    """Neither memory nor environment nor open files of this process can be read by another of the same user."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _tried(step: Callable[..., None], *arguments: object) -> str:
    try:
        step(*arguments)
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


def _enter_namespaces(user: int, group: int) -> None:
    """What is mounted outside later on is seen inside too, but not the other way round."""
    if os.geteuid() == 0:
        _check(_libc.unshare(CLONE_NEWNS), "unshare")
        _mount(None, "/", None, MS_REC | MS_SLAVE)
        return
    _check(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _mount(None, "/", None, MS_REC | MS_SLAVE)


def _hide(paths: list[str]) -> None:
    """With an empty directory over each directory, and nothing over each file."""
    for path in paths:
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=0555")
        elif os.path.exists(path):
            _mount(os.devnull, path, None, MS_BIND)


def _show_artifacts(directory: str, at: str) -> None:
    if not directory:
        return
    os.makedirs(at, mode=0o711, exist_ok=True)
    _mount(directory, at, None, MS_BIND)
    kept = os.statvfs(at).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)  # not ours to take away
    _mount(None, at, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | kept)


def _limit(kind: int, usual: int, most: int) -> None:
    """A soft limit that a job may raise to the hard one; never more than we have ourselves."""
    if not usual:
        raise ValueError("no limit is set")
    _, hard = resource.getrlimit(kind)
    most = max(usual, most)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (min(usual, most), most))


def _limit_processes(wanted: Confinement) -> None:
    """The kernel counts those of a user: what we have already does not count for jobs of the same one."""
    if not wanted.processes:
        raise ValueError("no limit is set")
    there = _threads_of(os.getuid()) if os.geteuid() else 0
    _limit(resource.RLIMIT_NPROC, wanted.processes + there, wanted.processes_max + there)


def _threads_of(user: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                pass
    return count


def _be_first_to_go() -> None:
    try:
        _write("/proc/self/oom_score_adj", _OOM_SCORE)
    except OSError:
        pass


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    _check(
        _libc.mount(
            None if source is None else os.fsencode(source),
            os.fsencode(target),
            None if kind is None else kind.encode(),
            ctypes.c_ulong(flags),
            options.encode() or None,
        ),
        f"mount over {target}",
    )


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
