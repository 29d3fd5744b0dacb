"""A rebuild leaves the same content, and keeps what the log no longer tells."""

import asyncio

import asyncpg
import pytest

from projector_rig.builders import T0, created, outcome, queued, succeeded
from projector_rig.log import Log
from projector_rig.random_history import RandomHistory
from projector_rig.service import caught_up, running_projector, settings
from projector_rig.tables import contents
from waterclock.core.domain.instants import MINUTE
from waterclock.projector.rebuild.rebuilder import RebuildProgress, RebuildRefused, RebuildResult, rebuild
from waterclock.proto.events import RunSnoozed


async def rebuilt(nats_url: str, database_url: str) -> tuple[RebuildResult, list[RebuildProgress]]:
    reports: list[RebuildProgress] = []
    return await rebuild(settings(nats_url, database_url), reports.append), reports


async def projected(nats_url: str, database_url: str) -> None:
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)


@pytest.mark.parametrize(("seed", "batch"), [(0, 20_000), (1, 7), (2, 40)])
async def test_a_rebuild_leaves_the_same_rows(
    log: Log, nats_url: str, database_url: str, seed: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one batch, and in many of which each is prepared while the one before it is written."""
    monkeypatch.setattr("waterclock.projector.rebuild.rebuilder._EVENTS", batch)
    await log.append_steps(RandomHistory(seed).steps(runs=150))
    await projected(nats_url, database_url)
    before = await contents(database_url)
    result, reports = await rebuilt(nats_url, database_url)
    assert await contents(database_url) == before
    assert len(before["run_state"]) > 100
    assert (result.carried_jobs, result.carried_runs) == (0, 0)
    assert [report.stage for report in reports][-1] == "switch"
    assert reports[-1].done == 1
    assert result.events > 300


@pytest.mark.parametrize("batch", [3, 10, 60_000])
async def test_a_rebuild_of_a_log_that_tells_lives_twice_leaves_the_same_rows(
    log: Log,
    nats_url: str,
    database_url: str,
    batch: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where they are far apart, the second is refused, and the rebuild begins again step by step."""
    monkeypatch.setattr("waterclock.projector.rebuild.rebuilder._EVENTS", batch)
    for number in (*range(12), 0, 5):
        await log.jobs(created(f"job{number}"))
        run = queued(f"job{number}")
        await log.runs(run)
        await log.runs(succeeded(run))
    await projected(nats_url, database_url)
    before = await contents(database_url)
    assert len(before["run_state"]) == 12
    result, _ = await rebuilt(nats_url, database_url)
    assert await contents(database_url) == before
    assert ("rebuilding again, step by step" in caplog.messages) == (batch < 60_000)
    assert result.events == 14 * 3


async def test_a_rebuild_begins_again_if_the_log_loses_something_meanwhile(
    log: Log,
    nats_url: str,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await log.append_steps(RandomHistory(3).steps(runs=20))
    await projected(nats_url, database_url)
    before = await contents(database_url)
    beginnings = iter([(1, 1), (1, 2), (1, 2)])

    async def moving(_: object) -> tuple[int, int]:
        return next(beginnings)

    monkeypatch.setattr("waterclock.projector.rebuild.rebuilder._Rebuilder._beginnings", moving)
    await rebuilt(nats_url, database_url)
    assert await contents(database_url) == before
    assert "rebuilding again, step by step" in caplog.messages


async def test_a_rebuild_mends_rows_that_are_wrong(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    await log.append_steps(RandomHistory(7).steps(runs=50))
    await projected(nats_url, database_url)
    before = await contents(database_url)
    await database.execute("UPDATE waterclock.job_runs SET status = 'FAILED', reason = 'vandalism'")
    await database.execute("DELETE FROM waterclock.job_state WHERE job_id < 'job3'")
    await rebuilt(nats_url, database_url)
    assert await contents(database_url) == before


async def test_a_rebuild_goes_on_while_the_projector_folds(
    log: Log, nats_url: str, database_url: str
) -> None:
    steps = list(RandomHistory(11).steps(runs=300))
    await log.append_steps(steps[:200])
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
        appending = asyncio.create_task(log.append_steps(steps[200:]))
        await rebuilt(nats_url, database_url)
        await appending
        await caught_up(nats_url, database_url)
    before = await contents(database_url)
    await rebuilt(nats_url, database_url)
    assert await contents(database_url) == before


async def test_history_that_has_left_the_log_is_kept(log: Log, nats_url: str, database_url: str) -> None:
    steps = list(RandomHistory(5).steps(runs=200))
    await log.append_steps(steps[:250])
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
        await log.connection.api("STREAM.PURGE.RUNS", {"seq": 150})
        await log.append_steps(steps[250:])
        await caught_up(nats_url, database_url)
    before = await contents(database_url)
    result, _ = await rebuilt(nats_url, database_url)
    assert await contents(database_url) == before
    assert result.carried_runs > 10
    assert result.carried_runs < len(before["run_state"]) - 10


async def test_a_run_that_is_carried_over_does_not_live_its_later_events_twice(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    first = queued("job")
    again = queued("job", at=first.at + MINUTE)
    beginning = await log.runs(first)
    await log.runs(RunSnoozed(**outcome(first), until=again.at))
    await log.runs(again)
    await projected(nats_url, database_url)
    before = await contents(database_url)
    await log.connection.api("STREAM.PURGE.RUNS", {"seq": beginning + 1})
    await rebuilt(nats_url, database_url)
    assert await contents(database_url) == before
    assert await database.fetchval("SELECT status FROM waterclock.job_runs") == "QUEUED"


async def test_jobs_that_have_left_the_log_are_kept(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    done = queued("done")
    await log.jobs(created("done"))
    await log.jobs(created("staying"))
    await log.runs(done, succeeded(done))
    await projected(nats_url, database_url)
    before = await contents(database_url)
    await log.connection.api("STREAM.PURGE.JOBS", {"filter": "wc.jobs.*.done"})
    result, _ = await rebuilt(nats_url, database_url)
    assert await contents(database_url) == before
    assert result.carried_jobs == 1


async def test_a_rebuild_moves_to_a_log_that_was_replaced(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    old = queued("old")
    await log.jobs(created("old"))
    await log.runs(old, succeeded(old))
    await projected(nats_url, database_url)
    for stream in ("JOBS", "RUNS"):
        await log.connection.api(f"STREAM.DELETE.{stream}")
    async with Log.open(nats_url) as anew:
        new = queued("new", T0 + MINUTE)
        await anew.jobs(created("new"))
        await anew.runs(new)
        await rebuilt(nats_url, database_url)
        rows = await database.fetch("SELECT run_id, first_sequence FROM waterclock.job_runs")
        assert {row["run_id"]: row["first_sequence"] for row in rows} == {old.run_id: 0, new.run_id: 1}
        await anew.runs(succeeded(new))
        await projected(nats_url, database_url)
    assert await database.fetchval("SELECT count(*) FROM waterclock.job_runs WHERE status = 'SUCCESS'") == 2


async def test_a_view_of_a_user_is_not_lost_unasked(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    await database.execute("CREATE VIEW public.mine AS SELECT run_id FROM waterclock.job_runs")
    with pytest.raises(RebuildRefused, match=r"public\.mine"):
        await rebuilt(nats_url, database_url)
    await database.execute("DROP VIEW public.mine")
    await rebuilt(nats_url, database_url)


async def test_after_a_rebuild_indexes_comments_and_grants_are_as_before(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    query = """
        SELECT c.relname, c.relkind::text, obj_description(c.oid), c.relacl::text
          FROM pg_class c WHERE c.relnamespace = 'waterclock'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'i', 'I')
         ORDER BY 1"""
    await log.jobs(created())
    await projected(nats_url, database_url)
    before = await database.fetch(query)
    await rebuilt(nats_url, database_url)
    assert await database.fetch(query) == before
    assert await database.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'waterclock%'") == 1
