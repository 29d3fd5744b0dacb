"""Next fires of a job, and of a schedule that is not saved yet."""

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime

from msgspec import UNSET, structs

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.queries.jobs import find, read_row
from waterclock.api.readmodels import runs
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handles
from waterclock.api.request_bodies import refused_definition
from waterclock.api.views import job_from_log
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.job.parse import define_schedule
from waterclock.core.domain.job.validate import InvalidDefinition
from waterclock.core.domain.schedule.fires import preview as fires_of
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Fire, Fires
from waterclock.proto.queries import NextQuery
from waterclock.proto.spec import PreviewRequest, Schedule


@handles(methods.JOBS_NEXT)
async def next_fires(app: Application, request: NextQuery, caller: Caller) -> Fires:
    definition = await find(app, request.job_id, caller)
    if definition.job.spec.schedule.max_fires is not None:
        with suppress(ReadModelsAway):
            await app.freshness.of_runs(app.partition_of(request.job_id))
    row = await read_row(app, request.job_id, caller)
    job = job_from_log(definition, now_us(), row)
    spec = definition.job.spec
    if job.status != "SCHEDULED" or (job.schedule_type == "IMMEDIATE" and job.next_run_at is None):
        return Fires(fires=[])
    start = now_us() if request.start is None else instant_of(request.start)
    limit = spec.schedule.max_fires
    n = request.n if limit is None else min(request.n, await fires_left(app, request.job_id, limit))
    skipped = frozenset[datetime]() if row is None else row.skipped
    unlimited = structs.replace(spec.schedule, max_fires=None)
    return _with_skipped(_fires(unlimited, spec.name, start, n + len(skipped)), skipped, request.n, n)


def _with_skipped(found: Fires, skipped: Collection[datetime], shown: int, taken: int) -> Fires:
    """Those that are to be left out are marked, and do not count among the fires that a job may still take."""
    fires: list[Fire] = []
    for fire in found.fires:
        if len(fires) == shown or taken == 0:
            break
        if datetime.fromisoformat(fire.time) in skipped:
            fire = structs.replace(fire, note="skipped")
        else:
            taken -= 1
        fires.append(fire)
    return Fires(fires=fires)


async def fires_left(app: Application, job_id: str, limit: int) -> int:
    """How many fires a job may still take, as far as the read models know. One is to come as long as it has not ended:
    a limit that was set later does not count what ran before."""
    with suppress(ReadModelsAway):
        return max(1, limit - await runs.fires_taken(app.pool, job_id))
    return limit


@handles(methods.SCHEDULES_PREVIEW)
async def preview(app: Application, request: PreviewRequest, caller: Caller) -> Fires:
    now = now_us()
    try:
        schedule = define_schedule(request, now)
    except InvalidDefinition as error:
        raise refused_definition(error) from None
    name = request.name if isinstance(request.name, str) else ""
    start = now if request.start is None or request.start is UNSET else instant_of(request.start)
    return _fires(schedule, name, start, request.n)


def _fires(schedule: Schedule, name: str, start: int, n: int) -> Fires:
    return Fires(
        fires=[
            Fire(time=fire.time, local=fire.local, note=fire.note)
            for fire in fires_of(schedule, name, start, n)
        ]
    )
