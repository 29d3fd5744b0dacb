"""Lines of artifacts, for fan-outs over a file: read on as they are needed, never the whole file at once."""

from collections.abc import AsyncIterator

from waterclock.core.domain.partition.decisions import LinesNeeded
from waterclock.core.store.store import Missing, Store
from waterclock.scheduler.ports import UnreadableLines

LONGEST = 64 * 1024
"""Bytes of one line."""


class StoredLines:
    """Where each fan-out is in its file. A reader that is asked for an earlier line begins anew."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers: dict[str, _Reader] = {}

    async def read(self, run_id: str, needed: LinesNeeded) -> tuple[list[str], int]:
        try:
            total = 0 if needed.counted else await self._count(needed.artifact)
            reader = self._readers.get(run_id)
            if reader is None or reader.position > needed.start:
                reader = self._readers[run_id] = _Reader(self._store.get(needed.artifact))
            lines = await reader.read(needed.start, needed.count)
        except Missing as error:
            raise UnreadableLines(f"{needed.artifact} is not in the store") from error
        if len(lines) < needed.count:
            del self._readers[run_id]
        return lines, total

    async def _count(self, artifact: str) -> int:
        count, last = 0, b"\n"
        async for piece in self._store.get(artifact):
            count += piece.count(b"\n")
            last = piece[-1:] or last
        return count + (last != b"\n")


class _Reader:
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""
        self._lines: list[bytes] = []
        self._over = False
        self.position = 0

    async def read(self, start: int, count: int) -> list[str]:
        while self.position < start and (skipped := await self._take(start - self.position)):
            self.position += len(skipped)
        found = await self._take(count)
        self.position += len(found)
        try:
            return [line.decode() for line in found]
        except UnicodeDecodeError:
            raise UnreadableLines("the file is not text in UTF-8") from None

    async def _take(self, most: int) -> list[bytes]:
        while len(self._lines) < most and not self._over:
            try:
                piece = await anext(self._pieces)
            except StopAsyncIteration:
                self._over = True
                if self._rest:
                    self._lines.append(self._rest)
                break
            *whole, self._rest = (self._rest + piece).split(b"\n")
            if len(self._rest) > LONGEST:
                raise UnreadableLines(f"a line is longer than {LONGEST} bytes")
            self._lines += (line.removesuffix(b"\r") for line in whole)
        taken, self._lines = self._lines[:most], self._lines[most:]
        return taken
