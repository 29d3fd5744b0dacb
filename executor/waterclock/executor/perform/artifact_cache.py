"""Artifacts on the executor's disk: fetched once, verified, and dropped when others need the room."""

import asyncio
import fcntl
import hashlib
import os
import re
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from waterclock.core.store.store import Missing, Store

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class NoSuchArtifact(Exception):
    """It was never uploaded, or is not what it should be. Trying again will not help."""


class ArtifactCache:
    """Several executors may share a directory: a file in use is locked, and only unlocked ones are dropped."""

    def __init__(self, store: Store, directory: Path, limit: int) -> None:
        self._store = store
        self._directory = directory
        self._limit = limit
        self._fetching: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._verified: dict[str, tuple[int, int, int]] = {}

    @asynccontextmanager
    async def fetched(self, artifact: str) -> AsyncIterator[Path]:
        """The artifact as a file that stays for the duration. Raises NoSuchArtifact or StoreError."""
        if _DIGEST.fullmatch(artifact) is None:
            raise NoSuchArtifact(f"{artifact} is not like sha256:… with 64 hexadecimal digits")
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o711)
        file = self._directory / artifact.removeprefix("sha256:")
        async with self._fetching[artifact]:
            while (lock := await self._lock(file)) is None:
                await self._fetch(artifact, file)
        try:
            yield file
        finally:
            os.close(lock)

    async def _lock(self, file: Path) -> int | None:
        """Keep the file from being dropped, if it is there: by us or by another executor."""
        if not await self._is_there(file):
            return None
        try:
            lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        fcntl.flock(lock, fcntl.LOCK_SH)
        if os.fstat(lock).st_nlink:
            return lock
        os.close(lock)  # dropped just before
        return None

    async def _is_there(self, file: Path) -> bool:
        """Whether the file is there and is what its name says. Unchanged since it was verified is good enough."""
        try:
            seen = _fingerprint(file)
        except FileNotFoundError:
            return False
        if self._verified.get(file.name) != seen and not await asyncio.to_thread(_is_intact, file):
            return False
        os.utime(file)
        self._verified[file.name] = _fingerprint(file)
        return True

    async def _fetch(self, artifact: str, file: Path) -> None:
        size = await self._store.size(artifact)
        if size is None:
            raise NoSuchArtifact(f"{artifact} is not in the store")
        await asyncio.to_thread(self._make_room, size)
        partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        digest = hashlib.sha256()
        try:
            with partial.open("wb") as target:
                async for piece in self._store.get(artifact):
                    digest.update(piece)
                    target.write(piece)
            if digest.hexdigest() != file.name:
                raise NoSuchArtifact(f"{artifact} has the digest {digest.hexdigest()} in the store")
            partial.chmod(0o555)
            partial.rename(file)
        except Missing as error:
            raise NoSuchArtifact(f"{artifact} is not in the store") from error
        finally:
            partial.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        """Drop the files not used for longest until the new one fits, or nothing more can be dropped."""
        files = sorted(
            (entry for entry in self._directory.iterdir() if not entry.name.startswith(".")), key=_last_use
        )
        total = sum(_size(entry) for entry in files)
        for file in files:
            if total + size <= self._limit:
                return
            with _locked_exclusively(file) as alone:
                if alone:
                    total -= _size(file)
                    file.unlink(missing_ok=True)
                    self._verified.pop(file.name, None)


def _fingerprint(file: Path) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_intact(file: Path) -> bool:
    """Whether the content is what the name says; if not, it is removed."""
    with file.open("rb") as content:
        intact = hashlib.file_digest(content, "sha256").hexdigest() == file.name
    if not intact:
        file.unlink(missing_ok=True)
    return intact


@contextmanager
def _locked_exclusively(file: Path) -> Iterator[bool]:
    try:
        lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def _last_use(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
