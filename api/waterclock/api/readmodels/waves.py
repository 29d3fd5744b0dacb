"""The parts of a wave as the read models have them."""

import msgspec
from msgspec import Struct

from waterclock.api.readmodels import statements
from waterclock.api.readmodels.pool import Pool
from waterclock.proto.answers import ENDED, MapProgress, Run
from waterclock.proto.spec import Node

_SQL = statements.load("waves.sql")
_decode = msgspec.json.Decoder(Run).decode


class Wave(Struct, frozen=True, kw_only=True):
    workflow_id: str
    version: int
    nodes: tuple[Node, ...]


async def nodes(pool: Pool, wave: str) -> dict[str, Run]:
    """The nodes of a wave that have runs, by their names."""
    found = [_decode(row["run"]) for row in await pool.fetch(_SQL["parts"], wave)]
    return {run.run_id.rpartition("~")[2]: run for run in found}


async def members(pool: Pool, run_ids: list[str]) -> dict[str, MapProgress]:
    """How far the fan-outs among a wave's nodes are."""
    counts: dict[str, dict[str, int]] = {}
    for row in await pool.fetch(_SQL["members"], run_ids) if run_ids else ():
        counts.setdefault(row["parent"], {})[row["status"]] = row["count"]
    return {
        parent: MapProgress(
            total=sum(by_status.values()),
            done=by_status.get("SUCCESS", 0),
            failed=sum(n for status, n in by_status.items() if status in ENDED and status != "SUCCESS"),
        )
        for parent, by_status in counts.items()
    }
