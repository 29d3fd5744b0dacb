"""Dead letters as the read models have them."""

from datetime import datetime

import msgspec

from waterclock.api.readmodels import cursor, statements
from waterclock.api.readmodels.pool import Pool
from waterclock.proto.answers import DeadLetter, Page
from waterclock.proto.queries import DeadLettersQuery

_SQL = statements.load("dead_letters.sql")
_decode = msgspec.json.Decoder(DeadLetter).decode


async def page(pool: Pool, namespace: str, query: DeadLettersQuery) -> Page[DeadLetter]:
    dead, run_id = cursor.read(query.cursor, tuple[datetime, str]) if query.cursor else (None, None)
    rows = await pool.fetch(
        _SQL["page"],
        namespace,
        query.job_id,
        query.status,
        statements.containing(query.q),
        query.after,
        query.before,
        dead,
        run_id,
        query.limit + 1,
    )
    kept = rows[: query.limit]
    more = len(rows) > query.limit
    return Page(
        items=[_decode(row["letter"]) for row in kept],
        next_cursor=cursor.write((kept[-1]["dead_time"], kept[-1]["run_id"])) if more else None,
    )
