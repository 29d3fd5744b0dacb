"""Do all doors say the same? REST, SQL, `why` and the queues are compared with the log and with each other.

What is under way is no disagreement. So the log's ends are read first, the read models are waited for until they have
come that far, what has changed since is left out, and whatever disagrees is looked at once more, a moment later: it is
told only if it disagrees still.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import NotFound, Unavailable
from waterclock.api.queries import fleet, jobs, runs, schedules
from waterclock.api.queries.doctor import agreement
from waterclock.api.queries.doctor.agreement import LoggedRun
from waterclock.api.queries.doctor.log_door import LogEnds, log_ends, logged_runs, read_models_reach
from waterclock.api.readmodels import doors
from waterclock.api.registry import streams
from waterclock.core.domain import ids
from waterclock.core.domain.instants import instant_of
from waterclock.core.jetstream.fleet import queue_depths
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Consistency, Diagnostic, Disagreement, Run
from waterclock.proto.queries import ConsistencyQuery, JobRef, JobsQuery, NextQuery, RunRef

_FRESH_SECONDS = 3.0
_FRESH_SECONDS_FOR_ALL = 60.0
_LOOK_AGAIN_SECONDS = 2.5
"""Longer than the tables of executors and queues are behind."""
_AT_ONCE = 8
_MOST_TOLD = 1000
_MOST_RUNNING = 1000
_RUNS_OVER_REST = 50
"""Of each partition, where all are compared: those that one asks for by themselves."""

_FARTHEST_BACK = 100_000
"""Frames: a sample has no run that began before so many. All of them are compared only when asked for."""

_one_at_a_time = asyncio.Semaphore(1)
"""It reads much, and who asked may read the answer slowly: whoever comes meanwhile is told to come again."""


class _Look(Struct):
    """What was looked at, and what disagreed."""

    jobs: int = 0
    runs: int = 0
    found: dict[tuple[str, str, tuple[str, str]], Disagreement] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    """Where in the log the runs begin that disagree."""

    def add(self, disagreements: Iterable[Disagreement], begins: Mapping[str, int] | None = None) -> None:
        for each in disagreements:
            self.found[each.about, each.field, each.doors] = each
            if begins is not None and each.about in begins:
                self.begins[each.about] = begins[each.about]


@streams(methods.SYSTEM_CONSISTENCY)
async def consistency(
    app: Application, request: ConsistencyQuery, caller: Caller
) -> AsyncIterator[Consistency]:
    """Progress while all is compared, then the result."""
    if _one_at_a_time.locked():
        raise Unavailable.because("another comparison is under way", retry_after=5.0)
    async with _one_at_a_time:
        ends = await log_ends(app)
        patience = _FRESH_SECONDS_FOR_ALL if request.all else _FRESH_SECONDS
        if not await read_models_reach(app, ends, patience):
            yield _behind(patience)
            return
        look, doors_of = _Look(), _Doors(app, caller, ends)
        if request.all:
            async for read in doors_of.look_at_all(look):
                yield Consistency(read=min(0.99, read))
        else:
            await doors_of.look_at_some(look, request.sample)
        if look.found:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            ends = await log_ends(app)
            if not await read_models_reach(app, ends, patience):
                yield _behind(patience)
                return
            again = _Look()
            await _Doors(app, caller, ends).look_again(again, look)
            look.found = {key: again.found[key] for key in look.found if key in again.found}
        yield _result(look)


async def check_consistency(app: Application, caller: Caller) -> list[Diagnostic]:
    """A few jobs and runs."""
    try:
        *_, result = [said async for said in consistency(app, ConsistencyQuery(), caller)]
    except Unavailable as busy:
        return [Diagnostic(check="consistency", verdict="ok", detail=f"not compared now: {busy}")]
    if result.ok:
        return [Diagnostic(check="consistency", verdict="ok", detail=result.note)]
    found = [
        Diagnostic(check="consistency", verdict="problem", detail=str(each)) for each in result.disagreements
    ]
    return found or [Diagnostic(check="consistency", verdict="problem", detail=result.note)]


class _Doors:
    """One look through all of them, at what had happened up to the ends."""

    def __init__(self, app: Application, caller: Caller, ends: LogEnds) -> None:
        self._app = app
        self._caller = caller
        self._namespace = caller.namespace
        self._ends = ends

    async def look_at_some(self, look: _Look, count: int) -> None:
        pool = self._app.pool
        await self._jobs(look, await doors.some_jobs(pool, self._namespace, count))
        await self._listing(look, count)
        newest = max(self._ends.runs.values(), default=0)
        first = max(self._ends.first_run, newest - _FARTHEST_BACK)
        begins = await doors.some_runs(pool, self._namespace, count, first)
        await self._runs(look, begins)
        await self._fleet(look)

    async def look_again(self, look: _Look, before: _Look) -> None:
        """At what disagreed."""
        about = {name for name, _, _ in before.found}
        await self._jobs(look, sorted(name for name in about if "@" not in name))
        await self._listing(look, 1000)
        await self._runs(look, before.begins)
        await self._fleet(look)

    async def look_at_all(self, look: _Look) -> AsyncIterator[float]:
        pool, partitions = self._app.pool, self._app.settings.partitions
        last = ""
        while page := await doors.jobs_after(pool, self._namespace, last):
            await self._jobs(look, page)
            last = page[-1]
            yield 0.0
        await self._listing(look, 1000)
        seen: set[str] = set()
        for partition in range(partitions):
            end = self._ends.runs[partition]
            logged = await logged_runs(self._app, partition, self._namespace, 0, end)
            seen |= logged.keys()
            begins = {run_id: run.records[0].sequence for run_id, run in logged.items()}
            await self._compare_runs(look, logged, begins, rest=_RUNS_OVER_REST)
            yield (partition + 1) / partitions
        await self._unlogged(look, seen)
        await self._fleet(look)

    # -- jobs -------------------------------------------------------------------------------------------

    async def _jobs(self, look: _Look, job_ids: list[str]) -> None:
        rows = await doors.jobs(self._app.pool, self._namespace, job_ids)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def compare(job_id: str) -> None:
            async with slots:
                look.add(await self._job(job_id, rows.get(job_id)))

        await asyncio.gather(*(compare(job_id) for job_id in job_ids))
        look.jobs += len(job_ids)

    async def _job(self, job_id: str, row: doors.Row | None) -> list[Disagreement]:
        app, caller = self._app, self._caller
        definition = await app.definitions.read(job_id)
        try:
            job = await jobs.get(app, JobRef(job_id=job_id), caller)
        except NotFound:
            job = None
        again = (await doors.jobs(app.pool, self._namespace, [job_id])).get(job_id)
        if row != again:
            return []  # it has changed meanwhile
        if row is None or job is None:
            both = row is None and job is None
            return [] if both else [_existence(job_id, ("SQL", "REST"), row is not None, job is not None)]
        found = agreement.job_in_rest(job, row, datetime.now(UTC))
        if definition is not None and definition.version <= self._ends.jobs[app.partition_of(job_id)]:
            found += agreement.job_in_log(job_id, definition.version, definition.job.status, row)
        if job.status == "SCHEDULED" and job.schedule_type in ("CRON", "INTERVAL"):
            query = NextQuery(job_id=job_id, n=min(1000, len(row["skipped"]) + 1))
            try:
                fires = await schedules.next_fires(app, query, caller)
                latest = await jobs.get(app, JobRef(job_id=job_id), caller)
            except NotFound:
                return []  # it was deleted meanwhile
            if latest.next_run_at == job.next_run_at:
                found += agreement.next_fire(job, fires.fires)
        return found

    async def _listing(self, look: _Look, count: int) -> None:
        """The newest jobs as the listing shows them."""
        query = JobsQuery(limit=max(1, min(count, 1000)))
        page = await jobs.list_jobs(self._app, query, self._caller)
        rows = await doors.jobs(self._app.pool, self._namespace, [job.job_id for job in page.items])
        now = datetime.now(UTC)
        for job in page.items:
            if (row := rows.get(job.job_id)) is not None:
                look.add(agreement.job_in_rest(job, row, now, door="listing"))

    # -- runs -------------------------------------------------------------------------------------------

    async def _runs(self, look: _Look, begins: Mapping[str, int]) -> None:
        """Runs, and where in the log each begins."""
        by_partition: dict[int, dict[str, int]] = {}
        for run_id, sequence in begins.items():
            by_partition.setdefault(self._app.partition_of(run_id), {})[run_id] = sequence
        for partition, wanted in by_partition.items():
            after, end = min(wanted.values()) - 1, self._ends.runs[partition]
            logged = await logged_runs(self._app, partition, self._namespace, after, end, wanted)
            missing = [run_id for run_id, first in wanted.items() if run_id not in logged and first <= end]
            look.add([_existence(run_id, ("log", "SQL"), False, True) for run_id in missing], begins)
            await self._compare_runs(look, logged, wanted, rest=len(wanted))

    async def _compare_runs(
        self, look: _Look, logged: dict[str, LoggedRun], begins: Mapping[str, int], *, rest: int
    ) -> None:
        rows = await doors.runs(self._app.pool, list(logged))
        look.add(await self._not_in_sql(logged, rows), begins)
        end, now = self._ends.runs, now_us()
        for run_id, row in rows.items():
            if row["last_sequence"] <= end[self._app.partition_of(run_id)]:
                look.add(agreement.run_in_sql(logged[run_id], row), begins)
                look.add(agreement.run_in_why(logged[run_id], row, now), begins)
        for run_id in list(rows)[-rest:]:
            shown = await self._shown(run_id)
            again = (await doors.runs(self._app.pool, [run_id])).get(run_id)
            if again is None or again["last_sequence"] != rows[run_id]["last_sequence"]:
                continue  # it has changed meanwhile, or what is kept of it has ended
            if shown is None:
                look.add([_existence(run_id, ("SQL", "REST"), True, False)], begins)
            else:
                look.add(agreement.run_in_rest(shown, again), begins)
        look.runs += len(logged)

    async def _shown(self, run_id: str) -> Run | None:
        try:
            return await runs.get(self._app, RunRef(run_id=run_id), self._caller)
        except NotFound:
            return None

    async def _not_in_sql(
        self, logged: dict[str, LoggedRun], rows: Mapping[str, doors.Row]
    ) -> list[Disagreement]:
        """Runs that the log tells of and SQL does not, unless they are past what is kept."""
        kept = datetime.now(UTC) - timedelta(days=self._app.settings.retention_days)
        oldest = instant_of(kept)
        missing = [
            run_id
            for run_id, run in logged.items()
            if run_id not in rows and run.row is not None and run.row.created_at > oldest
        ]
        if not missing:
            return []
        roots = {run_id: ids.job_of(run_id).partition("~")[0] for run_id in missing}
        listed = {run_id: ids.job_of(run_id) for run_id in missing}
        deleted = await doors.may_be_deleted(self._app.pool, sorted({*roots.values(), *listed.values()}))
        return [
            _existence(run_id, ("log", "SQL"), True, False)
            for run_id in missing
            if not (roots[run_id] in deleted and listed[run_id] in deleted)
        ]

    async def _unlogged(self, look: _Look, seen: set[str]) -> None:
        """Runs that SQL has and the log, which should tell of their beginning, does not."""
        last, first, end = "", self._ends.first_run, max(self._ends.runs.values(), default=0)
        while page := await doors.runs_after(self._app.pool, self._namespace, first, end, last):
            for run_id, begins in page.items():
                if run_id not in seen and begins <= self._ends.runs[self._app.partition_of(run_id)]:
                    look.add([_existence(run_id, ("log", "SQL"), False, True)], page)
            last = max(page)

    # -- queues and executors ---------------------------------------------------------------------------

    async def _fleet(self, look: _Look) -> None:
        look.add(
            Disagreement(about=run_id, field="status", doors=("dead letters", "SQL"), says=(dead, status))
            for run_id, dead, status in await doors.dead_letters_that_live(self._app.pool, self._namespace)
        )
        look.add(await self._queues())
        look.add(await self._executors())

    async def _queues(self) -> list[Disagreement]:
        """What SQL calls queued or running is in the queues or taken from them. Both change while we look, so the
        queues are counted before and after."""
        before = await self._depths()
        rows = await doors.work_by_queue(self._app.pool)
        after = await self._depths()
        found = []
        for queue, tier in sorted(rows.keys() | before.keys() | after.keys()):
            key, counted = (queue, tier), rows.get((queue, tier), 0)
            low, high = sorted((before[key], after[key]))
            if not low <= counted <= high:
                found.append(
                    Disagreement(
                        about=f"queue {queue}, tier {tier}",
                        field="runs queued or running",
                        doors=("SQL", "queues"),
                        says=(str(counted), str(after[key])),
                    )
                )
        return found

    async def _depths(self) -> Counter[tuple[str, str]]:
        control = self._app.control
        depths: Counter[tuple[str, str]] = Counter()
        for depth in await queue_depths(
            self._app.connection, await fleet.schedulers(control), await fleet.heartbeats(control)
        ):
            depths[depth.queue, depth.tier] += depth.waiting + depth.running
        return depths

    async def _executors(self) -> list[Disagreement]:
        """Who is there; and that who is there has what SQL says that it runs."""
        running = await doors.running(self._app.pool, self._namespace, _MOST_RUNNING)
        listed = await doors.executors(self._app.pool)
        beats = {beat.instance: beat for beat in await fleet.heartbeats(self._app.control)}
        found = [
            _existence(name, ("SQL", "heartbeats"), name in listed, name in beats)
            for name in sorted(listed ^ beats.keys())
        ]
        for run_id, executor_id in running.items():
            beat = beats.get(executor_id)
            if beat is not None and not beat.more and run_id not in beat.running:
                found.append(
                    Disagreement(
                        about=run_id,
                        field="executor_id",
                        doors=("SQL", "heartbeats"),
                        says=(executor_id, f"{executor_id} does not have it"),
                    )
                )
        return found


def _existence(about: str, doors: tuple[str, str], first: bool, second: bool) -> Disagreement:
    said = {True: "there", False: "not there"}
    return Disagreement(about=about, field="existence", doors=doors, says=(said[first], said[second]))


def _behind(patience: float) -> Consistency:
    note = f"the read models have not come as far as the log within {patience:g} s: they cannot be compared"
    return Consistency(read=1.0, note=note)


def _result(look: _Look) -> Consistency:
    found = list(look.found.values())
    agree = f"REST, SQL, why, queues and log agree on {look.jobs} jobs and {look.runs} runs"
    return Consistency(
        read=1.0,
        ok=not found,
        jobs=look.jobs,
        runs=look.runs,
        count=len(found),
        disagreements=found[:_MOST_TOLD],
        note=agree
        if not found
        else f"{len(found)} disagreements among {look.jobs} jobs and {look.runs} runs",
    )
