from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from waterclock.core.runtime.settings import Settings
from workshop.owner import Owner
from workshop.shop import settings_for


@pytest.fixture
async def owner(nats_url: str) -> AsyncIterator[Owner]:
    async with Owner.open(nats_url) as owner:
        yield owner


@pytest.fixture
def settings(nats_url: str, tmp_path: Path) -> Settings:
    return settings_for(nats_url, tmp_path)
