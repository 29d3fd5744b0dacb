"""Uploaded artifacts: programs, scripts, JARs, and archives with a program inside.

Archives are unpacked so that nothing in them gets out of its directory or fills the disk.
"""

import asyncio
import secrets
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from waterclock.core.store.store import StoreError
from waterclock.executor.attempt_record import Attempt, Failed, Result
from waterclock.executor.in_flight import RunningAttempt
from waterclock.executor.perform.artifact_cache import ArtifactCache, NoSuchArtifact
from waterclock.executor.perform.process import ProcessPerformer
from waterclock.proto.spec import Artifact

MAX_UNPACKED_BYTES = 4 * 1024 * 1024 * 1024
MAX_UNPACKED_FILES = 100_000
_COPY_BYTES = 1024 * 1024
_ELF = b"\x7fELF"
_SHEBANG = b"#!"
_ZIP = b"PK\x03\x04"
_JAR_ENTRY = "META-INF/MANIFEST.MF"


class BadArchive(Exception):
    """It cannot be unpacked, or must not be. Trying again will not help."""


class ArtifactPerformer:
    def __init__(self, process: ProcessPerformer, cache: ArtifactCache, root: Path) -> None:
        self._process = process
        self._cache = cache
        self._root = root

    async def perform(self, attempt: Attempt, running: RunningAttempt) -> Result:
        task = attempt.item.spec.task
        assert isinstance(task, Artifact)
        running.cancel_task_on_stop()
        try:
            async with self._cache.fetched(task.artifact) as file:
                if task.entry is None:
                    argv = (*argv_for(file), *task.args)
                    return await self._process.run(attempt, running, argv, task.env)
                return await self._run_inside(attempt, running, task, file, task.entry)
        except asyncio.CancelledError:
            return running.result_of_cancel()
        except (NoSuchArtifact, BadArchive) as error:
            return Failed(reason=str(error), error=type(error).__name__, final=True)
        except StoreError as error:
            return Failed(reason=str(error), error=type(error).__name__)

    async def _run_inside(
        self, attempt: Attempt, running: RunningAttempt, task: Artifact, archive: Path, entry: str
    ) -> Result:
        """Each attempt unpacks a copy of its own to run in, which it may change."""
        directory = self._root / f"unpacked-{secrets.token_hex(8)}"
        directory.mkdir(mode=0o700)
        try:
            await asyncio.to_thread(unpack, archive, directory)
            argv = (*argv_for(_entry_file(directory, entry)), *task.args)
            return await self._process.run(attempt, running, argv, task.env, str(directory))
        finally:
            await asyncio.to_thread(shutil.rmtree, directory, True)


def argv_for(file: Path) -> tuple[str, ...]:
    """How to start a file. Its first bytes decide, not its name or mode."""
    with file.open("rb") as content:
        head = content.read(4)
    if head.startswith((_ELF, _SHEBANG)):
        return (str(file),)
    if head == _ZIP:
        return (*_argv_for_zip(file), str(file))
    return ("/bin/sh", str(file))


def _argv_for_zip(file: Path) -> tuple[str, ...]:
    with zipfile.ZipFile(file) as bundle:
        names = set(bundle.namelist())
    if _JAR_ENTRY in names:
        if shutil.which("java") is None:
            raise NoSuchArtifact("it is a JAR, and this executor has no java")
        return ("java", "-jar")
    if "__main__.py" in names:
        return ("python3",)
    raise BadArchive("an archive needs `entry`, the program inside it to run")


def _entry_file(directory: Path, entry: str) -> Path:
    file = (directory / entry).resolve()
    if not file.is_relative_to(directory.resolve()) or not file.is_file():
        raise BadArchive(f"no {entry} in the archive")
    file.chmod(0o700)
    return file


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
