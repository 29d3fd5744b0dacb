"""The parts of a wave as the read models have them."""

from typing import Any

import msgspec
from msgspec import Struct

from waterclock.api.readmodels import statements
from waterclock.api.readmodels.pool import Pool
from waterclock.proto.answers import Run
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


async def parameters(pool: Pool, wave: str) -> Any:
    """What a wave was started with."""
    row = await pool.fetch_one(_SQL["parameters"], wave)
    return None if row is None or row["parameters"] is None else msgspec.json.decode(row["parameters"])
