"""`clock.jobs`: defining jobs and looking at them."""

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from waterclock.api import decoding
from waterclock.api.client.wire import Wire
from waterclock.proto import answers, methods, queries
from waterclock.proto.requests import JobRequest

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
            chunk = await self._wire.call(
                methods.JOBS_BATCH, queries.JobBatch(jobs=lines[start : start + _BATCH])
            )
            results += [msgspec.structs.replace(result, line=start + result.line) for result in chunk]
        return results

    async def get(self, job_id: str) -> answers.Job:
        return await self._wire.call(methods.JOBS_GET, queries.JobRef(job_id=job_id))

    async def status(self, job_id: str) -> answers.JobStatus:
        return await self._wire.call(methods.JOBS_STATUS, queries.JobRef(job_id=job_id))

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
