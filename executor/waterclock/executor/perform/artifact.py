"""Uploaded artifacts: programs, scripts, JARs, and archives with a program inside."""

import asyncio
import os
import shutil
import zipfile
from pathlib import Path

from waterclock.core.store.store import StoreError
from waterclock.executor.attempt_record import Attempt, Failed, Result
from waterclock.executor.in_flight import RunningAttempt
from waterclock.executor.perform.artifact_cache import ArtifactCache, NoSuchArtifact
from waterclock.executor.perform.process import ProcessPerformer
from waterclock.executor.warden.archive import BadArchive
from waterclock.executor.warden.client import CannotStart, WardenClient
from waterclock.executor.warden.confinement import ARTIFACTS
from waterclock.executor.warden.messages import Limits
from waterclock.proto.spec import Artifact

_ELF = b"\x7fELF"
_SHEBANG = b"#!"
_ZIP = b"PK\x03\x04"
_MAX_REASON_BYTES = 2_000
_MAX_DIRECTORY_BYTES = 16 * 1024 * 1024
_JAR_ENTRY = "META-INF/MANIFEST.MF"


class ArtifactPerformer:
    def __init__(self, process: ProcessPerformer, cache: ArtifactCache, warden: WardenClient) -> None:
        self._process = process
        self._cache = cache
        self._warden = warden
        self._directories = warden.directories

    async def perform(self, attempt: Attempt, running: RunningAttempt) -> Result:
        task = attempt.item.spec.task
        assert isinstance(task, Artifact)
        running.cancel_task_on_stop()
        try:
            async with self._cache.fetched(task.artifact) as file:
                directory = self._directories.take()
                try:
                    argv = (*await self._prepare(file, directory, task.entry), *task.args)
                except BaseException:
                    await self._directories.remove(directory)
                    raise
                return await self._process.run(attempt, running, argv, task.env, directory)
        except asyncio.CancelledError:
            return running.result_of_cancel()
        except (NoSuchArtifact, BadArchive, CannotStart) as error:
            return Failed(reason=str(error), error=type(error).__name__, final=True)
        except StoreError as error:
            return Failed(reason=str(error), error=type(error).__name__)

    async def _prepare(self, file: Path, directory: str, entry: str | None) -> tuple[str, ...]:
        """What starts it, from the job's directory. Each attempt unpacks a copy of its own, which it may change."""
        if entry is None:
            how = await asyncio.to_thread(how_to_start, file)
            return (*how, await asyncio.to_thread(self._reachable, file, directory))
        await self._unpack(file, directory)
        program = _entry_file(Path(directory), entry)
        return (*await asyncio.to_thread(how_to_start, program), str(program))

    async def _unpack(self, file: Path, directory: str) -> None:
        said = bytearray()
        process = self._warden.start(
            ("unpack",),
            {},
            directory=directory,
            stdin=b"",
            on_output=said.extend,
            output_bytes=_MAX_REASON_BYTES,
            limits=Limits(),
            unpack=self._seen_by_warden(file),
        )
        try:
            exited = await asyncio.shield(process.ended)
        except asyncio.CancelledError:
            self._warden.stop(process, grace=0)
            await asyncio.wait([process.ended])
            raise
        if exited.code:
            raise BadArchive(said.decode(errors="replace") or f"unpacking it ended with {exited.code}")

    def _reachable(self, file: Path, directory: str) -> str:
        """Where the job finds the artifact: where the warden shows all of them; or, where it cannot and the job is
        another user, in its own directory."""
        owner = self._directories.owner_of(directory)
        if owner is None or self._shows_artifacts:
            return self._seen_by_warden(file)
        copy = Path(directory) / file.name
        shutil.copyfile(file, copy)
        os.chown(copy, *owner)
        copy.chmod(0o555)
        return str(copy)

    def _seen_by_warden(self, file: Path) -> str:
        return str(self._warden.root / ARTIFACTS / file.name) if self._shows_artifacts else str(file)

    @property
    def _shows_artifacts(self) -> bool:
        return self._warden.protections.get(ARTIFACTS) == ""


def how_to_start(file: Path) -> tuple[str, ...]:
    """What goes before a file to start it. Its first bytes decide, not its name or mode."""
    with file.open("rb") as content:
        head = content.read(4)
    if head.startswith((_ELF, _SHEBANG)):
        return ()
    return _interpreter_of_zip(file) if head == _ZIP else ("/bin/sh",)


def _interpreter_of_zip(file: Path) -> tuple[str, ...]:
    """Of the names in it only the first are read: an archive may have more of them than we have memory."""
    try:
        if _directory_bytes(file) > _MAX_DIRECTORY_BYTES:
            raise BadArchive("an archive of so many files needs `entry`, the program inside it to run")
        with zipfile.ZipFile(file) as bundle:
            names = set(bundle.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise BadArchive(f"cannot read it: {error}") from error
    if _JAR_ENTRY in names:
        if shutil.which("java") is None:
            raise NoSuchArtifact("it is a JAR, and this executor has no java")
        return ("java", "-jar")
    if "__main__.py" in names:
        return ("python3",)
    raise BadArchive("an archive needs `entry`, the program inside it to run")


def _directory_bytes(file: Path) -> int:
    with file.open("rb") as content:
        end = zipfile._EndRecData(content)  # type: ignore[attr-defined]
    return 0 if end is None else int(end[zipfile._ECD_SIZE])  # type: ignore[attr-defined]


def _entry_file(directory: Path, entry: str) -> Path:
    file = (directory / entry).resolve()
    if not file.is_relative_to(directory.resolve()) or not file.is_file():
        raise BadArchive(f"no {entry} in the archive")
    file.chmod(0o700)
    return file
