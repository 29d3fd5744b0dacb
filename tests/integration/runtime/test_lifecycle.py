"""Every service ends when it is told to, at whatever stage of its life, and leaves nothing behind."""

from importlib import import_module
from pathlib import Path

import pytest

from contracts.lifecycle import exercise_lifecycle
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.ports import reserved_port
from waterclock.core.runtime.settings import Settings


@pytest.mark.parametrize("component", ["scheduler", "executor", "projector", "api"])
async def test_a_service_keeps_the_lifecycle_contract(
    component: str, tmp_path: Path, nats_url: str, database_url: str
) -> None:
    async with Connection.open(nats_url, name="layout") as connection:
        await ensure_streams(connection, Layout(partitions=2))
    run = import_module(f"waterclock.{component}.service").run
    with reserved_port() as port:
        settings = Settings(
            data=tmp_path,
            nats_url=nats_url,
            database_url=database_url,
            port=port,
            token="a-token-for-the-lifecycle",
            partitions=2,
            grace_seconds=1,
        )
        await exercise_lifecycle(lambda stop: run(settings, stop))
