"""What the listings of docs/looking.md cost on a large history: a Postgres of its own, filled by SQL.

    python -m bench.looking [--runs 20000000] [--explain]

Prints one JSON line for each question: milliseconds of the first answer and of the median of five more. Needs about 600
bytes of disk a run in the temporary directory, and leaves nothing behind.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg

from bench.servers import postgres
from waterclock.api.auth.gate import LOCAL
from waterclock.api.queries.upcoming_fires import _Reader
from waterclock.api.readmodels import run_search, stats
from waterclock.api.readmodels.pool import Pool
from waterclock.api.readmodels.stats import Span
from waterclock.core.domain.instants import instant_of
from waterclock.projector.job_stats import JobStats
from waterclock.projector.sql.migrator import migrate
from waterclock.projector.write.database import connect
from waterclock.proto.queries import RunSearch, UpcomingQuery

JOBS = 100_000
WEEKS = 4
_DEFINITIONS = """
INSERT INTO job_definitions (job_id, namespace, name, standing, version, armed_version, effective_from, created_at,
                             updated_at, labels, spec)
SELECT 'job' || n, 'default', 'nightly report ' || n, 'SCHEDULED', n, n, $1, $1, $1,
       jsonb_build_object('team', 'team' || n % 50, 'shard', 'shard' || n % 5000),
       jsonb_build_object(
           'name', 'nightly report ' || n, 'task', '{"kind": "shell", "command": "true"}'::jsonb,
           'schedule', jsonb_build_object(
               'schedule_type', 'CRON',
               'cron_expression', jsonb_build_array((n % 60) || ' ' || (n / 60 % 24) || ' * * *')))
  FROM generate_series(0, $2::integer - 1) AS n
"""
_STATES = """
INSERT INTO job_state (job_id, namespace, status, next_run_at, created_at)
SELECT job_id, 'default', 'SCHEDULED',
       fire + CASE WHEN fire < $1 THEN interval '1 day' ELSE interval '0' END, created_at
  FROM (SELECT *, date_trunc('day', $1::timestamptz, 'UTC') + make_interval(mins => (version % 1440)::integer) AS fire
          FROM job_definitions) d
"""
_RUNS = """
INSERT INTO {table}
SELECT 'job' || job || '@' || to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISSUS"Z"'), 'job' || job, 'default',
       NULL, NULL, status, CASE WHEN status <> 'SUCCESS' THEN 'exit code ' || job % 7 END, 'schedule', 1, 1, 1, 0,
       at, at, at + interval '2 ms',
       CASE WHEN status NOT IN ('SKIPPED', 'MISSED', 'QUEUED') THEN at + interval '5 ms' END,
       CASE WHEN status NOT IN ('RUNNING', 'QUEUED')
            THEN at + interval '5 ms' + make_interval(secs => job % 400 / 20.0) END,
       at, 'executor-' || job % 8, CASE status WHEN 'SUCCESS' THEN 0 WHEN 'FAILED' THEN 1 + job % 7 END,
       CASE WHEN status = 'FAILED' THEN 'Traceback: connection to host ' || job % 1000 || ' refused' END,
       NULL, NULL, 0.2, 20000000, NULL, CASE WHEN job % 10 = 0 THEN 'reports' ELSE 'default' END, 'light', 0, n, n, at,
       NULL
  FROM (SELECT n, n * 7919 % $1::bigint AS job,
               $2::timestamptz
               + ($3::timestamptz - $2::timestamptz) * ((n - $4::bigint)::float / ($5::bigint - $4::bigint)) AS at,
               CASE WHEN n >= $6::bigint - 3000 THEN (ARRAY['RUNNING', 'QUEUED'])[1 + n % 2]
                    WHEN n % 100000 = 7 THEN 'MISSED' WHEN n % 1000 < 15 THEN 'FAILED'
                    WHEN n % 1000 < 18 THEN 'TIMED_OUT' WHEN n % 1000 < 30 THEN 'SKIPPED'
                    WHEN n % 1000 < 33 THEN 'CANCELLED' ELSE 'SUCCESS' END AS status
          FROM generate_series($4::bigint, $5::bigint - 1) AS n) made
"""


class Explained(Pool):
    """Remembers the last search."""

    last: tuple[str, tuple[Any, ...]] = ("", ())

    async def search(self, query: str, *arguments: Any) -> "list[asyncpg.Record]":
        self.last = query, arguments
        return await super().search(query, *arguments)


async def fill(database: asyncpg.Connection, runs: int, now: datetime) -> None:
    await database.execute(
        "SET search_path TO waterclock; SET synchronous_commit = off; SET maintenance_work_mem = '512MB'"
    )
    await database.execute(_DEFINITIONS, now - timedelta(weeks=WEEKS), JOBS)
    await database.execute(_STATES, now)
    parent = await database.fetchval(
        "SELECT relname FROM pg_class WHERE relkind = 'p' AND relname IN ('job_runs', 'run_state')"
        " AND relnamespace = 'waterclock'::regnamespace"
    )
    monday = (now - timedelta(days=now.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    first = monday - timedelta(weeks=WEEKS - 1)
    done = 0
    for week in range(WEEKS):
        start, end = first + timedelta(weeks=week), first + timedelta(weeks=week + 1)
        until = runs * (week + 1) // WEEKS
        table = f"{parent}_{start:%Y%m%d}"
        await database.execute(f"CREATE TABLE {table} (LIKE {parent} INCLUDING CONSTRAINTS)")
        await database.execute(
            _RUNS.format(table=table), JOBS, start, min(end, now), done, until, runs, timeout=3600
        )
        await database.execute(
            f"ALTER TABLE {parent} ATTACH PARTITION {table} FOR VALUES FROM ('{start:%Y-%m-%d}') TO ('{end:%Y-%m-%d}')",
            timeout=3600,
        )
        done = until
        print(json.dumps({"filled": done}), flush=True)
    await database.execute("VACUUM ANALYZE", timeout=3600)


def questions(pool: Pool, now: datetime) -> dict[str, Callable[[], Awaitable[Any]]]:
    day, week = now - timedelta(days=1), now - timedelta(days=7)

    def runs(**fields: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: run_search.search(pool, "default", RunSearch(**fields))

    def fires(start: datetime, **fields: Any) -> Callable[[], Awaitable[Any]]:
        app: Any = SimpleNamespace(pool=pool)
        place = (instant_of(start), "")
        return lambda: _Reader(app, UpcomingQuery(**fields), LOCAL, place, start + timedelta(days=1)).read(51)

    whole = Span(week.replace(minute=0, second=0, microsecond=0), now + timedelta(hours=1), 3600)
    return {
        "runs": runs(),
        "runs, 1,000 of them": runs(limit=1000),
        "runs of a time long ago": runs(end=now - timedelta(days=20)),
        "status=FAILED,TIMED_OUT": runs(status=("FAILED", "TIMED_OUT")),
        "status=FAILED&from=yesterday": runs(status=("FAILED",), start=day),
        "status=MISSED (1 in 100,000)": runs(status=("MISSED",)),
        "status=RUNNING": runs(status=("RUNNING",)),
        "status=SUCCESS": runs(status=("SUCCESS",)),
        "job": runs(job="job4711"),
        "job&status=SUCCESS": runs(job="job4711", status=("SUCCESS",)),
        "label of 20 jobs": runs(label=("shard=shard17",)),
        "label of 2,000 jobs": runs(label=("team=team3",)),
        "queue of a tenth": runs(queue="reports"),
        "queue that is not there": runs(queue="nowhere"),
        "executor": runs(executor="executor-3"),
        "trigger that is not there": runs(trigger="backfill"),
        "q in an error": runs(q="host 417 refused"),
        "q that is not there": runs(q="no such text"),
        "status=FAILED&q&label": runs(status=("FAILED",), q="refused", label=("team=team3",)),
        "upcoming, from now": fires(now),
        "upcoming, from in 12 h": fires(now + timedelta(hours=12)),
        "stats, 7 days by hour": lambda: stats.counted(pool, "default", whole),
        "stats, 7 days by executor": lambda: stats.counted(pool, "default", whole, "executor"),
        "stats, 7 days by job": lambda: stats.by_job(pool, "default", whole),
        "stats, 7 days by label": lambda: stats.by_label(pool, "default", whole, "team"),
    }


async def measure(runs: int, explain: bool, only: str) -> None:
    now = datetime.now(UTC)
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-") as directory,
        postgres(Path(directory) / "pg") as server,
    ):
        database = await asyncpg.connect(server.url)
        await migrate(database, "waterclock")
        await fill(database, runs, now)
        began = time.monotonic()
        await database.execute("SELECT count_runs()", timeout=3600)
        print(
            json.dumps({"question": "the upgrade's count", "seconds": round(time.monotonic() - began, 1)}),
            flush=True,
        )
        await count_hours(server.url)
        size = await database.fetchval("SELECT pg_database_size(current_database())")
        print(json.dumps({"runs": runs, "gigabytes": round(size / 1e9, 1)}), flush=True)
        async with Explained.open(server.url) as pool:
            for name, ask in questions(pool, now).items():
                if only not in name:
                    continue
                await answer(name, ask, pool, database if explain else None)
        await database.close()


async def count_hours(url: str) -> None:
    counting = await connect(url, name="bench", patience=600)
    hours = JobStats(counting)
    taken = []
    for _ in range(8 * 24):
        hours._not_before = 0.0
        began = time.monotonic()
        if not await hours.count_next():
            break
        taken.append(time.monotonic() - began)
    await counting.close()
    line = {"question": "an hour by job", "hours": len(taken), "seconds": round(statistics.median(taken), 2)}
    print(json.dumps(line), flush=True)


async def answer(
    name: str, ask: Callable[[], Awaitable[Any]], pool: Pool, database: asyncpg.Connection | None
) -> None:
    times = []
    found: Any = None
    for _ in range(6):
        began = time.monotonic()
        try:
            found = await ask()
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        times.append((time.monotonic() - began) * 1000)
    line: dict[str, Any] = {
        "question": name,
        "first_ms": round(times[0], 1),
        "ms": round(statistics.median(times[1:]), 1),
    }
    items = getattr(found, "items", found)
    line["found"] = (
        len(found.items) if hasattr(found, "next_cursor") else len(items() if callable(items) else items)
    )
    line["more"] = bool(getattr(found, "next_cursor", None))
    print(json.dumps(line), flush=True)
    if database is not None and isinstance(pool, Explained) and pool.last[0]:
        await database.execute("SET plan_cache_mode = force_custom_plan; SET jit = off")
        query, arguments = pool.last
        for row in await database.fetch(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {query}", *arguments):
            print("   ", row[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.looking")
    parser.add_argument("--runs", type=int, default=20_000_000)
    parser.add_argument("--explain", action="store_true")
    parser.add_argument("--only", default="", help="questions with this text")
    given = parser.parse_args()
    asyncio.run(measure(given.runs, given.explain, given.only))
