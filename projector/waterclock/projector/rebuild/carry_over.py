"""What a rebuild copies from the live tables, because the log no longer has it.

`RUNS` drops messages by age, and finished one-shots leave `JOBS`. A row is carried over if the event it began with is
not in the log: every run row holds that event's sequence. All other rows are made anew.
"""

import asyncpg
from msgspec import Struct

from waterclock.core.domain.readmodel.job_fold import derive_status
from waterclock.core.jetstream.log_identity import KnownStream, LogReplaced, LogWentBack, compare
from waterclock.core.jetstream.messages import StreamState
from waterclock.projector.write.database import SCHEMA, statement
from waterclock.projector.write.transaction import RowBatch, Store, load_jobs
from waterclock.projector.write.week_partitions import TABLES, WeekPartitions, existing_weeks
from waterclock.proto.events import Instant

_CHUNK = 5000
_NEVER = 2**62


class MissingRuns(Struct, frozen=True, kw_only=True):
    """Which sequences of `RUNS` the log does not have any more."""

    before: int
    after: int = _NEVER

    @property
    def is_same_log(self) -> bool:
        """The log is the one the live tables were made from, and has only dropped its beginning."""
        return self.after == _NEVER


class CarriedOver(Struct, frozen=True, kw_only=True):
    jobs: int
    runs: int


def missing_runs(known: KnownStream | None, state: StreamState) -> MissingRuns:
    """From what is remembered of `RUNS` and what it is now. A log that was replaced has none of it."""
    if known is None:
        return MissingRuns(before=0)
    try:
        compare(known, state)
    except LogReplaced:
        return MissingRuns(before=0, after=-1)
    except LogWentBack:
        return MissingRuns(before=state.first_seq, after=state.last_seq)
    return MissingRuns(before=state.first_seq)


async def carry_over(
    database: asyncpg.Connection, store: Store, weeks: WeekPartitions, missing: MissingRuns, now: Instant
) -> CarriedOver:
    """After `JOBS` is folded, and before `RUNS` is: a run's events look up its job."""
    await weeks.ensure(await existing_weeks(database, f"{SCHEMA}.{TABLES[0]}"), now)
    jobs = _count(await database.execute(statement("carry_definitions")))
    await database.execute(statement("carry_states"))
    runs = _count(await database.execute(statement("carry_runs"), missing.before, missing.after))
    await database.execute(statement("carry_attempts"), missing.before, missing.after)
    await database.execute(statement("carry_dead_letters"), missing.before, missing.after)
    await database.execute(statement("count_carried_runs"))
    before = _NEVER if missing.after < 0 else missing.before
    facts = await database.fetch(statement("carry_facts"), before)
    skips = await database.fetch(statement("carry_skips"))
    changed = sorted({row["job_id"] for row in (*facts, *skips)})
    for start in range(0, len(changed), _CHUNK):
        jobs_by_id = await load_jobs(database, changed[start : start + _CHUNK])
        for job in jobs_by_id.values():
            derive_status(job)
        await store.write(RowBatch(upserts={"job_state": [job.state_row() for job in jobs_by_id.values()]}))
    if not missing.is_same_log:
        await database.execute(statement("unlink_runs"), missing.after)
        await database.execute(statement("unlink_dead_letters"), missing.after)
    return CarriedOver(jobs=jobs, runs=runs)


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
