"""Unpacking what users upload: nothing gets out of its directory, nothing fills memory or disk.

Each part of a member's path is opened by itself and never through a link, so that no order of links and files leads
elsewhere; whatever `tarfile` and its filters think of a path does not count. Links may only point inside.
"""

import codecs
import importlib
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath
from typing import IO, Protocol

MAX_UNPACKED_BYTES = 4 * 1024 * 1024 * 1024
MAX_UNPACKED_FILES = 100_000
MAX_HEADER_BYTES = 1024 * 1024
_COPY_BYTES = 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Now: whoever unpacks cannot read our own files any more.
for _module in ("bz2", "gzip", "lzma", "zlib", "compression.zstd"):
    with suppress(ImportError):
        importlib.import_module(_module)
for _encoding in ("cp437", "utf-8", "latin-1", "ascii"):
    codecs.lookup(_encoding)


class BadArchive(Exception):
    """It cannot be unpacked, or must not be. Trying again will not help."""


class Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


def unpack(archive: IO[bytes], into: int) -> None:
    """A tar (also compressed) or zip file, into an open directory. Raises BadArchive; what was unpacked until then is
    left for the caller."""
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, _Target(into))
        else:
            archive.seek(0)
            _unpack_tar(archive, _Target(into))
    except MemoryError:
        raise BadArchive("it needs too much memory to be unpacked") from None
    except (
        ArithmeticError,
        EOFError,
        LookupError,
        NotImplementedError,
        OSError,
        RecursionError,
        RuntimeError,
        ValueError,
        tarfile.TarError,
        zipfile.BadZipFile,
    ) as error:
        raise BadArchive(f"cannot unpack it: {error}") from error


class _BoundedHeader(tarfile.TarInfo):
    """A header that goes before another, for long names and the like, is read into memory whole: up to here."""

    def _proc_pax(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._check()
        found: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc]
        return found

    def _proc_gnulong(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._check()
        found: tarfile.TarInfo = super()._proc_gnulong(archive)  # type: ignore[misc]
        return found

    def _check(self) -> None:
        if self.size > MAX_HEADER_BYTES:
            raise BadArchive(f"a header of {self.size} bytes; at most {MAX_HEADER_BYTES} are taken")


def _unpack_tar(archive: IO[bytes], target: "_Target") -> None:
    with tarfile.open(fileobj=archive, mode="r:*", tarinfo=_BoundedHeader) as tar:
        while (member := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # or it would keep them all
            path = _path_inside(member.name.lstrip("/"), member.name)
            if member.isdir():
                target.make_directory(path)
            elif member.isfile():
                content = tar.extractfile(member)
                assert content is not None
                target.write(path, content, member.size, member.mode)
            elif member.issym():
                target.link(path, member.linkname)
            elif member.islnk():
                target.copy(path, _path_inside(member.linkname, member.linkname))
            else:
                raise BadArchive(f"{member.name} is neither a file nor a directory nor a link")


def _unpack_zip(archive: IO[bytes], target: "_Target") -> None:
    with zipfile.ZipFile(archive) as bundle:
        for member in bundle.infolist():
            path = _path_inside(member.filename.replace("\\", "/"), member.filename)
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise BadArchive(f"{member.filename} is neither a file nor a directory")
            if member.is_dir():
                target.make_directory(path)
                continue
            with bundle.open(member) as content:
                target.write(path, content, 0, mode)


def _path_inside(name: str, shown: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise BadArchive(f"{shown[:200]} would lie outside of its directory")
    return path.parts


class _Target:
    """A directory that is written to, and nothing else is. Counts what really comes out: a header may lie."""

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._bytes = MAX_UNPACKED_BYTES
        self._files = MAX_UNPACKED_FILES

    def make_directory(self, path: tuple[str, ...]) -> None:
        self._spend(0)
        os.close(self._open(path))

    def write(self, path: tuple[str, ...], content: Readable, size: int, mode: int) -> None:
        """`size`: what is known of it; a member without data of its own may have it filled up with zeros."""
        self._spend(0)
        if size > self._bytes:
            self._spend(size)
        parent, name = self._parent(path)
        try:
            _remove(parent, name)
            allowed = 0o700 if mode & 0o111 else 0o600
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(name, flags, allowed, dir_fd=parent), "wb") as file:
                while piece := content.read(_COPY_BYTES):
                    self._spend(len(piece), files=0)
                    file.write(piece)
        finally:
            os.close(parent)

    def link(self, path: tuple[str, ...], to: str) -> None:
        """A symbolic link. It may go up first and down then: so it cannot lead out, whatever links are on its way."""
        self._spend(0)
        parts = PurePosixPath(to).parts
        down = [part for part in parts if part != ".."]
        up = len(parts) - len(down)
        if not to or to.startswith("/") or list(parts[up:]) != down or up > len(path) - 1 or "\0" in to:
            raise BadArchive(f"the link {'/'.join(path)[:200]!r} leads out of its directory")
        parent, name = self._parent(path)
        try:
            _remove(parent, name)
            os.symlink(to, name, dir_fd=parent)
        finally:
            os.close(parent)

    def copy(self, path: tuple[str, ...], of: tuple[str, ...]) -> None:
        """What is a second name of a file in the archive is a copy here."""
        parent, name = self._parent(of)
        try:
            source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        finally:
            os.close(parent)
        with open(source, "rb") as content:
            found = os.fstat(source)
            if not stat.S_ISREG(found.st_mode):
                raise BadArchive(f"the link {'/'.join(path)[:200]!r} leads to no file")
            self.write(path, content, found.st_size, found.st_mode)

    def _parent(self, path: tuple[str, ...]) -> tuple[int, str]:
        if not path:
            raise BadArchive("a file without a name")
        return self._open(path[:-1]), path[-1]

    def _open(self, parts: Iterable[str]) -> int:
        """A directory inside, made if it is not there; never through a link."""
        at = os.dup(self._directory)
        for part in parts:
            try:
                try:
                    inner = os.open(part, _DIRECTORY, dir_fd=at)
                except FileNotFoundError:
                    self._spend(0)
                    os.mkdir(part, 0o700, dir_fd=at)
                    inner = os.open(part, _DIRECTORY, dir_fd=at)
            finally:
                os.close(at)
            at = inner
        return at

    def _spend(self, size: int, files: int = 1) -> None:
        self._bytes -= size
        self._files -= files
        if self._bytes < 0:
            raise BadArchive(f"more than {MAX_UNPACKED_BYTES} bytes unpacked")
        if self._files < 0:
            raise BadArchive(f"more than {MAX_UNPACKED_FILES} files")


def _remove(parent: int, name: str) -> None:
    """The last of several members of one name counts, as with tar."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
