"""The projector makes of an earlier version's log the same read models that version had made."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from projector_rig.service import caught_up, running_projector
from stored_log.stored_log import PARTITIONS, VERSIONS, load, load_rows, restore


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_same_rows(version: str, nats_url: str, database_url: str) -> None:
    await restore(nats_url, load(version, "stopped"))
    async with running_projector(nats_url, database_url, partitions=PARTITIONS):
        await caught_up(nats_url, database_url)
    expected = load_rows(version)
    connection = await asyncpg.connect(database_url)
    try:
        for table, rows in expected.items():
            found = await connection.fetch(f"SELECT to_jsonb(t)::text AS row FROM waterclock.{table} t")
            assert list(_differences(rows, [json.loads(row["row"]) for row in found])) == [], table
    finally:
        await connection.close()
    assert len(expected["job_runs"]) > 100


def _differences(expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> Iterator[str]:
    """What differs, column by column: a row of this size is no use in an error. A column that there was not is none."""
    before, now = ({_key(row): row for row in rows} for rows in (expected, found))
    for key in before.keys() ^ now.keys():
        yield f"{key} only {'before' if key in before else 'now'}"
    for key in before.keys() & now.keys():
        for column, value in before[key].items():
            if value in (now[key].get("skipped") or ()):
                continue  # a fire that was to be left out was shown as the next
            if _mended(value, now[key].get(column), before[key]) != now[key].get(column):
                yield f"{key}.{column}: {before[key].get(column)!r} became {now[key].get(column)!r}"


def _mended(value: Any, now: Any, row: dict[str, Any]) -> Any:
    """What the version before had, with what was not so in it: a run that timed out had no error."""
    if value is None and row.get("status") == "TIMED_OUT" and now == row["reason"]:
        return now
    if isinstance(value, dict) and isinstance(now, dict) and value.get("status") == "TIMED_OUT":
        return {**value, "error_message": now.get("error_message")}
    return value


def _key(row: dict[str, Any]) -> str:
    names = (
        "job_id",
        "run_id",
        "workflow_id",
        "workflow_run_id",
        "node",
        "id",
        "attempt_number",
        "queued_time",
    )
    of_run = "run_id" in row  # attempts had no job_id
    return "/".join(str(row[name]) for name in names if name in row and not (of_run and name == "job_id"))
