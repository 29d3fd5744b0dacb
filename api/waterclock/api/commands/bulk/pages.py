"""What all bulk calls have in common.

What is to be done is taken a page at a time, in an order that does not change, so that memory stays as it is however
much there is. A call ends after a few seconds, before its caller takes it for lost, and says where the next one goes
on. What is as asked already is not found again: whoever was cut short asks once more for the same.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TypeVar

import msgspec

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import without_namespace
from waterclock.api.errors import Invalid, Saturated
from waterclock.api.readmodels.paging import decode_cursor, encode_cursor
from waterclock.proto.answers import BulkResult, Refusal
from waterclock.proto.commands import BulkJobs, BulkRuns
from waterclock.proto.events import RunEvent
from waterclock.proto.queries import JobFilter, RunFilter
from waterclock.proto.verdicts import AccessAction

T = TypeVar("T")
Page = tuple[list[T], str | None]
"""Some of them, and the cursor after them if there are more."""

PAGE = 500
_SECONDS = 4.0
"""A client takes a call for lost after ten."""
_AT_ONCE = 32
_LISTED = 100


class Outcome:
    def __init__(self, namespace: str) -> None:
        self.matched = 0
        self.done = 0
        self._namespace = namespace
        self._refused: list[Refusal] = []
        self._more = 0

    def refuse(self, id: str, reason: str) -> None:
        if len(self._refused) < _LISTED:
            self._refused.append(Refusal(id=id, reason=without_namespace(self._namespace, reason)))
        else:
            self._more += 1

    def answer(self, cursor: str | None = None) -> BulkResult:
        return BulkResult(
            matched=self.matched,
            done=self.done,
            refused=self._refused,
            more_refused=self._more,
            next_cursor=cursor,
        )


def check_choice(request: BulkJobs | BulkRuns, what: str) -> None:
    if request.ids and request.filter is not None:
        raise Invalid.field("filter", "cannot be combined with ids")
    if not request.ids and request.filter is None:
        raise Invalid.field(
            "filter", f"name the {what} by `ids`, or by a `filter`; {{}} is every one there is"
        )


def recorded(
    app: Application, request: BulkJobs | BulkRuns, caller: Caller
) -> AbstractAsyncContextManager[None]:
    """The record that somebody did this; of each one that was changed its own history says so."""
    chosen = f"{len(request.ids)} by id" if request.filter is None else _said(request.filter)
    action: AccessAction = "jobs.bulk" if isinstance(request, BulkJobs) else "runs.bulk"
    return app.access_log.change(caller, action, request.action, caller.namespace, chosen)


def _said(filter: JobFilter | RunFilter) -> str:
    fields = {name: getattr(filter, name) for name in filter.__struct_fields__}
    return msgspec.json.encode({name: value for name, value in fields.items() if value}).decode()


async def carry_out(
    pages: AsyncGenerator[Page[T], None],
    act: Callable[[list[T], Outcome], Awaitable[None]],
    begun: str | None,
    outcome: Outcome,
) -> BulkResult:
    """Page by page, until there are no more or the time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SECONDS
    reached = begun
    async with aclosing(pages):
        async for page, cursor in pages:
            try:
                await act(page, outcome)
            except Saturated:
                if not outcome.matched:
                    raise
                return outcome.answer(reached)  # who goes on is told to wait
            outcome.matched += len(page)
            reached = cursor
            if cursor is not None and loop.time() > deadline:
                return outcome.answer(cursor)
    return outcome.answer()


async def together(action: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    """A few at a time. What goes wrong with one is raised when those beside it are through."""
    for start in range(0, len(items), _AT_ONCE):
        chunk = items[start : start + _AT_ONCE]
        for result in await asyncio.gather(*map(action, chunk), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result


async def append(app: Application, events: Iterable[RunEvent]) -> None:
    by_partition: dict[int, list[RunEvent]] = {}
    for event in events:
        by_partition.setdefault(app.partition_of(event.run_id), []).append(event)
    for partition, of_one in by_partition.items():
        await app.run_requests.append(partition, of_one)


def slices(chosen: Sequence[str], cursor: str | None) -> Iterator[Page[str]]:
    """Ids that were named, each once."""
    unique = list(dict.fromkeys(chosen))
    begun = decode_cursor(cursor, tuple[int])[0] if cursor is not None else 0
    for start in range(begun, len(unique), PAGE):
        end = start + PAGE
        yield unique[start:end], encode_cursor((end,)) if end < len(unique) else None
