"""Which member owns which partition: rendezvous hashing, so that a change moves only what it must."""

from collections.abc import Iterable
from hashlib import blake2b


def owner_of(partition: int, members: Iterable[str]) -> str | None:
    return max(members, key=lambda member: _weight(member, partition), default=None)


def assigned(instance: str, members: Iterable[str], partitions: int) -> set[int]:
    everyone = sorted(members)
    return {partition for partition in range(partitions) if owner_of(partition, everyone) == instance}


def _weight(member: str, partition: int) -> bytes:
    return blake2b(f"{member}/{partition}".encode(), digest_size=8).digest()
