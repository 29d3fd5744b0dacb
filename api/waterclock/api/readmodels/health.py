"""How far the read models are, and what they show to be wrong."""

from datetime import datetime

from msgspec import Struct

from waterclock.api.readmodels import statements
from waterclock.api.readmodels.pool import Pool
from waterclock.core.domain.instants import instant_of
from waterclock.proto.events import Instant

_SQL = statements.load("health.sql")


class Folded(Struct, frozen=True):
    position: int
    event_time: datetime | None


async def folded(pool: Pool, stream: str) -> dict[int, Folded]:
    """How far each partition of a stream is folded in."""
    rows = await pool.fetch(_SQL["folded"], stream)
    return {row["partition"]: Folded(row["position"], row["event_time"]) for row in rows}


async def dead_letters(pool: Pool, namespace: str) -> int:
    row = await pool.fetch_one(_SQL["dead_letters"], namespace)
    return 0 if row is None else int(row["count"])


async def seen(pool: Pool) -> list[tuple[str, Instant, int]]:
    """Of each stream that was folded: its name, when it was created, and the highest sequence ever seen."""
    return [
        (row["stream"], instant_of(row["created"]), row["last_sequence"])
        for row in await pool.fetch(_SQL["seen"])
    ]
