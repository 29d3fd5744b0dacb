"""Runs out of attempts: looking at them and trying them again."""

from collections.abc import Sequence
from typing import Any

from waterclock.api.application import Application
from waterclock.api.auth.caller import Caller
from waterclock.api.commands.control import redrive
from waterclock.api.errors import Invalid
from waterclock.api.readmodels import dead_letters, runs
from waterclock.api.registry import handles
from waterclock.proto import methods
from waterclock.proto.answers import DeadLetter, Page, Redriven, Refusal
from waterclock.proto.commands import DeadLetterFilter, Redrive
from waterclock.proto.queries import DeadLettersQuery

_AT_ONCE = 1000


@handles(methods.DEAD_LETTERS_LIST)
async def list_dead(app: Application, request: DeadLettersQuery, caller: Caller) -> Page[DeadLetter]:
    return await dead_letters.page(app.pool, caller.namespace, request)


@handles(methods.DEAD_LETTERS_REDRIVE)
async def redrive_dead(app: Application, request: Redrive, caller: Caller) -> Redriven:
    wanted = _filter(request)
    if run_ids := (*request.run_ids, *request.ids):
        return await _by_ids(app, run_ids, caller)
    if not (request.all or wanted):
        raise Invalid.field("run_ids", "name the runs, or a filter, or say `all`")
    query = DeadLettersQuery(**wanted, limit=_AT_ONCE)
    page = await dead_letters.page(app.pool, caller.namespace, query)
    found = await runs.redrivable(app.pool, caller.namespace, [letter.run_id for letter in page.items])
    await redrive(app, found, caller)
    return Redriven(run_ids=[run.run_id for run in found], more=page.next_cursor is not None)


def _filter(request: Redrive) -> dict[str, Any]:
    """What is said of the letters, in `filter` or beside it."""
    names = DeadLetterFilter.__struct_fields__
    beside = {name: value for name in names if (value := getattr(request, name))}
    if request.filter is None:
        return beside
    if beside:
        raise Invalid.field("filter", f"cannot be combined with {', '.join(beside)} beside it")
    return {name: value for name in names if (value := getattr(request.filter, name))}


async def _by_ids(app: Application, run_ids: Sequence[str], caller: Caller) -> Redriven:
    found = await runs.redrivable(app.pool, caller.namespace, list(run_ids))
    await redrive(app, found, caller)
    known = {run.run_id for run in found}
    missing = [run_id for run_id in dict.fromkeys(run_ids) if run_id not in known]
    return Redriven(
        run_ids=[run.run_id for run in found],
        refused=[Refusal(id=run_id, reason="no such run, or it did not end badly") for run_id in missing],
    )
