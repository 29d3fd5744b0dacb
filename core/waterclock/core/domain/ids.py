"""Ids: made as pure functions of what they name, and read again.

A run is `<job>@<scheduled time>` or `<job>@now-<command>`; a node's run `<workflow run>~<node>`, a fan-out member's
`<run>~<index>`.
"""

from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b

from waterclock.core.domain.instants import SECOND

DEFAULT_NAMESPACE = "default"
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def run_id(job_id: str, scheduled: int) -> str:
    """The one run of a job at a scheduled instant, whatever the definition's version."""
    seconds, micros = divmod(scheduled, SECOND)
    return f"{job_id}@{_stamp(seconds)}{micros:06d}Z" if micros else f"{job_id}@{_stamp(seconds)}Z"


def scheduled_of(run_id: str) -> int | None:
    """The scheduled instant a run's id names; None if it names a command."""
    stamp = run_id.partition("@")[2].partition("~")[0]
    if len(stamp) not in (16, 22) or not stamp.endswith("Z"):
        return None
    try:
        seconds = _seconds(stamp[:15])
        return seconds * SECOND + (int(stamp[15:21]) if len(stamp) == 22 else 0)
    except ValueError:
        return None


def requested_run_id(job_id: str, command_id: str) -> str:
    """A run somebody asked for: the same command, repeated, names the same run."""
    return f"{job_id}@now-{command_id}"


def job_of(run_id: str) -> str:
    return run_id.partition("@")[0]


def namespace_of(job_or_run_id: str) -> str:
    """In the log an id carries its namespace: `acme=backup`, plain `backup` in the default one."""
    namespace, equals, _ = job_or_run_id.partition("@")[0].partition("=")
    return namespace if equals else DEFAULT_NAMESPACE


def part_path(run_id: str) -> list[str]:
    """What a run is within the one it is part of: `[node]`, `[index]` or `[node, index]`; nothing for a whole run."""
    return run_id.partition("@")[2].split("~")[1:]


def node_run(workflow_run: str, node: str) -> str:
    return f"{workflow_run}~{node}"


def node_of(run_id: str) -> str:
    return run_id.rpartition("~")[2]


def member_run(run_id: str, index: int, attempt: int = 1) -> str:
    """A member of a fan-out. One that is expanded again has members of its own."""
    return f"{run_id}~{index}" if attempt == 1 else f"{run_id}~{index}-{attempt}"


def member_index(run_id: str) -> int:
    return int(run_id.rpartition("~")[2].partition("-")[0])


def member_attempt(run_id: str) -> int:
    """Which attempt of its fan-out a member belongs to."""
    return int(run_id.rpartition("~")[2].partition("-")[2] or 1)


def timed_id(now: int, entropy: int) -> str:
    """20 characters: milliseconds since the epoch, then 50 bits the caller drew."""
    return _base32((now // 1000) & (1 << 50) - 1, 10) + _base32(entropy & (1 << 50) - 1, 10)


def keyed_id(namespace: str, key: str) -> str:
    """The id a job gets from its idempotency key."""
    digest = blake2b(f"{namespace}\0{key}".encode(), digest_size=13).digest()
    return "k" + _base32(int.from_bytes(digest) >> 9, 19)


def fraction(*parts: object) -> float:
    """A number in [0, 1) that is a pure function of its arguments: jitter that a replay repeats."""
    digest = blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / (1 << 53)


@lru_cache(maxsize=4096)
def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%S")


@lru_cache(maxsize=4096)
def _seconds(stamp: str) -> int:
    return int(datetime.strptime(stamp, "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp())


def _base32(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        digits.append(_ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(digits))
