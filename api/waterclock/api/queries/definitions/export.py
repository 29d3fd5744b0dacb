"""All that is to fire again, as declarations. Each is defined anew before it is handed out: `apply` takes it, and
changes nothing with it. What that is not true of is named, with the reason."""

from collections.abc import AsyncIterator

import msgspec

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import scoped, unscoped
from waterclock.api.readmodels import jobs as rows
from waterclock.api.readmodels.jobs import JobRow
from waterclock.api.registry import streams
from waterclock.core.domain.job import parse
from waterclock.core.domain.job.declaration import declaration_of
from waterclock.core.domain.job.edit import differences
from waterclock.core.domain.job.validate import Defaults, DefinitionLimits, InvalidDefinition
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Declaration
from waterclock.proto.names import is_user_id
from waterclock.proto.queries import ExportQuery, JobFilter
from waterclock.proto.verdicts import JobState

_AT_A_TIME = 200
_STATUSES: tuple[JobState, ...] = ("SCHEDULED", "PAUSED")
_LIMITS = DefinitionLimits(payload_bytes=64 << 20, body_bytes=64 << 20)
"""What is stored was small enough when it was accepted."""


@streams(methods.JOBS_EXPORT)
async def export(app: Application, request: ExportQuery, caller: Caller) -> AsyncIterator[Declaration]:
    await app.freshness.of_own_definitions()
    defaults = (await app.quotas.defaults())(caller.namespace)
    after = None if request.after is None else scoped(caller.namespace, request.after)
    wanted = JobFilter(label=request.label)
    while True:
        page = await rows.lasting(app.pool, caller.namespace, wanted, _STATUSES, after, _AT_A_TIME)
        for row in page:
            yield declared(row, defaults)
        if len(page) < _AT_A_TIME:
            return
        after = page[-1].job_id


def declared(row: JobRow, defaults: Defaults) -> Declaration:
    namespace = row.spec.namespace
    job_id = unscoped(namespace, row.job_id)
    dependencies = tuple(unscoped(namespace, other) for other in row.spec.dependencies)
    spec = msgspec.structs.replace(row.spec, dependencies=dependencies)
    if not is_user_id(job_id):
        return _left_out(row, "its id was made for a batch, and cannot be declared")
    definition = declaration_of(job_id, spec)
    try:
        again = parse.define_body(definition, now_us(), _LIMITS, defaults)
    except InvalidDefinition as error:
        return _left_out(row, f"it would not be accepted today: {error}")
    kept = {"namespace": namespace, "idempotency_key": spec.idempotency_key}
    if differing := differences(spec, msgspec.structs.replace(again, **kept)):
        fields = ", ".join(one.field for one in differing)
        return _left_out(row, f"a declaration of it would change {fields}")
    return Declaration(job_id=row.job_id, status=row.status, definition=definition)


def _left_out(row: JobRow, reason: str) -> Declaration:
    return Declaration(job_id=row.job_id, status=row.status, definition=None, left_out=reason)
