"""The warden by itself: processes through it, without a queue or a log."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from support.waiting import eventually, is_alive
from waterclock.executor.warden.client import CannotStart, Process, WardenClient
from waterclock.executor.warden.messages import Limits

PATH = {"PATH": "/bin:/usr/bin"}


@pytest.fixture
async def warden() -> AsyncIterator[WardenClient]:
    async with WardenClient.open() as warden:
        yield warden


def start(
    warden: WardenClient,
    *argv: str,
    on_output: Callable[[bytes], None] = lambda _: None,
    lease_seconds: float = 0.0,
) -> Process:
    return warden.start(
        argv,
        PATH,
        directory=warden.directories.take(),
        stdin=b"",
        on_output=on_output,
        output_bytes=10_000_000,
        limits=Limits(),
        lease_seconds=lease_seconds,
    )


async def test_many_short_processes_all_end(warden: WardenClient) -> None:
    """They end while others are being started, which is when files and numbers are easily confused."""
    slots = asyncio.Semaphore(8)

    async def one(number: int) -> bytes:
        async with slots:
            output: list[bytes] = []
            process = start(warden, "/bin/echo", str(number), on_output=output.append)
            async with asyncio.timeout(30):
                assert (await process.ended).code == 0
            return b"".join(output)

    assert await asyncio.gather(*map(one, range(400))) == [b"%d\n" % number for number in range(400)]


async def test_processes_do_not_inherit_the_precedence_of_the_warden(warden: WardenClient) -> None:
    output: list[bytes] = []
    asks = "nice; [ ! -e /proc/self/autogroup ] || sed 's/.* //' /proc/self/autogroup"
    await start(warden, "sh", "-c", asks, on_output=output.append).ended
    own, *of_its_session = b"".join(output).split()
    assert int(own) == os.nice(0)
    assert set(of_its_session) <= {b"0"}


async def test_a_process_lives_no_longer_than_its_lease(warden: WardenClient) -> None:
    leased = start(warden, "sleep", "300", lease_seconds=0.5)
    renewed = start(warden, "sleep", "300", lease_seconds=0.5)
    warden.renew(renewed, 300)
    exited = await leased.ended
    assert (exited.code, exited.lapsed) == (-9, True)
    assert not renewed.ended.done()


async def test_stopping_what_is_gone_is_harmless(warden: WardenClient) -> None:
    process = start(warden, "true")
    await process.ended
    warden.stop(process, grace=0)
    other = start(warden, "true")
    assert (await other.ended).code == 0


async def test_a_refusal_does_not_disturb_others(warden: WardenClient) -> None:
    running = start(warden, "sleep", "300")
    with pytest.raises(CannotStart, match="no such program"):
        await start(warden, "no-such-program").ended
    warden.stop(running, grace=5)
    assert (await running.ended).code == -15


async def test_everything_goes_when_the_executor_does(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with WardenClient.open() as warden:
        start(warden, "sh", "-c", f"(setsid sleep 300 & echo $! >> {pids}); echo $$ >> {pids}; sleep 300")
        await eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2, "two processes")
        root = warden.root
    assert not any(is_alive(int(pid)) for pid in pids.read_text().split())
    assert await asyncio.to_thread(root.exists) is False


async def test_directories_are_fresh_and_removed(warden: WardenClient) -> None:
    directories = [warden.directories.take() for _ in range(40)]
    assert len(set(directories)) == 40
    await asyncio.to_thread(_leave_something_in, directories[:20])
    await asyncio.gather(*map(warden.directories.remove, directories))
    again = warden.directories.take()
    assert again not in directories
    assert await asyncio.to_thread(_existing, [*directories, again]) == [again]


@pytest.mark.parametrize(
    "change",
    ["touch left", "touch gone; rm gone", "chmod 777 .", 'cd ..; rmdir "$OLDPWD"'],
    ids=["a file", "a file for a while", "access", "itself"],
)
async def test_a_directory_is_used_again_only_if_nobody_changed_it(warden: WardenClient, change: str) -> None:
    directory = warden.directories.take()
    await _run_in(warden, directory, "true")
    assert warden.directories.take_back(directory)
    assert warden.directories.take() == directory
    await _run_in(warden, directory, change)
    assert not warden.directories.take_back(directory)
    await warden.directories.remove(directory)
    assert await asyncio.to_thread(_existing, [directory]) == []


async def test_a_directory_of_somebody_elses_making_is_not_kept(warden: WardenClient, tmp_path: Path) -> None:
    assert not warden.directories.take_back(str(tmp_path))
    assert not warden.directories.take_back(str(tmp_path / "gone"))


async def _run_in(warden: WardenClient, directory: str, command: str) -> None:
    process = warden.start(
        ["/bin/sh", "-c", command],
        PATH,
        directory=directory,
        stdin=b"",
        on_output=lambda _: None,
        output_bytes=0,
        limits=Limits(),
    )
    assert (await process.ended).code == 0


async def test_somebody_in_hiding_is_told_of(warden: WardenClient, tmp_path: Path) -> None:
    """It cleared its environment and left its session, so it may be of any job that runs, and in its directory."""
    other = start(warden, "sleep", "300")
    hides = f"env -i /usr/bin/setsid /bin/sh -c '/usr/bin/touch {tmp_path}/hidden; exec /bin/sleep 300'"
    process = start(
        warden,
        "sh",
        "-c",
        f"{hides} >/dev/null 2>&1 & until [ -e {tmp_path}/hidden ]; do sleep 0.01; done",
    )
    assert (await process.ended).orphans
    warden.stop(other, grace=0)
    await other.ended
    assert not (await start(warden, "true").ended).orphans


def _leave_something_in(directories: list[str]) -> None:
    for directory in directories:
        Path(directory, "left").touch()


def _existing(directories: list[str]) -> list[str]:
    return [directory for directory in directories if Path(directory).exists()]
