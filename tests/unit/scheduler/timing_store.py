"""The keys of a timing index in a dict."""

from collections.abc import Mapping
from fnmatch import fnmatchcase


class TimingKeys:
    def __init__(self, keys: dict[str, bytes], writer: str) -> None:
        self.writer = writer
        self._keys = keys

    async def scan(self, pattern: str) -> list[tuple[str, bytes]]:
        return [each for each in self._keys.items() if fnmatchcase(each[0], pattern)]

    async def some(self, pattern: str) -> list[tuple[str, bytes]]:
        return (await self.scan(pattern))[:2]

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self._keys.pop(key, None)
            else:
                self._keys[key] = value

    async def remove_hot(self, void: Mapping[str, int]) -> None:
        raise NotImplementedError

    async def purge(self, *patterns: str) -> None:
        for pattern in patterns:
            for key, _ in await self.scan(pattern):
                del self._keys[key]
