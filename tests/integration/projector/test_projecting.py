"""From the log into the tables, with real servers."""

import asyncpg

from projecting.log import Log
from projecting.service import caught_up, projecting
from projecting.story import EVERY_MINUTE, MINUTE, T0, created, queued, succeeded


async def test_jobs_and_runs_appear_in_the_tables(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    version = await log.jobs(created("backup", name="backup", schedule=EVERY_MINUTE, payload={"a": 1}))
    q = queued("backup", T0 + MINUTE, version=version)
    await log.runs(q)
    await log.runs(succeeded(q, output={"rows": 7}))
    async with projecting(nats_url, database_url):
        await caught_up(nats_url, database_url)
        job = await database.fetchrow("SELECT * FROM waterclock.jobs WHERE job_id = 'backup'")
        run = await database.fetchrow("SELECT * FROM waterclock.job_runs WHERE job_id = 'backup'")
    assert job is not None
    assert run is not None
    assert (job["name"], job["version"], job["schedule_type"]) == ("backup", version, "INTERVAL")
    assert job["next_run_at"].timestamp() * 1e6 == T0 + 2 * MINUTE
    assert (run["run_id"], run["status"], run["output"]) == (q.run_id, "SUCCESS", '{"rows": 7}')
