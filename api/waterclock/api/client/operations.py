"""`clock.dead_letters` and `clock.fleet`: what went wrong for good, and who is there."""

from datetime import datetime
from typing import Any

from waterclock.api import decoding
from waterclock.api.client.wire import Wire
from waterclock.proto import answers, methods, queries


class DeadLetters:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def list(self, **filters: Any) -> answers.Page[answers.DeadLetter]:
        query = decoding.convert(filters, queries.DeadLettersQuery, text=False)
        return await self._wire.call(methods.DEAD_LETTERS_LIST, query)

    async def redrive(self, *run_ids: str, **filters: Any) -> answers.Redriven:
        """Try runs again: these, or all that match the filters; `all=True` for every one there is."""
        request = decoding.convert({"run_ids": run_ids, **filters}, queries.Redrive, text=False)
        return await self._wire.call(methods.DEAD_LETTERS_REDRIVE, request)


class Fleet:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def executors(self) -> list[answers.Executor]:
        return (await self._wire.call(methods.EXECUTORS_LIST, queries.Nothing())).items

    async def queues(self) -> list[answers.Queue]:
        return (await self._wire.call(methods.QUEUES_LIST, queries.Nothing())).items

    async def partitions(self) -> list[answers.Partition]:
        return (await self._wire.call(methods.PARTITIONS_LIST, queries.Nothing())).items

    async def status(self) -> answers.SystemStatus:
        """Whether all is well."""
        return await self._wire.call(methods.SYSTEM_STATUS, queries.Nothing())

    async def audit(self, start: datetime | None = None, end: datetime | None = None) -> answers.Audit:
        """Whether every due time in the range is accounted for exactly once. Reads the log: this may take a while."""
        query = queries.AuditQuery(start=start, end=end)
        told = [report async for report in self._wire.follow(methods.AUDIT_RUN, lambda: query)]
        return told[-1]
