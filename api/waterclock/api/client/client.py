"""The Python client: typed calls over NATS, with the service's own errors.

async with Client.connect() as clock:
    job = await clock.jobs.create(name="nightly", cron="0 3 * * *", command=["./backup.sh"])
    async for change in clock.runs.watch(job.job_id):
        print(change.run_id, change.status)

The calls themselves are in `calls.py`, made from the method table. Here is what is more than one call, or a shorter
name for one.
"""

import builtins
import os
import secrets
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from waterclock.api.client.calls import (
    ArtifactsCalls,
    AuditCalls,
    Calls,
    EventsCalls,
    JobsCalls,
    Noun,
    RunsCalls,
    SchedulesCalls,
    SystemCalls,
    WorkflowRunsCalls,
    WorkflowsCalls,
)
from waterclock.api.client.discovery import find
from waterclock.api.client.messages import batches, encode, numbered_on
from waterclock.api.client.pace import AS_LONG_AS_IT_TAKES, SATURATED_PATIENCE
from waterclock.api.client.streams import LogPosition, WatchPosition
from waterclock.api.client.wire import Wire
from waterclock.proto import answers, methods, queries

_PART = 1 << 20


class Client(Calls):
    """Open with `connect()`. Errors are those of `waterclock.api.errors`."""

    jobs: "Jobs"
    runs: "Runs"
    workflows: "Workflows"
    artifacts: "Artifacts"
    events: "Events"
    audit: "Audit"
    system: "System"

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.wire = wire
        self.jobs = Jobs(wire)
        self.runs = Runs(wire)
        self.workflows = Workflows(wire)
        self.artifacts = Artifacts(wire)
        self.events = Events(wire)
        self.audit = Audit(wire)
        self.system = System(wire)
        self.fleet = Fleet(self)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        url: str | None = None,
        *,
        data: Path | str | None = None,
        token: str | None = None,
        timeout: float = 10.0,
        patience: float = 15.0,
        saturated_patience: float = SATURATED_PATIENCE,
        environ: Mapping[str, str] = os.environ,
    ) -> AsyncIterator["Client"]:
        """Connects to `url`, else `WATERCLOCK_NATS_URL`, else where `DATA/connection.json` says; TLS as it is set.

        `timeout` is how long one try may take, `patience` how long a call without an answer is repeated. A call that is
        refused because the system is behind is repeated for `saturated_patience` seconds, when the service says.
        """
        endpoint = find(url=url, data=data, token=token, environ=environ)
        async with Wire.open(
            endpoint, timeout=timeout, patience=patience, saturated_patience=saturated_patience
        ) as wire:
            yield cls(wire)


class Jobs(JobsCalls):
    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.preview = SchedulesCalls(wire).preview

    async def create_many(self, jobs: Iterable[Mapping[str, Any]]) -> builtins.list[answers.BatchResult]:
        """Define many jobs; results come in order, and a bad one fails alone. If the system is behind, they are handed
        over at its pace, however long that takes."""
        results: list[answers.BatchResult] = []
        for start, batch in batches([encode(job) for job in jobs]):
            chunk = await self._wire.call(methods.JOBS_BATCH, batch, saturated_patience=AS_LONG_AS_IT_TAKES)
            results += numbered_on(chunk, start)
        return results

    async def export(self, *, label: Sequence[str] = ()) -> AsyncIterator[answers.Declaration]:
        """Jobs and workflows as declarations, in the order of their ids; `label` as `key=value`. What `definition` has
        can be applied, and then changes nothing."""
        after: str | None = None

        def rest() -> queries.ExportQuery:
            return queries.ExportQuery(label=tuple(label), after=after)

        async for declaration in self._wire.follow(methods.JOBS_EXPORT, rest):
            after = declaration.job_id
            yield declaration


class Runs(RunsCalls):
    async def log(
        self, run_id: str, *, follow: bool = False, attempt: int | None = None, tail: int | None = None
    ) -> AsyncIterator[str]:
        """The run's output in pieces, of all attempts or of one; `tail`: only the last so many bytes of what there is.
        `follow` stays until the run has ended, across broken connections."""
        position = LogPosition(run_id, follow=follow, attempt=attempt, tail=tail)
        decoder = getincrementaldecoder("utf-8")(errors="replace")
        while not position.over:
            async for chunk in self._wire.follow(methods.RUNS_LOG, position.request):
                if text := decoder.decode(position.advance(chunk)):
                    yield text
            position.call_ended()

    async def watch(
        self, job_or_run_id: str, *, since: datetime | None = None
    ) -> AsyncIterator[answers.Change]:
        """Changes of a job's runs, or of one run, as they happen; ends when nothing more can come.

        `since` starts in the past. A broken connection is mended and nothing is left out or repeated.
        """
        is_run = "@" in job_or_run_id
        job, run = (None, job_or_run_id) if is_run else (job_or_run_id, None)
        async for change in Events(self._wire).watch(job=job, run=run, since=since):
            if change.run_id is not None:
                yield change


class Events(EventsCalls):
    async def watch(
        self,
        *,
        job: str | None = None,
        run: str | None = None,
        workflow_run: str | None = None,
        ids: Sequence[str] = (),
        type: Sequence[str] = (),
        since: datetime | None = None,
        after: str | None = None,
        conflate: str | None = None,
    ) -> AsyncIterator[answers.Change]:
        """What happens to a job and its runs, to one run, to a workflow run and its parts, to some ids, or to all there
        is; across broken connections. `conflate="200ms"`: at most so often, the newest of each run in `changes`."""
        position = WatchPosition(
            job=job,
            run=run,
            workflow_run=workflow_run,
            ids=ids,
            type=type,
            since=since,
            after=after,
            conflate=conflate,
        )
        while not position.over:
            async for change in self._wire.follow(methods.EVENTS_WATCH, position.request):
                if position.advance(change):
                    yield change


class Audit(AuditCalls):
    async def run(self, start: datetime | None = None, end: datetime | None = None) -> answers.Audit:
        """Whether every due time in the range is accounted for exactly once. Reads the log: this may take a while."""
        query = queries.AuditQuery(start=start, end=end)
        reports = [report async for report in self._wire.follow(methods.AUDIT_RUN, lambda: query)]
        return reports[-1]


class System(SystemCalls):
    async def consistency(self, *, all: bool = False, sample: int = 30) -> answers.Consistency:
        """Whether REST, SQL, `why` and the queues say what the log says: of a few jobs and runs, or of all."""
        query = queries.ConsistencyQuery(all=all, sample=sample)
        results = [result async for result in self._wire.follow(methods.SYSTEM_CONSISTENCY, lambda: query)]
        return results[-1]


class Workflows(WorkflowsCalls):
    async def wave(self, workflow_run_id: str) -> answers.WorkflowRun:
        """One wave, with its nodes."""
        return await WorkflowRunsCalls(self._wire).get(workflow_run_id)

    async def rerun(self, workflow_run_id: str, *nodes: str, note: str = "") -> answers.WorkflowRun:
        """Again from what failed, or from these nodes on."""
        return await WorkflowRunsCalls(self._wire).rerun(workflow_run_id, nodes=nodes, note=note)


class Artifacts(ArtifactsCalls):
    async def push(self, content: bytes | Path, *, name: str = "") -> answers.Artifact:
        """Upload bytes or a file, part by part; `artifact` of the answer is what a job names."""
        upload_id, parts = secrets.token_hex(10), 0
        if isinstance(content, Path):
            name, content = name or content.name, await self._wire.off_loop(content.read_bytes)
        for start in range(0, len(content), _PART):
            await self.part(upload_id=upload_id, number=parts, data=content[start : start + _PART])
            parts += 1
        return await self.commit(upload_id=upload_id, parts=parts, name=name)


class Fleet(Noun):
    """Who is there, and whether all is well: shorter names."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.wire)
        self.executors = client.executors.list
        self.queues = client.queues.list
        self.partitions = client.partitions.list
        self.status = client.system.status
        self.audit = client.audit.run
