"""From the log into the tables, with real servers."""

import asyncpg

from projector_rig.builders import EVERY_MINUTE, T0, created, failed, queued, spec, succeeded
from projector_rig.log import PARTITIONS, Log
from projector_rig.service import caught_up, running_projector
from waterclock.core.domain.instants import MINUTE, datetime_of
from waterclock.core.domain.readmodel.short_life import StoredOneShot
from waterclock.projector.write.database import connect
from waterclock.projector.write.transaction import load_due_one_shots
from waterclock.proto.codec import encode
from waterclock.proto.events import JobUpdated
from waterclock.proto.names import partition_of, runs_subject
from waterclock.proto.spec import Schedule


async def test_jobs_and_runs_appear_in_the_tables(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    version = await log.jobs(created("backup", name="backup", schedule=EVERY_MINUTE, payload={"a": 1}))
    q = queued("backup", T0 + MINUTE, version=version)
    await log.runs(q)
    await log.runs(succeeded(q, output={"rows": 7}))
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
        job = await database.fetchrow("SELECT * FROM waterclock.jobs WHERE job_id = 'backup'")
        run = await database.fetchrow("SELECT * FROM waterclock.job_runs WHERE job_id = 'backup'")
    assert job is not None
    assert run is not None
    assert (job["name"], job["version"], job["schedule_type"]) == ("backup", version, "INTERVAL")
    assert job["next_run_at"].timestamp() * 1e6 == T0 + 2 * MINUTE
    assert (run["run_id"], run["status"], run["output"]) == (q.run_id, "SUCCESS", '{"rows": 7}')


async def test_a_row_that_postgres_refuses_does_not_stop_the_others(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    good, bad, broken = queued("good"), queued("bad"), queued("broken", at=2**80)
    await log.runs(good, bad, broken)
    await log.runs(failed(bad, exit_code=2**80, error_message="boom"), succeeded(good))
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    rows = await database.fetch("SELECT run_id, status, reason FROM waterclock.job_runs ORDER BY 1")
    assert [tuple(row) for row in rows] == [
        (bad.run_id, "FAILED", "not all of it could be stored: OverflowError"),
        (good.run_id, "SUCCESS", None),
    ]


async def test_messages_that_cannot_be_read_are_left_out(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    q = queued("good")
    partition = partition_of(q.run_id, PARTITIONS)
    await log.raw(runs_subject(partition), b"\xff garbage")
    event = encode(q).decode()
    newer = '{"type":"levitated","run_id":"x","at":1}'
    await log.raw(runs_subject(partition), f'{{"writer":"w","v":9,"events":[{newer},{event}]}}'.encode())
    await log.raw("wc.jobs.0.x", b"{}")
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    assert await database.fetchval("SELECT array_agg(run_id) FROM waterclock.job_runs") == [q.run_id]


async def test_a_life_that_is_in_the_log_twice_has_its_rows_once(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    async def tell_it(*jobs: str) -> None:
        await log.jobs(*(created(job) for job in jobs), subject=jobs[0])
        runs = [queued(job) for job in jobs]
        await log.runs(*runs)
        await log.runs(*map(succeeded, runs))

    await tell_it("one", "two")
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    await tell_it("one", "three")
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
        await tell_it("four", "two")
        await caught_up(nats_url, database_url)
    found = await database.fetch(
        "SELECT j.job_id, j.status, j.version, r.status AS run FROM waterclock.jobs j"
        " LEFT JOIN waterclock.job_runs r USING (job_id) ORDER BY 1"
    )
    assert [tuple(row) for row in found] == [
        ("four", "COMPLETED", 3, "SUCCESS"),
        ("one", "COMPLETED", 2, "SUCCESS"),
        ("three", "COMPLETED", 2, "SUCCESS"),
        ("two", "COMPLETED", 3, "SUCCESS"),
    ]
    assert await database.fetchval("SELECT sum(success) FROM waterclock.run_stats WHERE seconds = 60") == 4


async def test_a_stored_one_shot_that_fires_is_over_unless_it_has_been_edited(
    log: Log, nats_url: str, database_url: str, database: asyncpg.Connection
) -> None:
    soon = Schedule(schedule_type="FUTURE", schedule_time=datetime_of(T0 + MINUTE))
    jobs = ("plain", "edited", "late")
    version = await log.jobs(
        *(created(job, schedule=soon) for job in jobs), created("at-once"), subject="plain"
    )
    await log.jobs(JobUpdated(job_id="edited", spec=spec(schedule=EVERY_MINUTE), at=T0 + 5, created_at=T0))
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    times = {"plain": T0 + MINUTE, "edited": T0 + MINUTE, "late": T0 + 2 * MINUTE, "at-once": T0}
    runs = {job: queued(job, time, version=version, once=True) for job, time in times.items()}
    reader = await connect(database_url, name="test")
    due = await load_due_one_shots(reader, runs.items())
    await reader.close()
    assert due == {
        "plain": StoredOneShot("plain", "default", T0, timed=True),
        "at-once": StoredOneShot("at-once", "default", T0, timed=False),
    }
    await log.runs(*runs.values())
    await log.runs(*map(succeeded, runs.values()))
    async with running_projector(nats_url, database_url):
        await caught_up(nats_url, database_url)
    found = await database.fetch(
        "SELECT j.job_id, j.status, extract(epoch FROM j.next_run_at) * 1000000, r.status FROM waterclock.jobs j"
        " JOIN waterclock.job_runs r USING (job_id) ORDER BY 1"
    )
    assert [tuple(row) for row in found] == [
        ("at-once", "COMPLETED", None, "SUCCESS"),
        ("edited", "SCHEDULED", T0 + 2 * MINUTE, "SUCCESS"),
        ("late", "COMPLETED", None, "SUCCESS"),
        ("plain", "COMPLETED", None, "SUCCESS"),
    ]
