"""Whatever dies, and whenever: the tables end up as a rebuild would make them."""

import asyncio
import random
from itertools import count

import asyncpg
import pytest

from projector_rig.builders import created, queued, succeeded
from projector_rig.log import PARTITIONS, Log
from projector_rig.process import ProjectorProcess
from projector_rig.random_history import RandomHistory
from projector_rig.service import AWAY, caught_up, running_projector, settings
from projector_rig.tables import contents
from servers.server import Server
from support.waiting import eventually
from waterclock.core.domain.rendezvous import assigned
from waterclock.projector.rebuild.rebuilder import rebuild


async def assert_as_rebuilt(nats_url: str, database_url: str) -> None:
    before = await contents(database_url)
    await rebuild(settings(nats_url, database_url), lambda _: None)
    assert await contents(database_url) == before


async def test_killed_at_random_while_runs_flow(log: Log, nats_url: str, postgres_server: Server) -> None:
    """Projector and Postgres are killed -9 again and again; nothing is lost, nothing doubled."""
    draw = random.Random(2026)
    appending = asyncio.create_task(log.append_steps(RandomHistory(3, jobs=40).steps(runs=2500)))
    with ProjectorProcess(nats_url, postgres_server.url) as projector:
        deaths = 0
        while not appending.done() or deaths < 6:
            await asyncio.sleep(draw.uniform(0.3, 1.5))
            deaths += 1
            if draw.random() < 0.6:
                projector.kill()
                projector.start()
            else:
                await asyncio.to_thread(postgres_server.kill)
                await asyncio.to_thread(postgres_server.start)
        await appending
        await caught_up(nats_url, postgres_server.url, seconds=60)
    await assert_as_rebuilt(nats_url, postgres_server.url)


async def paused(caplog: pytest.LogCaptureFixture) -> None:
    async def said() -> bool:
        """the projector says that it pauses"""
        return "folding pauses" in caplog.messages

    await eventually(said, through=AWAY)


async def test_postgres_away_for_a_while_is_waited_for(
    log: Log, nats_url: str, postgres_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = queued("first"), queued("second")
    async with running_projector(nats_url, postgres_server.url) as projector:
        await log.runs(first, succeeded(first))
        await caught_up(nats_url, postgres_server.url)
        await asyncio.to_thread(postgres_server.kill)
        await log.runs(second, succeeded(second))
        await paused(caplog)
        assert not projector.done()
        await asyncio.to_thread(postgres_server.start)
        await caught_up(nats_url, postgres_server.url)
    assert len((await contents(postgres_server.url))["run_state"]) == 2


async def test_a_projector_may_start_before_postgres(
    log: Log, nats_url: str, postgres_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await log.jobs(created())
    await asyncio.to_thread(postgres_server.stop)
    async with running_projector(nats_url, postgres_server.url) as projector:
        await paused(caplog)
        assert not projector.done()
        await asyncio.to_thread(postgres_server.start)
        await caught_up(nats_url, postgres_server.url)


async def test_the_log_away_for_a_while_is_waited_for(nats_server: Server, database_url: str) -> None:
    steps = list(RandomHistory(9).steps(runs=100))
    async with running_projector(nats_server.url, database_url):
        async with Log.open(nats_server.url) as log:
            await log.append_steps(steps[:60])
        for part in (steps[60:100], steps[100:]):
            await asyncio.to_thread(nats_server.kill)
            await asyncio.to_thread(nats_server.start)
            async with Log.open(nats_server.url) as log:
                await log.append_steps(part)
        await caught_up(nats_server.url, database_url)
    await assert_as_rebuilt(nats_server.url, database_url)


async def test_a_database_restored_from_a_backup_catches_up(
    log: Log, nats_url: str, database_url: str, shared_postgres_url: str
) -> None:
    steps = list(RandomHistory(4).steps(runs=120))
    await log.append_steps(steps[:100])
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    name = database_url.rpartition("/")[2]
    server = await asyncpg.connect(shared_postgres_url)
    await server.execute(f"CREATE DATABASE {name}_backup TEMPLATE {name}")
    try:
        await log.append_steps(steps[100:])
        async with running_projector(nats_url, database_url):
            await caught_up(nats_url, database_url)
        restored = f"{database_url}_backup"
        assert await contents(restored) != await contents(database_url)
        async with running_projector(nats_url, restored):
            await caught_up(nats_url, restored)
        assert await contents(restored) == await contents(database_url)
    finally:
        await server.execute(f"DROP DATABASE {name}_backup WITH (FORCE)")
        await server.close()


def two_that_share() -> list[str]:
    """Names that the few partitions of a test do not all go to one of."""
    for number in count():
        pair = [f"projector-{number}-a", f"projector-{number}-b"]
        if all(assigned(name, pair, PARTITIONS) for name in pair):
            return pair
    raise AssertionError


async def test_projectors_share_the_partitions_and_take_over(
    log: Log, nats_url: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await asyncpg.connect(database_url)

    async def projectors() -> int:
        recent = "updated_at > now() - interval '2 s'"
        found: int = await connection.fetchval(
            f"SELECT count(DISTINCT projector) FROM waterclock.projection_state WHERE {recent}"
        )
        return found

    pair = two_that_share()
    monkeypatch.setattr("waterclock.projector.service.instance_id", lambda _: pair.pop())
    steps = list(RandomHistory(6, jobs=60).steps(runs=400))
    async with running_projector(nats_url, database_url):
        async with running_projector(nats_url, database_url):
            appending = asyncio.create_task(log.append_steps(steps))

            async def two_are_at_work() -> bool:
                return await projectors() == 2

            await eventually(two_are_at_work, through=AWAY)
            await appending
            await caught_up(nats_url, database_url)
        await log.runs(queued("after"))
        await caught_up(nats_url, database_url)
    await connection.close()
    await assert_as_rebuilt(nats_url, database_url)
