"""Uploaded artifacts: programs, scripts, JARs, and archives with a program inside."""

import asyncio
import secrets
import shutil
import zipfile
from pathlib import Path

from waterclock.core.store.store import StoreError
from waterclock.executor.attempt_record import Attempt, Failed, Result
from waterclock.executor.in_flight import RunningAttempt
from waterclock.executor.perform.archive import BadArchive, unpack
from waterclock.executor.perform.artifact_cache import ArtifactCache, NoSuchArtifact
from waterclock.executor.perform.process import ProcessPerformer
from waterclock.proto.spec import Artifact

_ELF = b"\x7fELF"
_SHEBANG = b"#!"
_ZIP = b"PK\x03\x04"
_JAR_ENTRY = "META-INF/MANIFEST.MF"


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
