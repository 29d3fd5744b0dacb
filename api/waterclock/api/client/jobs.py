"""`clock.jobs`: defining jobs, changing them and looking at them."""

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from waterclock.api import decoding
from waterclock.api.client.wire import Wire
from waterclock.proto import answers, methods, queries
from waterclock.proto.commands import JobRequest, PreviewRequest

_BATCH = 500


class Jobs:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def create(self, **fields: Any) -> answers.JobAccepted:
        """Define a job by the fields of the contract. Without an `idempotency_key` one is drawn, so that a repeat
        after a lost answer makes no second job."""
        request = decoding.convert(fields, JobRequest, text=False)
        if request.idempotency_key in (UNSET, None):
            request.idempotency_key = f"auto-{secrets.token_hex(10)}"
        return await self._wire.call(methods.JOBS_CREATE, request)

    async def create_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[answers.BatchResult]:
        """Define many jobs; results come in order, and a bad one fails alone."""
        results: list[answers.BatchResult] = []
        lines = [msgspec.Raw(msgspec.json.encode(job)) for job in jobs]
        for start in range(0, len(lines), _BATCH):
            batch = queries.JobBatch(
                jobs=lines[start : start + _BATCH], idempotency_key=secrets.token_hex(10)
            )
            chunk = await self._wire.call(methods.JOBS_BATCH, batch)
            results += [msgspec.structs.replace(result, line=start + result.line) for result in chunk]
        return results

    async def get(self, job_id: str) -> answers.Job:
        return await self._wire.call(methods.JOBS_GET, queries.JobRef(job_id=job_id))

    async def status(self, job_id: str) -> answers.JobStatus:
        return await self._wire.call(methods.JOBS_STATUS, queries.JobRef(job_id=job_id))

    async def why(self, job_id: str, at: datetime | None = None) -> answers.Why:
        """Why the job ran, or did not run, at a moment; now if not said."""
        return await self._wire.call(methods.JOBS_WHY, queries.WhyQuery(job_id=job_id, at=at))

    async def list(self, **filters: Any) -> answers.Page[answers.Job]:
        """One page; `cursor=page.next_cursor` gives the next."""
        return await self._wire.call(
            methods.JOBS_LIST, decoding.convert(filters, queries.JobsQuery, text=False)
        )

    async def all(self, **filters: Any) -> AsyncIterator[answers.Job]:
        """Every job that matches, page by page."""
        page = await self.list(**filters)
        while True:
            for job in page.items:
                yield job
            if page.next_cursor is None:
                return
            page = await self.list(**{**filters, "cursor": page.next_cursor})

    async def update(self, job_id: str, *, if_match: int | None = None, **fields: Any) -> answers.Job:
        """Change what is said; None returns a field to its default. `if_match` is the version the edit is meant for."""
        patch = {**fields, "job_id": job_id, "if_match": if_match}
        return await self._wire.call(
            methods.JOBS_UPDATE, decoding.convert(patch, queries.JobPatch, text=False)
        )

    async def pause(self, job_id: str, *, note: str = "", if_match: int | None = None) -> answers.Job:
        request = queries.PauseJob(job_id=job_id, note=note, if_match=if_match)
        return await self._wire.call(methods.JOBS_PAUSE, request)

    async def resume(self, job_id: str, *, missed: bool = False, if_match: int | None = None) -> answers.Job:
        """From now on; `missed` also takes what was missed, by the job's catch-up policy."""
        request = queries.ResumeJob(job_id=job_id, missed=missed, if_match=if_match)
        return await self._wire.call(methods.JOBS_RESUME, request)

    async def cancel(self, job_id: str, *, note: str = "", if_match: int | None = None) -> answers.Job:
        """For good; what runs is stopped."""
        request = queries.CancelJob(job_id=job_id, note=note, if_match=if_match)
        return await self._wire.call(methods.JOBS_CANCEL, request)

    async def run_now(
        self, job_id: str, *, parameters: Mapping[str, Any] | None = None, idempotency_key: str | None = None
    ) -> answers.RunAccepted:
        """Beside the schedule. Without a key one is drawn, so that a repeat after a lost answer is the same run."""
        request = queries.RunNow(
            job_id=job_id,
            parameters=dict(parameters or {}),
            idempotency_key=idempotency_key or secrets.token_hex(10),
        )
        return await self._wire.call(methods.JOBS_RUN_NOW, request)

    async def backfill(self, job_id: str, start: datetime, end: datetime, **options: Any) -> answers.Backfill:
        """Run the job for past times: `max_active`, `order`, `reprocess` and `dry_run` as in the contract."""
        fields = {
            "idempotency_key": secrets.token_hex(10),
            **options,
            "job_id": job_id,
            "from": start,
            "to": end,
        }
        return await self._wire.call(
            methods.JOBS_BACKFILL, decoding.convert(fields, queries.BackfillRequest, text=False)
        )

    async def next(self, job_id: str, n: int = 10, *, start: datetime | None = None) -> answers.Fires:
        """When the job fires next."""
        return await self._wire.call(methods.JOBS_NEXT, queries.NextQuery(job_id=job_id, n=n, start=start))

    async def preview(self, *, n: int = 10, start: datetime | None = None, **schedule: Any) -> answers.Fires:
        """When a schedule that nobody has yet would fire."""
        fields = {**schedule, "n": n, **({} if start is None else {"from": start})}
        request = decoding.convert(fields, PreviewRequest, text=False)
        return await self._wire.call(methods.SCHEDULES_PREVIEW, request)
