"""A log that is not the one the read models were made from is refused, with a word on what to do."""

import asyncio

import asyncpg
import pytest

from projector_rig.builders import queued
from projector_rig.log import Log
from projector_rig.service import AWAY, caught_up, running_projector
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream.log_identity import LogReplaced, LogTrimmed, LogWentBack, WrongLog


async def projected(nats_url: str, database_url: str) -> None:
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)


async def refusal(nats_url: str, database_url: str) -> WrongLog:
    with pytest.raises(WrongLog) as caught:
        async with running_projector(nats_url, database_url) as projector:
            await asyncio.wait_for(asyncio.shield(projector), 10)
    assert "waterclock projector rebuild" in str(caught.value)
    return caught.value


async def test_a_stream_created_again_is_refused(log: Log, nats_url: str, database_url: str) -> None:
    await log.runs(queued())
    await projected(nats_url, database_url)
    await log.connection.api("STREAM.DELETE.RUNS")
    async with Log.open(nats_url):
        error = await refusal(nats_url, database_url)
    assert isinstance(error, LogReplaced)
    assert "stream RUNS was created" in str(error)


async def test_a_stream_that_lost_its_end_is_refused(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    await log.runs(queued())
    await projected(nats_url, database_url)
    await database.execute(
        "UPDATE waterclock.projection_state SET stream_last_sequence = 1002 WHERE stream = 'RUNS'"
    )
    error = await refusal(nats_url, database_url)
    assert isinstance(error, LogWentBack)
    assert "reach 1002" in str(error)


async def test_a_log_trimmed_behind_our_back_is_refused(log: Log, nats_url: str, database_url: str) -> None:
    await log.runs(queued("a"))
    await projected(nats_url, database_url)
    for name in ("a", "b", "c", "d", "e", "f", "g", "h"):
        await log.runs(queued(f"{name}2"))
    last = await log.runs(queued("a3"), queued("b3"), queued("c3"), queued("d3"), queued("e3"), queued("f3"))
    await log.connection.api("STREAM.PURGE.RUNS", {"seq": last})
    assert isinstance(await refusal(nats_url, database_url), LogTrimmed)


async def test_a_quiet_log_whose_beginning_left_is_no_reason_to_refuse(
    log: Log, nats_url: str, database_url: str
) -> None:
    last = await log.runs(queued("a"))
    await projected(nats_url, database_url)
    for _ in range(5):
        await log.raw("wc.lease.0", b"{}")
    await log.connection.api("STREAM.PURGE.RUNS", {"seq": last + 3})
    await projected(nats_url, database_url)


async def test_positions_follow_a_log_that_goes_on_with_other_things(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.projector.session._IDLE", 0.2)
    await log.runs(queued("a"))
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
        last = await log.raw("wc.lease.0", b"{}")

        async def followed() -> bool:
            query = "SELECT min(position) FROM waterclock.projection_state WHERE stream = 'RUNS'"
            return bool(await database.fetchval(query) == last)

        await eventually(followed, through=AWAY)
        await log.runs(queued("b"))
        await caught_up(nats_url, database_url)
    assert await database.fetchval("SELECT count(*) FROM waterclock.job_runs") == 2


async def test_a_log_that_comes_back_shorter_is_noticed_at_once(
    nats_server: Server, database_url: str, database: asyncpg.Connection
) -> None:
    async def come_back_shorter() -> None:
        async with running_projector(nats_server.url, database_url) as projector:
            async with Log.open(nats_server.url) as log:
                await log.runs(queued())
            await caught_up(nats_server.url, database_url)
            await database.execute("UPDATE waterclock.projection_state SET stream_last_sequence = 1002")
            await asyncio.to_thread(nats_server.kill)
            await asyncio.to_thread(nats_server.start)
            await asyncio.wait_for(asyncio.shield(projector), 20)

    with pytest.raises(LogWentBack):
        await come_back_shorter()
