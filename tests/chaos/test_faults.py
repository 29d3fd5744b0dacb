"""Every fault of the table, one after the other, under load of every kind of job. `make chaos` runs all of them."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from chaos.faults import TABLE, Fault, World
from chaos.installation import Installation
from chaos.nemesis import strike
from chaos.report import VERDICTS
from chaos.witness import Witness

LONG = os.environ.get("WATERCLOCK_CHAOS") == "long"
CHOSEN = [fault for fault in TABLE if LONG or fault.in_short_form]

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    """One for all faults of a world. When it has seen them all, no consumer is left of those who died."""
    world: World = request.param
    async with world.installed(tmp_path_factory.mktemp("chaos")) as started, started.log() as log:
        witness = Witness(started, log)
        await witness.look_before()
        yield started
        if LONG:
            assert await witness.extra_consumers() <= 0


@pytest.mark.parametrize(
    ("installation", "fault"),
    [pytest.param(fault.world, fault, id=fault.name) for fault in CHOSEN],
    indirect=["installation"],
)
async def test_nothing_is_lost_or_doubled(installation: Installation, fault: Fault, tmp_path: Path) -> None:
    verdict, history = await strike(installation, fault, prefix=f"f{TABLE.index(fault)}")
    VERDICTS[fault.name] = verdict
    (tmp_path / "history.json").write_bytes(history.json())
    assert not verdict.complaints, f"history in {tmp_path}, logs in {installation.directory}"
