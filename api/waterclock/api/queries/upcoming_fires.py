"""Every fire of every schedule in a range, in order.

The read models know when each job fires next. Jobs are read in that order, and only as far as the page goes; of those
that fire before the page begins, the first fire in it is computed, and the rest forgotten but for as many as fit it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Invalid
from waterclock.api.queries.jobs import find
from waterclock.api.queries.schedules import fires_left
from waterclock.api.readmodels import upcoming_fires
from waterclock.api.readmodels.paging import decode_cursor, encode_cursor
from waterclock.api.readmodels.upcoming_fires import NextFire
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of, instant_of, rfc3339
from waterclock.core.domain.schedule.fire import InvalidSchedule
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.core.domain.schedule.merged_fires import FiringJob, MergedFire, MergedFires, Place
from waterclock.core.domain.schedule.zone import zone
from waterclock.proto import methods
from waterclock.proto.answers import Page, UpcomingFire
from waterclock.proto.queries import UpcomingQuery

_LONGEST = timedelta(days=31)
_USUAL = timedelta(days=1)
_AT_ONCE = 100
"""Jobs that are computed before others have a turn."""


@handles(methods.UPCOMING_LIST)
async def list_upcoming(app: Application, request: UpcomingQuery, caller: Caller) -> Page[UpcomingFire]:
    start = request.start or datetime.now(UTC)
    end = request.end or start + _USUAL
    if not start < end <= start + _LONGEST:
        reason = "must be after from" if end <= start else "is more than 31 days after from"
        raise Invalid.field("to", reason)
    if request.tz is not None and zone(request.tz) is None:
        raise Invalid.field("tz", f"there is no time zone '{request.tz}' (IANA names: Europe/Paris)")
    if request.job is not None:
        await find(app, request.job, caller)
    await app.freshness.of_own_definitions()
    after: Place = (instant_of(start), "")
    if request.cursor is not None:
        after = max(after, decode_cursor(request.cursor, tuple[int, str]))
    reader = _Reader(app, request, caller, after, end)
    found = await reader.read(request.limit + 1)
    kept = found[: request.limit]
    return Page(
        items=[reader.shown(each) for each in kept],
        next_cursor=encode_cursor(kept[-1].place) if len(found) > request.limit else None,
    )


class _Reader:
    """Of one page."""

    def __init__(
        self, app: Application, request: UpcomingQuery, caller: Caller, after: Place, end: datetime
    ) -> None:
        self._app = app
        self._request = request
        self._namespace = caller.namespace
        self._after, self._end = (datetime_of(after[0]), after[1]), end
        self._merged = MergedFires(after, instant_of(end))
        self._added = 0

    async def read(self, count: int) -> list[MergedFire]:
        pool, namespace, request = self._app.pool, self._namespace, self._request
        for source in (
            upcoming_fires.skipping(pool, namespace, request, self._end),
            upcoming_fires.recurring_before(pool, namespace, request, self._after),
        ):
            async for jobs in source:
                for job in jobs:
                    await self._add(job)
                self._merged.forget_beyond(count)
        found: list[MergedFire] = []
        async with aclosing(self._in_order()) as later:
            following = await _next(later)
            while len(found) < count:
                while following is not None and _is_first(following, self._merged.next_place):
                    await self._add(following)
                    following = await _next(later)
                fire = self._merged.pop()
                if fire is None:
                    break
                found.append(fire)
        return found

    def shown(self, found: MergedFire) -> UpcomingFire:
        job, scheduled = found.job, found.fire.scheduled
        place = ZoneInfo(self._request.tz or job.timezone)
        return UpcomingFire(
            time=rfc3339(scheduled),
            local=datetime_of(scheduled).astimezone(place).isoformat(),
            job_id=job.job_id,
            job_name=job.name,
            note="skipped" if found.is_skipped else found.fire.note,
        )

    async def _in_order(self) -> AsyncGenerator[NextFire, None]:
        pages = upcoming_fires.between(self._app.pool, self._namespace, self._request, self._after, self._end)
        async with aclosing(pages) as rows:
            async for jobs in rows:
                for job in jobs:
                    yield job

    async def _add(self, job: NextFire) -> None:
        self._added += 1
        if self._added % _AT_ONCE == 0:
            await asyncio.sleep(0)
        try:
            fires = compile_schedule(job.schedule, job.name)
        except InvalidSchedule:
            return
        limit = job.schedule.max_fires
        self._merged.add(
            FiringJob(
                job_id=job.job_id,
                name=job.name,
                timezone=job.schedule.timezone,
                fires=fires,
                since=instant_of(min({job.next_run_at, *job.skipped})),
                left=None if limit is None else await fires_left(self._app, job.job_id, limit),
                skipped=frozenset(map(instant_of, job.skipped)),
            )
        )


async def _next(jobs: AsyncGenerator[NextFire, None]) -> NextFire | None:
    async for job in jobs:
        return job
    return None


def _is_first(job: NextFire, place: Place | None) -> bool:
    """Whether a job may fire before anything that is known."""
    return place is None or (instant_of(job.next_run_at), job.job_id) < place
