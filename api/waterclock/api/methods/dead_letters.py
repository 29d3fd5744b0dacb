"""Runs out of attempts: looking at them and trying them again."""

from waterclock.api.application import Application
from waterclock.api.caller import Caller
from waterclock.api.errors import Invalid
from waterclock.api.methods.control import redrive
from waterclock.api.readmodels import dead_letters, runs
from waterclock.api.registry import handles
from waterclock.proto import methods
from waterclock.proto.answers import DeadLetter, Page, Redriven, Refusal
from waterclock.proto.queries import DeadLettersQuery, Redrive

_AT_ONCE = 1000


@handles(methods.DEAD_LETTERS_LIST)
async def list_dead(app: Application, request: DeadLettersQuery, caller: Caller) -> Page[DeadLetter]:
    return await dead_letters.page(app.pool, caller.namespace, request)


@handles(methods.DEAD_LETTERS_REDRIVE)
async def redrive_dead(app: Application, request: Redrive, caller: Caller) -> Redriven:
    if request.run_ids:
        return await _by_ids(app, request, caller)
    if not (request.all or request.job_id or request.status or request.q or request.after or request.before):
        raise Invalid.field("run_ids", "name the runs, or a filter, or say `all`")
    query = DeadLettersQuery(
        job_id=request.job_id,
        status=request.status,
        q=request.q,
        after=request.after,
        before=request.before,
        limit=_AT_ONCE,
    )
    page = await dead_letters.page(app.pool, caller.namespace, query)
    found = await runs.redrivable(app.pool, caller.namespace, [letter.run_id for letter in page.items])
    await redrive(app, found, caller)
    return Redriven(run_ids=[run.run_id for run in found], more=page.next_cursor is not None)


async def _by_ids(app: Application, request: Redrive, caller: Caller) -> Redriven:
    found = await runs.redrivable(app.pool, caller.namespace, list(request.run_ids))
    await redrive(app, found, caller)
    known = {run.run_id for run in found}
    missing = [run_id for run_id in dict.fromkeys(request.run_ids) if run_id not in known]
    return Redriven(
        run_ids=[run.run_id for run in found],
        refused=[Refusal(id=run_id, reason="no such run, or it did not end badly") for run_id in missing],
    )
