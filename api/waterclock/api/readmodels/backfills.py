"""How the runs of a backfill are doing, and how past fires went."""

from datetime import datetime

from msgspec import Struct

from waterclock.api.readmodels import statements
from waterclock.api.readmodels.pool import Pool
from waterclock.core.domain.instants import instant_of
from waterclock.proto.events import Instant
from waterclock.proto.verdicts import TERMINAL

_SQL = statements.load("backfills.sql")


class Progress(Struct, frozen=True):
    done: int = 0
    failed: int = 0
    active: int = 0


NONE = Progress()


async def of_backfill(pool: Pool, backfill_id: str) -> Progress:
    counts = {row["status"]: row["count"] for row in await pool.fetch(_SQL["progress"], backfill_id)}
    done = counts.get("SUCCESS", 0)
    ended = sum(count for status, count in counts.items() if status in TERMINAL)
    return Progress(done, ended - done, sum(counts.values()) - ended)


async def outcomes(pool: Pool, job_id: str, start: datetime, end: datetime) -> dict[Instant, set[str]]:
    """The statuses of the runs of each scheduled time in a range."""
    found: dict[Instant, set[str]] = {}
    for row in await pool.fetch(_SQL["outcomes"], job_id, start, end):
        found.setdefault(instant_of(row["scheduled_time"]), set()).add(row["status"])
    return found
