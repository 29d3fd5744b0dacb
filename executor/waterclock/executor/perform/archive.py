"""Unpacking what users upload: nothing gets out of its directory, and nothing fills the disk."""

import stat
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

MAX_UNPACKED_BYTES = 4 * 1024 * 1024 * 1024
MAX_UNPACKED_FILES = 100_000
_COPY_BYTES = 1024 * 1024


class BadArchive(Exception):
    """It cannot be unpacked, or must not be. Trying again will not help."""


def unpack(archive: Path, into: Path) -> None:
    """A tar (also compressed) or zip file. Raises BadArchive; what was unpacked until then is left for the caller."""
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, into)
        else:
            _unpack_tar(archive, into)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise BadArchive(f"cannot unpack it: {error}") from error


def _unpack_tar(archive: Path, into: Path) -> None:
    budget = _Budget()
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            budget.spend(member.size)
            tar.extract(member, into, filter="data")


def _unpack_zip(archive: Path, into: Path) -> None:
    budget = _Budget()
    with zipfile.ZipFile(archive) as bundle:
        for member in bundle.infolist():
            path = _path_inside(member.filename)
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise BadArchive(f"{member.filename} is neither a file nor a directory")
            if member.is_dir():
                (into / path).mkdir(parents=True, exist_ok=True)
                continue
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            with bundle.open(member) as source, (into / path).open("wb") as target:
                while piece := source.read(_COPY_BYTES):
                    budget.spend(len(piece), files=0)
                    target.write(piece)
            budget.spend(0)
            (into / path).chmod(0o700 if mode & 0o111 else 0o600)


def _path_inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise BadArchive(f"{name} would lie outside of its directory")
    return path


class _Budget:
    """Counts what really comes out: a header may lie, and a small file may hold a very large one."""

    def __init__(self) -> None:
        self._bytes = MAX_UNPACKED_BYTES
        self._files = MAX_UNPACKED_FILES

    def spend(self, size: int, files: int = 1) -> None:
        self._bytes -= size
        self._files -= files
        if self._bytes < 0:
            raise BadArchive(f"more than {MAX_UNPACKED_BYTES} bytes unpacked")
        if self._files < 0:
            raise BadArchive(f"more than {MAX_UNPACKED_FILES} files")
