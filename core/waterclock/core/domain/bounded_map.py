"""The newest of many, for as long as there is room."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """Keeps at least the last `room` entries and at most twice as many.

    Two generations: when the young one is full it becomes the old one, and what was old is forgotten. Removing the
    oldest of a dict one by one would look at all that was removed before, each time.
    """

    __slots__ = ("_old", "_room", "_young")

    def __init__(self, room: int) -> None:
        self._room = room
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __setitem__(self, key: K, value: V) -> None:
        young = self._young
        if len(young) >= self._room:
            self._old = young
            young = self._young = {}
        young[key] = value

    def forget(self, key: K) -> None:
        self._young.pop(key, None)
        self._old.pop(key, None)

    def get(self, key: K) -> V | None:
        value = self._young.get(key)
        return self._old.get(key) if value is None else value
