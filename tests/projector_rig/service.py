"""A projector that runs inside the test, and ways to wait for what it does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from projector_rig.log import PARTITIONS
from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import last_message
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.settings import Settings
from waterclock.projector.service import run
from waterclock.proto import names

AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
"""What somebody gets who asks a Postgres that is away, or has no tables yet."""


def settings(nats_url: str, database_url: str, **fields: Any) -> Settings:
    return Settings(nats_url=nats_url, database_url=database_url, **{"partitions": PARTITIONS, **fields})


@asynccontextmanager
async def running_projector(
    nats_url: str, database_url: str, **fields: Any
) -> AsyncIterator[asyncio.Task[None]]:
    """Runs until the scope ends; then it must stop by itself, without an error."""
    stop = StopSignal()
    task = asyncio.create_task(run(settings(nats_url, database_url, **fields), stop))
    try:
        yield task
    except AssertionError:
        if task.done():
            task.result()
        raise
    else:
        stop.set()
        await asyncio.wait_for(task, 10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def caught_up(nats_url: str, database_url: str, seconds: float = 30.0) -> None:
    """Until every partition of both streams is folded in, as far as they go now."""
    ends: dict[tuple[str, int], int] = {}
    async with Connection.open(nats_url, name="test-caught-up") as connection:
        for partition in range(PARTITIONS):
            for stream, subject in (
                (names.JOBS, names.jobs_of_partition(partition)),
                (names.RUNS, names.runs_subject(partition)),
            ):
                last = await last_message(connection, stream, subject)
                ends[stream, partition] = 0 if last is None else last.sequence

    async def folded() -> bool:
        connection = await asyncpg.connect(database_url)
        try:
            rows = await connection.fetch(
                "SELECT stream, partition, position FROM waterclock.projection_state"
            )
        finally:
            await connection.close()
        at = {(row["stream"], row["partition"]): row["position"] for row in rows}
        return all(at.get(key, -1) >= end for key, end in ends.items())

    await eventually(folded, within=seconds, through=AWAY)
