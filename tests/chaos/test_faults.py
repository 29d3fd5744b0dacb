"""Every fault of the table, one after the other, under load of every kind of job. `make chaos` runs all of them."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from chaos import fault_injection
from chaos.fault_runner import strike
from chaos.faults import TABLE, Fault, World
from chaos.installation import Installation
from chaos.observer import Observer
from chaos.report import VERDICTS

LONG = os.environ.get("WATERCLOCK_CHAOS") == "long"
CHOSEN = [fault for fault in TABLE if LONG or fault.in_short_form]

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]


class Worlds:
    """The installation of one world at a time: faults of the same world share it, one after the other."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._scope = AsyncExitStack()
        self._world: World | None = None
        self._installation: Installation | None = None

    async def enter(self, world: World) -> Installation:
        if self._installation is None or self._world is not world:
            await self.leave()
            self._installation = await self._scope.enter_async_context(self._inhabited(world))
            self._world = world
        return self._installation

    async def leave(self) -> None:
        self._installation = self._world = None
        await self._scope.aclose()

    @asynccontextmanager
    async def _inhabited(self, world: World) -> AsyncIterator[Installation]:
        """When it has seen all its faults, no consumer is left of those who died."""
        async with world.installed(self._directories.mktemp("chaos")) as started, started.log() as log:
            observer = Observer(started, log)
            await observer.look_before()
            yield started
            if LONG:
                assert await observer.extra_consumers() <= 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worlds(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worlds]:
    found = Worlds(tmp_path_factory)
    yield found
    await found.leave()


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.name) for fault in CHOSEN])
async def test_nothing_is_lost_or_doubled(worlds: Worlds, fault: Fault, tmp_path: Path) -> None:
    if fault.needs is not None and not fault_injection.INSTALLED[fault.needs]:
        pytest.skip(f"needs Debian's {fault.needs}: apt-get install {fault.needs}")
    installation = await worlds.enter(fault.world)
    verdict, history = await strike(installation, fault, prefix=f"f{TABLE.index(fault)}")
    VERDICTS[fault.name] = verdict
    print(verdict)
    (tmp_path / "history.json").write_bytes(history.json())
    assert not verdict.complaints, f"history in {tmp_path}, logs in {installation.directory}"
