"""`clock.runs`: what jobs did and are doing."""

from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from waterclock.api import decoding
from waterclock.api.client.seen import Seen
from waterclock.api.client.wire import STAY, Wire
from waterclock.proto import answers, methods, queries


class Runs:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def get(self, run_id: str) -> answers.Run:
        return await self._wire.call(methods.RUNS_GET, queries.RunRef(run_id=run_id))

    async def list(self, job_id: str, **filters: Any) -> answers.Page[answers.Run]:
        """One page, newest first; `cursor=page.next_cursor` gives the next."""
        query = decoding.convert({"job_id": job_id, **filters}, queries.RunsQuery, text=False)
        return await self._wire.call(methods.RUNS_LIST, query)

    async def cancel(self, run_id: str, *, note: str = "", now: bool = False) -> answers.Run:
        """Stop it: TERM, a grace, KILL; `now` leaves out the grace. Harmless when it has ended."""
        return await self._wire.call(
            methods.RUNS_CANCEL, queries.CancelRun(run_id=run_id, note=note, now=now)
        )

    async def retry(self, run_id: str) -> answers.Run:
        """Try a run that ended badly again: same run, next attempt."""
        return await self._wire.call(methods.RUNS_RETRY, queries.RetryRun(run_id=run_id))

    async def why(self, run_id: str) -> answers.Why:
        """The chain of events behind it, and where its time went."""
        return await self._wire.call(methods.RUNS_WHY, queries.WhyQuery(run_id=run_id))

    async def events(self, run_id: str) -> Sequence[answers.Change]:
        """What happened to it, straight from the log."""
        return (await self._wire.call(methods.RUNS_EVENTS, queries.RunRef(run_id=run_id))).items

    async def log(self, run_id: str, *, follow: bool = False) -> AsyncIterator[str]:
        """The run's output in pieces; `follow` stays until the run has ended, across broken connections."""
        offset, last = 0, False
        decoder = getincrementaldecoder("utf-8")(errors="replace")

        def asked() -> queries.LogQuery:
            return queries.LogQuery(run_id=run_id, follow=follow, offset=offset, stay_seconds=STAY)

        while not last:
            async for chunk in self._wire.follow(methods.RUNS_LOG, asked):
                offset, last = chunk.next, chunk.last
                if text := decoder.decode(chunk.text.encode() if chunk.data is None else chunk.data):
                    yield text
            last = last or not follow

    async def watch(
        self, job_or_run_id: str, *, since: datetime | None = None
    ) -> AsyncIterator[answers.Change]:
        """Changes of a job's runs, or of one run, as they happen; ends when nothing more can come.

        `since` starts in the past. A broken connection is mended and nothing is left out or repeated.
        """
        is_run = "@" in job_or_run_id
        after: str | None = None
        over, seen = False, Seen()

        def asked() -> queries.WatchQuery:
            return queries.WatchQuery(
                job=None if is_run else job_or_run_id,
                run=job_or_run_id if is_run else None,
                since=since if after is None else None,
                after=after,
                stay_seconds=STAY,
            )

        while not over:
            async for change in self._wire.follow(methods.EVENTS_WATCH, asked):
                after, over = change.position, change.final
                if change.run_id is not None and seen.is_new(change):
                    yield change
