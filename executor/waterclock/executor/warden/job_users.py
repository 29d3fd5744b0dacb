"""Users that jobs run as where the executor is root: an id of its own for each working directory, so that a job can
neither read nor signal nor inspect another, nor us.

The ids lie where neither systemd nor shadow's subordinate ids hand any out. Executors on one machine keep out of each
other's way by taking a block each: whoever holds a socket of that name holds the block, and it is let go by itself.
"""

import socket
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

_RANGES = (range(65_536, 100_000), range(60_578, 61_184))
"""The second, for a container to which only 65,536 ids were given."""
_BLOCK = 512
_held: list[socket.socket] = []


class JobUsers:
    """Users with their groups, in turn: one that was just used comes last."""

    def __init__(self, users: Sequence[tuple[int, int]]) -> None:
        self._users = cycle(users)

    def take(self) -> tuple[int, int]:
        return next(self._users)


def reserve_job_users() -> JobUsers | None:
    """Those of a block that no other executor has; None if there is none, as in a container with few ids."""
    for ids in _RANGES:
        for start in range(ids.start, ids.stop, _BLOCK):
            block = range(start, min(start + _BLOCK, ids.stop))
            if _are_mapped(block) and _reserve(block):
                return JobUsers([(user, user) for user in block])
    return None


def _reserve(block: range) -> bool:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind(f"\0waterclock-job-users-{block.start}")
    except OSError:
        holder.close()
        return False
    _held.append(holder)  # for as long as this process lives: what its jobs left may live as long
    return True


def _are_mapped(block: range) -> bool:
    for name in ("uid_map", "gid_map"):
        spans = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        if not any(
            int(start) <= block.start and block.stop <= int(start) + int(size) for start, _, size in spans
        ):
            return False
    return True
