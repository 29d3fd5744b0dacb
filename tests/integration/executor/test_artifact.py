"""Uploaded programs of every kind, verified and cached."""

import asyncio
import gzip
import hashlib
import io
import os
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import RunningExecutor, running_executor
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.settings import Settings
from waterclock.core.store.jetstream_store import JetStreamStore
from waterclock.core.store.store import Store, one_piece
from waterclock.executor.perform.artifact_cache import ArtifactCache, NoSuchArtifact
from waterclock.proto import names
from waterclock.proto.events import RunFailed, RunSucceeded
from waterclock.proto.spec import Artifact


@pytest.fixture
async def store(owner: FakeOwner) -> Store:
    return JetStreamStore(owner.connection, Publisher(owner.connection), names.ARTIFACTS)


@pytest.fixture
async def executor(owner: FakeOwner, settings: Settings) -> AsyncIterator[RunningExecutor]:
    async with running_executor(settings) as executor:
        yield executor


async def push(store: Store, content: bytes) -> str:
    name = f"sha256:{hashlib.sha256(content).hexdigest()}"
    await store.put(name, one_piece(content))
    return name


def tar_gz(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


SCRIPT = b'printf \'["%s", "%s"]\\n\' "$1" "$(cat data 2>/dev/null)"\n'
PYTHON = f"#!{sys.executable}\nimport sys, json\nprint(json.dumps(sys.argv[1:]))\n".encode()


@pytest.mark.parametrize(
    ("content", "entry", "output"),
    [
        (b"#!/bin/sh\n" + SCRIPT, None, ["an argument", ""]),
        (SCRIPT, None, ["an argument", ""]),
        (PYTHON, None, ["an argument"]),
        (
            tar_gz({"bin/run": b"#!/bin/sh\n" + SCRIPT, "data": b"beside"}),
            "bin/run",
            ["an argument", "beside"],
        ),
        (zipped({"run": SCRIPT, "data": b"beside"}), "run", ["an argument", "beside"]),
    ],
    ids=["shebang", "no shebang", "python", "tar.gz", "zip"],
)
async def test_every_kind_runs(
    owner: FakeOwner,
    executor: RunningExecutor,
    store: Store,
    content: bytes,
    entry: str | None,
    output: list[str],
) -> None:
    artifact = await push(store, content)
    item = await owner.submit(Artifact(artifact=artifact, args=("an argument",), entry=entry))
    assert (await owner.end_of(item, RunSucceeded)).output == output


async def test_a_binary_runs(owner: FakeOwner, executor: RunningExecutor, store: Store) -> None:
    program = await asyncio.to_thread(Path("/bin/echo").read_bytes)
    item = await owner.submit(Artifact(artifact=await push(store, program), args=("[1]",)))
    assert (await owner.end_of(item, RunSucceeded)).output == [1]


async def test_a_jar_runs_where_java_is(
    owner: FakeOwner, executor: RunningExecutor, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for java shows what would be run; a real one is too slow to start for a test."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nprintf \'["%s", "%s"]\\n\' "$1" "$3"\n')
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}:{os.environ['PATH']}")
    jar = zipped({"META-INF/MANIFEST.MF": b"Main-Class: Main\n"})
    item = await owner.submit(Artifact(artifact=await push(store, jar), args=("argument",)))
    assert (await owner.end_of(item, RunSucceeded)).output == ["-jar", "argument"]


@pytest.mark.parametrize(
    ("content", "entry", "reason"),
    [
        (zipped({"run": b"x"}), None, "an archive needs `entry`"),
        (zipped({"run": b"x"}), "other", "no other in the archive"),
        (zipped({"run": b"x"}), "../../bin/true", "no ../../bin/true in the archive"),
        (zipped({"../run": b"x"}), "run", "../run would lie outside"),
        (gzip.compress(b"no tar"), "run", "cannot unpack it"),
    ],
)
async def test_what_cannot_run_says_why_and_is_not_tried_again(
    owner: FakeOwner, executor: RunningExecutor, store: Store, content: bytes, entry: str | None, reason: str
) -> None:
    item = await owner.submit(Artifact(artifact=await push(store, content), entry=entry), max_retries=3)
    end = await owner.end_of(item, RunFailed)
    assert end.reason.startswith(reason)
    assert end.retry_at is None


async def test_an_artifact_that_is_not_there_or_not_itself_is_refused(
    owner: FakeOwner, executor: RunningExecutor, store: Store
) -> None:
    missing = await owner.submit(Artifact(artifact="sha256:" + "0" * 64))
    assert (await owner.end_of(missing, RunFailed)).reason.endswith("is not in the store")
    swapped = await push(store, b"#!/bin/sh\necho good\n")
    await store.put(swapped, one_piece(b"#!/bin/sh\necho evil\n"))
    item = await owner.submit(Artifact(artifact=swapped))
    assert "has the digest" in (await owner.end_of(item, RunFailed)).reason


async def test_an_attempt_cannot_change_what_the_next_one_unpacks(
    owner: FakeOwner, executor: RunningExecutor, store: Store
) -> None:
    artifact = await push(store, tar_gz({"run": b"cat data; echo changed > data\n", "data": b"[1]\n"}))
    for _ in range(2):
        item = await owner.submit(Artifact(artifact=artifact, entry="run"))
        assert (await owner.end_of(item, RunSucceeded)).output == [1]


async def test_the_cache_fetches_once_and_notices_damage(store: Store, tmp_path: Path) -> None:
    artifact = await push(store, b"content")
    cache = ArtifactCache(store, tmp_path / "cache", limit=1000)
    async with cache.fetched(artifact) as file:
        assert file.read_bytes() == b"content"
    await store.delete(artifact)
    async with cache.fetched(artifact) as file:
        assert file.read_bytes() == b"content"
    file.chmod(0o700)
    file.write_bytes(b"damaged")
    with pytest.raises(NoSuchArtifact):
        async with cache.fetched(artifact):
            pass


async def test_the_cache_drops_what_was_not_used_for_longest_but_nothing_in_use(
    store: Store, tmp_path: Path
) -> None:
    cache = ArtifactCache(store, tmp_path / "cache", limit=250)
    first, second, third, fourth = [await push(store, bytes([n]) * 100) for n in range(4)]
    async with cache.fetched(first):
        async with cache.fetched(second):
            pass
        async with cache.fetched(third):
            pass
        assert _cached(tmp_path) == {first, third}
        async with cache.fetched(fourth):
            pass
        assert _cached(tmp_path) == {first, fourth}


async def test_several_want_the_same_at_once(store: Store, tmp_path: Path) -> None:
    artifact = await push(store, os.urandom(1_000_000))
    cache = ArtifactCache(store, tmp_path / "cache", limit=10_000_000)

    async def size() -> int:
        async with cache.fetched(artifact) as file:
            return file.stat().st_size

    assert await asyncio.gather(*(size() for _ in range(10))) == [1_000_000] * 10
    assert _cached(tmp_path) == {artifact}


def _cached(tmp_path: Path) -> set[str]:
    return {f"sha256:{file.name}" for file in (tmp_path / "cache").iterdir()}
