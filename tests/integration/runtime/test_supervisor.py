"""The supervisor brings back what dies, tells the truth about what runs, and leaves nobody behind."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from servers.leftovers import leftovers
from support.waiting import eventually, is_alive
from waterclock.core.jetstream.access.permissions import ACCESS
from waterclock.core.runtime.data_directory import DataInUse, locked, read_processes
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.server import ServerProgram
from waterclock.core.runtime.processes.process import Process, spawn
from waterclock.core.runtime.processes.program import Component, Launched
from waterclock.core.runtime.processes.supervisor import Backoff, Child, ChildFailed, Supervisor

READY = "import os, signal, time; os.write(int(os.environ['WATERCLOCK_READY_FD']), b'1')\n"
OBEDIENT = READY + "signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "while True: signal.pause()"
)


def component(name: str, script: str, *, grace: float = 5.0) -> Component:
    return Component(name, [sys.executable, "-S", "-c", script], dict(os.environ), grace=grace)


async def test_a_killed_child_comes_back_and_the_file_says_so(tmp_path: Path) -> None:
    async with Supervisor(tmp_path, names=["scheduler", "executor", "api"]) as supervisor:
        await supervisor.start([component("scheduler", OBEDIENT), component("executor", OBEDIENT)])
        first = read_processes(tmp_path)
        assert first["api"] == []
        [scheduler], [executor] = first["scheduler"], first["executor"]
        assert is_alive(scheduler)
        assert is_alive(executor)

        os.kill(scheduler, signal.SIGKILL)
        await eventually(
            lambda: read_processes(tmp_path)["scheduler"] not in ([], [scheduler]), what="a new scheduler"
        )

        second = read_processes(tmp_path)
        assert is_alive(second["scheduler"][0])
        assert second["executor"] == [executor]
    assert read_processes(tmp_path) == {"scheduler": [], "executor": [], "api": []}
    assert not is_alive(second["scheduler"][0])
    assert not is_alive(executor)


async def test_the_file_stays_true_in_a_storm_of_kills(tmp_path: Path) -> None:
    def executors() -> list[int]:
        return read_processes(tmp_path)["executor"]

    async with Supervisor(tmp_path, names=["executor"]) as supervisor:
        await supervisor.start([component("executor", OBEDIENT) for _ in range(3)])
        gone: set[int] = set()
        for _ in range(3):
            for victim in executors():
                os.kill(victim, signal.SIGKILL)
                gone.add(victim)
            await eventually(
                lambda: len(executors()) == 3 and not gone & set(executors()), what="three others"
            )
        assert all(map(is_alive, executors()))
        assert not any(map(is_alive, gone))


class Recorded(Component):
    """Notes when it was launched."""

    def __init__(self, script: str) -> None:
        super().__init__("dummy", [sys.executable, "-S", "-c", script], dict(os.environ), grace=5)
        self.launches: list[float] = []

    def launch(self) -> Launched:
        self.launches.append(time.monotonic())
        return super().launch()


async def test_one_that_keeps_dying_is_started_ever_more_slowly() -> None:
    program = Recorded(READY)
    child = Child(program, changed=lambda: None, backoff=Backoff(first=0.05, longest=0.2))
    task = asyncio.create_task(child.run())
    await eventually(lambda: len(program.launches) == 6)
    await child.stop()
    await task
    waits = [later - earlier for earlier, later in zip(program.launches, program.launches[1:], strict=False)]
    assert all(wait >= least for wait, least in zip(waits, [0.05, 0.1, 0.2, 0.2], strict=False))


@pytest.mark.parametrize("code", [1, 2])
async def test_one_that_is_never_ready_is_given_up(tmp_path: Path, code: int) -> None:
    async with Supervisor(tmp_path, names=["api"]) as supervisor:
        with pytest.raises(ChildFailed, match=f"api exited with {code} before it was ready"):
            await supervisor.start([component("api", f"raise SystemExit({code})")])


async def test_one_that_cannot_be_started_is_given_up(tmp_path: Path) -> None:
    async with Supervisor(tmp_path, names=["api"]) as supervisor:
        with pytest.raises(ChildFailed, match="api could not be started"):
            await supervisor.start([Component("api", [str(tmp_path / "missing")], {}, grace=1)])


async def test_a_file_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    """As on a full disk."""
    (tmp_path / ".processes.json.new").mkdir()
    async with Supervisor(tmp_path, names=["api"]) as supervisor:
        await supervisor.start([component("api", OBEDIENT)])


async def test_groups_stop_in_reverse_order(tmp_path: Path) -> None:
    order = tmp_path / "order"
    script = (
        "import signal, sys\n"
        f"def note(*_): open({str(order)!r}, 'a').write('NAME '); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, note)\n" + OBEDIENT
    )
    async with Supervisor(tmp_path, names=[]) as supervisor:
        for name in ("server", "service", "front"):
            await supervisor.start([component(name, script.replace("NAME", name))])
    assert order.read_text().split() == ["front", "service", "server"]


async def test_one_that_does_not_end_is_killed_when_its_grace_is_over(tmp_path: Path) -> None:
    async with Supervisor(tmp_path, names=[]) as supervisor:
        await supervisor.start([component("stubborn", STUBBORN, grace=0.2)])
        [pid] = read_processes(tmp_path)["stubborn"]
    assert not is_alive(pid)


async def test_kill_does_not_wait(tmp_path: Path) -> None:
    began = time.monotonic()
    async with Supervisor(tmp_path, names=[]) as supervisor:
        await supervisor.start([component("stubborn", STUBBORN, grace=60)])
        supervisor.kill()
    assert time.monotonic() - began < 10


async def test_stopping_while_starting_leaves_nothing(tmp_path: Path) -> None:
    async with Supervisor(tmp_path, names=[]) as supervisor:
        starting = asyncio.create_task(supervisor.start([component("slow", "import time; time.sleep(60)")]))
        await eventually(lambda: "slow" in read_processes(tmp_path))
        [pid] = read_processes(tmp_path)["slow"]
        starting.cancel()
    assert not is_alive(pid)


async def test_an_embedded_server_is_a_child_like_the_others(tmp_path: Path) -> None:
    nats = EmbeddedNats(tmp_path / "nats", log=tmp_path / "nats.log", access=ACCESS)
    nats.prepare()
    async with Supervisor(tmp_path, names=["nats"]) as supervisor:
        await supervisor.start([ServerProgram(nats)])
        [pid] = read_processes(tmp_path)["nats"]
        os.kill(pid, signal.SIGKILL)
        await eventually(
            lambda: read_processes(tmp_path)["nats"] not in ([], [pid]), what="a new nats-server"
        )
        await eventually(nats.ready, what="the new nats-server to take clients")


class Freezing(EmbeddedNats):
    frozen = False

    def launch(self, *, inherit: Sequence[int] = ()) -> Process:
        self.frozen = False
        return super().launch(inherit=inherit)

    def failing(self) -> str | None:
        return "a stream cannot be written" if self.frozen else super().failing()


async def test_a_server_that_lives_but_is_of_no_use_is_started_anew(tmp_path: Path) -> None:
    nats = Freezing(tmp_path / "nats", log=tmp_path / "nats.log", access=ACCESS)
    nats.prepare()
    async with Supervisor(tmp_path, names=["nats"]) as supervisor:
        await supervisor.start([ServerProgram(nats)])
        [pid] = read_processes(tmp_path)["nats"]
        nats.frozen = True
        await eventually(
            lambda: read_processes(tmp_path)["nats"] not in ([], [pid]), what="a new nats-server"
        )
        await eventually(nats.ready, what="the new nats-server to take clients")


ORPHANS = """
import asyncio, sys, uvloop
from pathlib import Path
from waterclock.core.runtime.data_directory import locked
from waterclock.core.jetstream.access.permissions import ACCESS
from waterclock.core.runtime.embedded.nats import EmbeddedNats
from waterclock.core.runtime.embedded.postgres import EmbeddedPostgres
from waterclock.core.runtime.embedded.server import ServerProgram
from waterclock.core.runtime.processes.program import Component
from waterclock.core.runtime.processes.supervisor import Supervisor

data = Path(sys.argv[1])

async def main(lock):
    servers = [
        EmbeddedNats(data / "nats", log=data / "server.log", access=ACCESS),
        EmbeddedPostgres(data / "postgres", log=data / "server.log"),
    ]
    for server in servers:
        server.prepare()
    async with Supervisor(data, names=[]) as supervisor:
        await supervisor.start([ServerProgram(server, inherit=[lock]) for server in servers])
        await supervisor.start([Component("executor", [sys.executable, "-S", "-c", sys.argv[2]], {}, grace=5)])
        (data / "up").touch()
        await asyncio.Event().wait()

with locked(data) as lock:
    uvloop.run(main(lock))
"""


def _is_gone(pid: int) -> bool:
    return not is_alive(pid)


async def test_nobody_outlives_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    """Twice on the same data: the second comes up over what the first left, on the same ports."""
    ports = []
    for _ in range(2):
        supervisor = spawn([sys.executable, "-c", ORPHANS, str(tmp_path), STUBBORN])
        await eventually((tmp_path / "up").exists, within=30, what="the supervisor")
        (tmp_path / "up").unlink()
        pids = [pid for group in read_processes(tmp_path).values() for pid in group]
        assert len(pids) == 3
        ports.append((tmp_path / "nats" / "port").read_text())
        supervisor.kill()
        await supervisor.wait()
        await asyncio.gather(
            *(eventually(partial(_is_gone, pid), what="the children to end") for pid in pids)
        )
    assert ports[0] == ports[1]
    await eventually(lambda: not [line for line in leftovers(0).values() if str(tmp_path) in line])


async def test_one_owner_for_each_directory(tmp_path: Path) -> None:
    refusal = f"in use by another `waterclock up` .process {os.getpid()}"
    with locked(tmp_path), pytest.raises(DataInUse, match=refusal):
        _lock_again(tmp_path)
    _lock_again(tmp_path)


def _lock_again(directory: Path) -> None:
    with locked(directory):
        pass


async def test_the_next_owner_waits_for_the_servers_of_a_dead_one(tmp_path: Path) -> None:
    with locked(tmp_path) as lock:
        heir = spawn([sys.executable, "-S", "-c", "import time; time.sleep(60)"], pass_fds=[lock])
    (tmp_path / "lock").write_text("999999999")
    try:
        with pytest.raises(DataInUse), locked(tmp_path, patience=0.1):
            pass
    finally:
        heir.kill()
        await heir.wait()
    with locked(tmp_path):
        pass
