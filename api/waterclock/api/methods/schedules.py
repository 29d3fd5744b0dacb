"""When things fire, before and after saving."""

from msgspec import UNSET

from waterclock.api import definitions
from waterclock.api.application import Application
from waterclock.api.caller import Caller
from waterclock.api.methods.jobs import find, shown
from waterclock.api.registry import handles
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.schedule.preview import preview as fires_of
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Fire, Fires
from waterclock.proto.queries import NextQuery
from waterclock.proto.requests import PreviewRequest
from waterclock.proto.spec import Schedule


@handles(methods.JOBS_NEXT)
async def next_fires(app: Application, request: NextQuery, caller: Caller) -> Fires:
    definition = await find(app, request.job_id, caller)
    seen = await shown(app, definition, caller)
    spec = definition.job.spec
    if seen.status != "SCHEDULED" or (seen.schedule_type == "IMMEDIATE" and seen.next_run_at is None):
        return Fires(fires=[])
    start = now_us() if request.start is None else instant_of(request.start)
    return _fires(spec.schedule, spec.name, start, request.n)


@handles(methods.SCHEDULES_PREVIEW)
async def preview(app: Application, request: PreviewRequest, caller: Caller) -> Fires:
    now = now_us()
    schedule = definitions.schedule_of(request, now)
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
