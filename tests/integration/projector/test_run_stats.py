"""Counts of runs are those of the runs: as they are folded, after a retry, a rebuild, and as an upgrade fills them."""

from typing import Any

import asyncpg

from projector_rig.builders import EVERY_MINUTE, T0, created, failed, queued, retry_requested, succeeded
from projector_rig.log import Log
from projector_rig.service import AWAY, caught_up, running_projector, settings
from support.waiting import eventually
from waterclock.core.domain.instants import HOUR, MINUTE, SECOND
from waterclock.projector.rebuild.rebuilder import rebuild
from waterclock.projector.write.database import connect
from waterclock.proto.events import RunSkipped, RunsMissed

_COUNTED = """
SELECT namespace, seconds, bucket, queue, executor_id, sum(success) AS success, sum(failed) AS failed,
       sum(missed) AS missed, sum(skipped) AS skipped, sum(cancelled) AS cancelled,
       compact_histogram(join_histograms(durations)) AS durations, compact_histogram(join_histograms(lags)) AS lags
  FROM run_stats
 GROUP BY 1, 2, 3, 4, 5
HAVING sum(success + failed + missed + skipped + cancelled) > 0
 ORDER BY 1, 2, 3, 4, 5
"""


async def counted(url: str) -> tuple[list[Any], list[Any]]:
    """As they are kept, and counted anew from the runs."""
    database = await connect(url, name="test")
    try:
        kept = [tuple(row) for row in await database.fetch(_COUNTED)]
        transaction = database.transaction()
        await transaction.start()
        await database.execute("DELETE FROM run_stats")
        await database.execute("SELECT count_runs()")
        anew = [tuple(row) for row in await database.fetch(_COUNTED)]
        await transaction.rollback()
        return kept, anew
    finally:
        await database.close()


async def tell(log: Log) -> None:
    await log.jobs(created("often", schedule=EVERY_MINUTE))
    await log.jobs(created("once"))
    await log.jobs(created("frame~0"))
    for minute in range(90):
        run = queued("often", T0 + minute * MINUTE)
        took = run.at + 2000 + minute * minute * SECOND // 100
        if minute % 10 == 3:
            await log.runs(run, failed(run, at=took))
        else:
            await log.runs(run, succeeded(run, at=took))
    only = queued("once", T0)
    await log.runs(only, succeeded(only))
    batched = queued("frame~0", T0)
    await log.runs(batched, succeeded(batched))
    await log.runs(
        RunSkipped(
            run_id="often@x", at=T0, version=1, scheduled=T0, due=T0, reason="overlap", because_of="y"
        ),
        RunsMissed(
            run_id="often@y", at=T0, version=1, scheduled=T0, until=T0 + HOUR, count=60, reason="asleep"
        ),
    )


async def test_counts_are_those_of_the_runs(nats_url: str, log: Log, database_url: str) -> None:
    await tell(log)
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
        kept, anew = await counted(database_url)
        assert kept == anew
        hours = [row for row in kept if row[1] == 3600]
        assert sum(row[5] for row in hours) == 83
        assert [sum(row[column] for row in hours) for column in (6, 7, 8)] == [9, 60, 1]
        bad = queued("often", T0 + 3 * MINUTE)
        again = queued("often", T0 + 3 * MINUTE, attempt=2, at=T0 + 2 * HOUR)
        await log.runs(retry_requested(bad, at=T0 + HOUR), again, succeeded(again))
        await caught_up(nats_url, database_url)
        kept, anew = await counted(database_url)
        assert kept == anew
        assert sum(row[6] for row in kept if row[1] == 3600) == 8

        async def by_job() -> list[tuple[Any, ...]]:
            database = await asyncpg.connect(database_url)
            try:
                rows = await database.fetch(
                    "SELECT job_id, sum(success)::int, sum(failed)::int FROM waterclock.job_stats GROUP BY 1"
                )
                return [tuple(row) for row in rows]
            finally:
                await database.close()

        await eventually(
            by_job,
            "hours to be counted",
            within=60,
            wanted=lambda found: found == [("often", 82, 8)],
            through=AWAY,
        )
    await rebuild(settings(nats_url, database_url), lambda _: None)
    rebuilt, _ = await counted(database_url)
    assert rebuilt == kept
