"""A run that the read models do not have yet, folded from the log by the projector's own rules."""

import msgspec

from waterclock.api.application import Application
from waterclock.api.auth.namespaces import namespace_of
from waterclock.api.explain.history import run_events
from waterclock.api.readmodels import runs
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.readmodel.rows import RunRow
from waterclock.core.domain.readmodel.run_fold import advance, begin
from waterclock.proto import names
from waterclock.proto.answers import Run

_TIMES = (
    "scheduled_time",
    "due_time",
    "queued_time",
    "start_time",
    "end_time",
    "modified_time",
    "created_at",
)


async def unprojected_run(app: Application, run_id: str) -> Run | None:
    """The run as the part of the log that is not folded yet tells it; None if that knows nothing of it."""
    position = await runs.position(app.pool, names.RUNS, app.partition_of(run_id))
    row: RunRow | None = None
    for sequence, event in await run_events(app, run_id, position):
        if row is not None:
            advance(row, event, sequence)
        elif (begun := begin(event, sequence, namespace_of(run_id))) is not None:
            row = begun[0]
    return None if row is None else _shown(row)


def _shown(row: RunRow) -> Run:
    fields = {name: getattr(row, name) for name in Run.__struct_fields__}
    for name in _TIMES:
        fields[name] = None if fields[name] is None else datetime_of(fields[name])
    fields["output"] = None if row.output is None else msgspec.json.decode(row.output)
    return Run(**fields)
