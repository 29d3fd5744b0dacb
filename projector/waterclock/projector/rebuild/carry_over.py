"""What a rebuild takes from the live tables, because the log no longer tells it.

`RUNS` forgets by age, and finished one-shots leave `JOBS`. A row is carried over if the event it began with is not
in the log: every run remembers that event's sequence. All other rows are made anew.
"""

import asyncpg
from msgspec import Struct

from waterclock.core.domain.readmodel import job_fold
from waterclock.core.jetstream.log_identity import KnownStream, LogReplaced, LogWentBack, compare
from waterclock.core.jetstream.messages import StreamState
from waterclock.projector.sql.statements import statement
from waterclock.projector.write.database import SCHEMA
from waterclock.projector.write.store import Store, load_jobs, states_of
from waterclock.projector.write.week_partitions import TABLES, Weeks, weeks_in
from waterclock.proto.events import Instant

_CHUNK = 5000
_NEVER = 2**62


class Gone(Struct, frozen=True, kw_only=True):
    """Which sequences of `RUNS` the log does not have any more."""

    before: int
    after: int = _NEVER

    @property
    def is_ordinary(self) -> bool:
        """The log is the one the live tables were made from, and has only forgotten its beginning."""
        return self.after == _NEVER


class Carried(Struct, frozen=True, kw_only=True):
    jobs: int
    runs: int


def gone(known: KnownStream | None, state: StreamState) -> Gone:
    """From what is remembered of `RUNS` and what it is now. A log that was replaced has none of it."""
    if known is None:
        return Gone(before=0)
    try:
        compare(known, state)
    except LogReplaced:
        return Gone(before=0, after=-1)
    except LogWentBack:
        return Gone(before=state.first_seq, after=state.last_seq)
    return Gone(before=state.first_seq)


async def carry_over(
    database: asyncpg.Connection, store: Store, weeks: Weeks, lost: Gone, now: Instant
) -> Carried:
    """After `JOBS` is folded, and before `RUNS` is: a run's events look up its job."""
    await weeks.ensure(await weeks_in(database, f"{SCHEMA}.{TABLES[0]}"), now)
    jobs = _count(await database.execute(statement("carry_definitions")))
    await database.execute(statement("carry_states"))
    runs = _count(await database.execute(statement("carry_runs"), lost.before, lost.after))
    await database.execute(statement("carry_attempts"), lost.before, lost.after)
    await database.execute(statement("carry_dead_letters"), lost.before, lost.after)
    before = _NEVER if lost.after < 0 else lost.before
    told = [row["job_id"] for row in await database.fetch(statement("carry_facts"), before)]
    for start in range(0, len(told), _CHUNK):
        heads = await load_jobs(database, told[start : start + _CHUNK])
        for head in heads.values():
            job_fold.settle(head)
        await store.write(states_of(heads.values()))
    if not lost.is_ordinary:
        await database.execute(statement("unlink_runs"), lost.after)
        await database.execute(statement("unlink_dead_letters"), lost.after)
    return Carried(jobs=jobs, runs=runs)


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
