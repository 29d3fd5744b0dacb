from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import settings_for
from waterclock.core.runtime.settings import Settings


@pytest.fixture
async def owner(nats_url: str) -> AsyncIterator[FakeOwner]:
    async with FakeOwner.open(nats_url) as owner:
        yield owner


@pytest.fixture
def settings(nats_url: str, tmp_path: Path) -> Settings:
    return settings_for(nats_url, tmp_path)
