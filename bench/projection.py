"""What the read models cost: a projector and its Postgres, fed with a log as the other components write it.

    python -m bench.projection [JOBS]            one-shots that are all in the log when the projector comes
    python -m bench.projection --rate 50 [JOBS]  the same, as they come in, so many a second
    python -m bench.projection --recurring JOBS  runs of 1,000 recurring jobs
    python -m bench.projection --stored [JOBS]   schedules that are stored, while the projector runs
    python -m bench.projection --fires [JOBS]    one-shots that are in the tables, and fire while the projector runs

Prints one JSON line for each: microseconds of CPU a job, of the projector and of Postgres. On a busy machine only these
can be compared, not how long it took.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import asyncpg
from msgspec.structs import replace

from bench import jobs
from bench.accounting import cpu_seconds
from bench.servers import nats, postgres
from waterclock.core.domain.ids import run_id, timed_id
from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.settings import Settings, as_environment
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Cursor, Frame, JobCreated, JobFrame, RunQueued, RunSucceeded
from waterclock.proto.spec import Handler, JobSpec, Schedule

Kind = Literal["one_shots", "recurring", "stored", "fires"]

PARTITIONS = 16
FRAME = 128
"""Jobs, and runs, in a frame."""
RECURRING = 1_000
_WITHIN = 300.0
_CODE = """
import sys
from waterclock.core.runtime.lifecycle import run_service
from waterclock.core.runtime.settings import load
from waterclock.projector.service import run
sys.exit(run_service("projector", run, load({})))
"""
SPEC = JobSpec(name="noop", task=Handler(handler="noop"), payload=jobs.PAYLOAD)
EXECUTOR = "executor-bench-0a1b2c3d"


class Log:
    def __init__(self, connection: Connection) -> None:
        self._publisher = Publisher(connection)
        self._random = 7

    def id(self) -> str:
        self._random = self._random * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        return timed_id(now_us(), self._random >> 14)

    async def one_shots(self, count: int, partition: int) -> None:
        """As a bulk submit leaves them: a frame of definitions, one of runs queued, one of how they ended."""
        ids, version = await self.definitions([SPEC] * count, partition)
        now = now_us()
        await self.fires(ids, partition, [now] * count, version)

    async def definitions(self, specs: Sequence[JobSpec], partition: int) -> tuple[list[str], int]:
        """A frame of them: their ids, and its sequence."""
        key, now = self.id(), now_us()
        created = tuple(
            JobCreated(job_id=f"{key}~{number}", spec=spec, at=now, created_at=now, actor="bench")
            for number, spec in enumerate(specs)
        )
        ids = [event.job_id for event in created]
        subject = names.job_subject(partition, ids[0])
        return ids, await self._publisher.publish(subject, encode(JobFrame(events=created)))

    async def recurring(self, ids: list[str], partition: int) -> None:
        spec = JobSpec(
            name="noop",
            task=Handler(handler="noop"),
            schedule=Schedule(schedule_type="INTERVAL", interval_seconds=1),
        )
        now = now_us()
        jobs = tuple(JobCreated(job_id=each, spec=spec, at=now, created_at=now) for each in ids)
        await self._publisher.publish(names.job_subject(partition, ids[0]), encode(JobFrame(events=jobs)))

    async def fires(self, ids: list[str], partition: int, times: Sequence[int], version: int = 1) -> None:
        """A frame of runs queued, one of how they ended."""
        queued = tuple(
            RunQueued(
                run_id=run_id(each, at),
                at=at + 900,
                version=version,
                scheduled=at,
                due=at,
                handler="noop",
                once=True,
            )
            for each, at in zip(ids, times, strict=True)
        )
        ended = tuple(
            RunSucceeded(
                run_id=each.run_id,
                at=each.due + 5_123,
                attempt=1,
                executor_id=EXECUTOR,
                started=each.due + 4_001,
            )
            for each in queued
        )
        for events in (queued, ended):
            frame = Frame(writer="bench", events=events, cursor=Cursor(jobs=version, time=times[-1]))
            await self._publisher.publish(names.runs_subject(partition), encode(frame))


@contextmanager
def projector(nats_url: str, database_url: str) -> Iterator[int]:
    settings = Settings(nats_url=nats_url, database_url=database_url, partitions=PARTITIONS)
    environment = {**os.environ, **as_environment(settings), "WATERCLOCK_LOG_LEVEL": "warning"}
    process = subprocess.Popen([sys.executable, "-c", _CODE], env=environment)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


_ENDED = "SELECT count(*) FROM waterclock.job_runs WHERE status = 'SUCCESS'"
_DEFINED = "SELECT count(*) FROM waterclock.job_definitions"


async def until(database: asyncpg.Connection, query: str, count: int) -> None:
    """Until a query counts so many. Asked rarely: whoever counts a million rows ten times a second measures the
    counting."""
    deadline = time.monotonic() + _WITHIN
    while time.monotonic() < deadline:
        try:
            positions = await database.fetchval("SELECT sum(position) FROM waterclock.projection_state")
            if positions is not None and await database.fetchval(query) >= count:
                return
        except asyncpg.PostgresError:
            pass
        await asyncio.sleep(1.0)
    raise RuntimeError("the projector did not come to the end")


async def measure(count: int, rate: int | None, kind: Kind) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as directory:
        root = Path(directory)
        with nats(root / "nats", sync=None) as server, postgres(root / "postgres") as data:
            async with Connection.open(server.url, name="bench") as connection:
                await ensure_streams(connection, Layout(partitions=PARTITIONS))
                database = await asyncpg.connect(data.url)
                log = Log(connection)
                if rate is None and kind in ("one_shots", "recurring"):
                    await _write_all(log, count, kind == "recurring")
                before = time.monotonic()
                with projector(server.url, data.url) as pid:
                    if rate is not None:
                        await until(database, _DEFINED, 0)
                        start, started = cpu_seconds(pid), cpu_seconds(data.pid)
                        await _write_slowly(log, count, rate)
                    elif kind == "stored":
                        await until(database, _DEFINED, 0)
                        start, started = cpu_seconds(pid), cpu_seconds(data.pid)
                        await _write_schedules(log, count)
                    elif kind == "fires":
                        stored = await _write_futures(log, count)
                        await until(database, _DEFINED, count)
                        start, started = cpu_seconds(pid), cpu_seconds(data.pid)
                        for frame in stored:
                            await log.fires(*frame)
                    else:
                        start, started = 0.0, cpu_seconds(data.pid)
                    await until(database, _DEFINED if kind == "stored" else _ENDED, count)
                    seconds = time.monotonic() - before
                    own, theirs = cpu_seconds(pid) - start, cpu_seconds(data.pid) - started
                    size = await database.fetchval("SELECT pg_database_size(current_database())")
                    wal = await database.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
                await database.close()
    return {
        "name": "projection",
        "jobs": count,
        "rate": rate or 0,
        "kind": kind,
        "projector_us": round(own * 1e6 / count, 1),
        "postgres_us": round(theirs * 1e6 / count, 1),
        "stored_bytes": size // count,
        "wal_bytes": int(wal) // count,
        "seconds": round(seconds, 1),
    }


async def _write_all(log: Log, count: int, recurring: bool) -> None:
    if not recurring:
        for number in range(0, count, FRAME):
            await log.one_shots(min(FRAME, count - number), number // FRAME % PARTITIONS)
        return
    ids = [f"job{number}" for number in range(RECURRING)]
    for partition in range(PARTITIONS):
        await log.recurring(ids[partition::PARTITIONS], partition)
    second = now_us() // 1_000_000 * 1_000_000
    for fire in range(count // RECURRING):
        for partition in range(PARTITIONS):
            due = ids[partition::PARTITIONS]
            await log.fires(due, partition, [second + fire * SECOND] * len(due))


async def _write_schedules(log: Log, count: int) -> None:
    now = time.time()
    for number in range(0, count, FRAME):
        crons = [
            jobs.yearly(each, now)["cron_expression"] for each in range(number, min(number + FRAME, count))
        ]
        specs = [
            replace(SPEC, schedule=Schedule(schedule_type="CRON", cron_expression=(cron,))) for cron in crons
        ]
        await log.definitions(specs, number // FRAME % PARTITIONS)


async def _write_futures(log: Log, count: int) -> list[tuple[list[str], int, list[int], int]]:
    """One-shots, 10,000 a second. Returns what `fires` is to be given when their time has come."""
    stored = []
    begin = now_us()
    for number in range(0, count, FRAME):
        times = [begin + 100 * each for each in range(number, min(number + FRAME, count))]
        specs = [
            replace(SPEC, schedule=Schedule(schedule_type="FUTURE", schedule_time=datetime_of(each)))
            for each in times
        ]
        partition = number // FRAME % PARTITIONS
        ids, version = await log.definitions(specs, partition)
        stored.append((ids, partition, times, version))
    return stored


async def _write_slowly(log: Log, count: int, rate: int) -> None:
    """One at a time, evenly."""
    began = time.monotonic()
    for number in range(count):
        await log.one_shots(1, number % PARTITIONS)
        await asyncio.sleep(max(0.0, began + (number + 1) / rate - time.monotonic()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.projection")
    parser.add_argument("jobs", type=int, nargs="?", default=100_000)
    parser.add_argument("--rate", type=int)
    kinds = parser.add_mutually_exclusive_group()
    for kind in ("recurring", "stored", "fires"):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="one_shots")
    given = parser.parse_args()
    print(json.dumps(asyncio.run(measure(given.jobs, given.rate, given.kind))))
