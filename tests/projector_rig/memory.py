"""A Postgres in memory, as far as a projection asks one: to fold a log in batches without a server."""

from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
from msgspec import Struct
from msgspec.json import decode

from waterclock.core.domain.readmodel.rows import JobRow, RunRow
from waterclock.core.domain.readmodel.run_stats import histogram_of
from waterclock.core.domain.readmodel.short_life import StoredOneShot
from waterclock.projector.fold.projection import Projection
from waterclock.projector.read.positions import PositionMove, Positions
from waterclock.projector.write.transaction import Row, RowBatch
from waterclock.proto import names
from waterclock.proto.events import RunQueued
from waterclock.proto.spec import Schedule

_KEYS = {
    "run_state": (0, 31),
    "earlier_attempts": (0, 1, 7, 13),
    "dead_letters": (0,),
    "job_definitions": (0,),
    "job_state": (0,),
    "run_stats": (0, 1, 2, 3, 4, 5),
}
_RUN_FIXED = (1, 2, 7, 12, 29)


class _Scheduled(Struct):
    schedule: Schedule = Schedule()


class MemoryStore:
    """In place of `Store`, `WeekPartitions` and the functions that load."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {table: {} for table in _KEYS}
        self.position = {names.JOBS: 0, names.RUNS: 0}
        self.refused = 0

    def projection(self, careful_through: int = 0) -> Projection:
        """One that begins at the position there is, as after a restart."""
        positions = Positions({(stream, 0): at for stream, at in self.position.items()})
        stands_in: Any = self
        return Projection(stands_in, stands_in, stands_in, positions, careful_through)

    async def ensure(self, instants: Iterable[int], now: int) -> None:
        """Weeks need no partition here."""

    async def write(self, batch: RowBatch, moves: Sequence[PositionMove] = ()) -> None:
        inserts = {table: list(rows) for table, rows in batch.inserts.items()}
        for table, rows in batch.presumed_new.items():
            inserts.setdefault(table, []).extend((*row, ()) if table == "job_state" else row for row in rows)
        for table, rows in inserts.items():
            keys = [self._key(table, row) for row in rows]
            if len(set(keys)) < len(keys) or not self.tables[table].keys().isdisjoint(keys):
                self.refused += 1
                raise asyncpg.UniqueViolationError(table)
        for table, rows in inserts.items():
            self.tables[table].update({self._key(table, row): row for row in rows})
        for run_id in batch.revived:
            self.tables["dead_letters"].pop((run_id,), None)
        for table, rows in batch.upserts.items():
            for row in rows:
                self._upsert(table, row)
        for move in moves:
            assert self.position[move.stream] == move.expected
            self.position[move.stream] = move.position

    def _upsert(self, table: str, row: Row) -> None:
        key = self._key(table, row)
        there = self.tables[table].get(key)
        if there is not None and table == "earlier_attempts":
            return
        if there is not None and table == "run_state":
            row = tuple(
                old if place in _RUN_FIXED else new
                for place, (old, new) in enumerate(zip(there, row, strict=True))
            )
        if there is not None and table == "run_stats":
            row = tuple(
                old if place < 6 else old + new
                for place, (old, new) in enumerate(zip(there, row, strict=True))
            )
        self.tables[table][key] = row

    def contents(self) -> dict[str, dict[tuple[Any, ...], Row]]:
        """With histograms added up, and without counts that were taken back."""
        stats = {}
        for key, row in self.tables["run_stats"].items():
            histograms = [
                {index: count for index, count in histogram_of(stored).items() if count}
                for stored in row[11:]
            ]
            if any(row[6:11]) or any(histograms):
                stats[key] = (*row[:11], *histograms)
        return {**self.tables, "run_stats": stats}

    async def load_runs(self, _: object, run_ids: Iterable[str], newest: int) -> dict[str, RunRow]:
        wanted = set(run_ids)
        found = [row for row in self.tables["run_state"].values() if row[0] in wanted]
        assert len({row[0] for row in found}) == len(found)
        return {row[0]: RunRow(**dict(zip(RunRow.__struct_fields__, row, strict=True))) for row in found}

    async def load_due_one_shots(
        self, _: object, runs: Iterable[tuple[str, RunQueued]]
    ) -> dict[str, StoredOneShot]:
        found = {}
        for job_id, queued in runs:
            state = self.tables["job_state"].get((job_id,))
            if (
                state is not None
                and state[2] == "SCHEDULED"
                and (state[9] if state[3] is None else state[3]) == queued.scheduled
                and state[4:9] == (None, None, None, None, None)
                and not state[10]
                and self.tables["job_definitions"][(job_id,)][4] == queued.version
            ):
                found[job_id] = StoredOneShot(job_id, state[1], state[9], state[3] is not None)
        return found

    async def load_jobs(self, _: object, job_ids: Iterable[str]) -> dict[str, JobRow]:
        found = {}
        for job_id in job_ids:
            if (definition := self.tables["job_definitions"].get((job_id,))) is not None:
                state = self.tables["job_state"][(job_id,)]
                fields = ("job_id", "namespace", "name", "standing", "version", "armed_version")
                facts = ("next_run_at", "last_fire_at", "fire_sequence", "ended_version", "ended_time")
                found[job_id] = JobRow(
                    **dict(zip(fields, definition, strict=False)),
                    effective_from=definition[6],
                    created_at=definition[7],
                    schedule=decode(definition[11], type=_Scheduled).schedule,
                    status=state[2],
                    **dict(zip(facts, state[3:8], strict=True)),
                    ended_sequence=state[8],
                    skipped=state[10],
                )
        return found

    @staticmethod
    def _key(table: str, row: Row) -> tuple[Any, ...]:
        return tuple(row[place] for place in _KEYS[table])
