"""Trying runs again that ended badly: one run, or dead letters by their ids or by what they have in common."""

import secrets
from collections.abc import Sequence
from typing import Any

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.commands.workflows import rerun_workflow_runs
from waterclock.api.errors import Conflict, Invalid
from waterclock.api.queries import runs
from waterclock.api.readmodels import runs as rows
from waterclock.api.registry import handles
from waterclock.core.domain.instants import instant_of
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Redriven, Refusal, Run
from waterclock.proto.commands import DeadLetterFilter, Redrive, RetryRun
from waterclock.proto.events import RunRetryRequested
from waterclock.proto.queries import DeadLettersQuery
from waterclock.proto.verdicts import TERMINAL

_AT_ONCE = 1000


@handles(methods.RUNS_RETRY)
async def retry(app: Application, request: RetryRun, caller: Caller) -> Run:
    run = await runs.find(app, request.run_id, caller)
    if run.status not in TERMINAL or run.status == "SUCCESS":
        raise Conflict.because(
            f"run {run.run_id} is {run.status}; only one that ended badly can be tried again"
        )
    await _redrive(app, await rows.redrivable(app.pool, caller.namespace, [run.run_id]), caller)
    return await runs.find(app, request.run_id, caller)


@handles(methods.DEAD_LETTERS_REDRIVE)
async def redrive_dead_letters(app: Application, request: Redrive, caller: Caller) -> Redriven:
    wanted = _filter(request)
    if run_ids := (*request.run_ids, *request.ids):
        return await _by_ids(app, run_ids, caller)
    if not (request.all or wanted):
        raise Invalid.field("run_ids", "name the runs, or a filter, or say `all`")
    page = await rows.dead_letters(app.pool, caller.namespace, DeadLettersQuery(**wanted, limit=_AT_ONCE))
    found = await rows.redrivable(app.pool, caller.namespace, [dead.run_id for dead in page.items])
    await _redrive(app, found, caller)
    return Redriven(run_ids=[run.run_id for run in found], more=page.next_cursor is not None)


def _filter(request: Redrive) -> dict[str, Any]:
    """The filter of a request: in `filter`, or as fields of the request itself."""
    names = DeadLetterFilter.__struct_fields__
    beside = {name: value for name in names if (value := getattr(request, name))}
    if request.filter is None:
        return beside
    if beside:
        raise Invalid.field("filter", f"cannot be combined with {', '.join(beside)} beside it")
    return {name: value for name in names if (value := getattr(request.filter, name))}


async def _by_ids(app: Application, run_ids: Sequence[str], caller: Caller) -> Redriven:
    found = await rows.redrivable(app.pool, caller.namespace, list(run_ids))
    await _redrive(app, found, caller)
    known = {run.run_id for run in found}
    missing = [run_id for run_id in dict.fromkeys(run_ids) if run_id not in known]
    return Redriven(
        run_ids=[run.run_id for run in found],
        refused=[Refusal(id=run_id, reason="no such run, or it did not end badly") for run_id in missing],
    )


async def _redrive(app: Application, found: list[rows.Redrivable], caller: Caller) -> None:
    """Ask for another attempt of each. Workflow runs and their nodes are run again as a whole."""
    await request_retries(app, await rerun_workflow_runs(app, found, caller), caller)


async def request_retries(app: Application, found: Sequence[rows.Redrivable], caller: Caller) -> None:
    """Ask for another attempt of runs that are neither workflow runs nor parts of anything."""
    cause, now = secrets.token_hex(8), now_us()
    by_partition: dict[int, list[RunRetryRequested]] = {}
    for run in found:
        event = RunRetryRequested(
            run_id=run.run_id,
            at=now,
            version=run.version or 0,
            scheduled=instant_of(run.scheduled_time),
            attempt=run.attempt_number,
            actor=caller.actor,
            cause=cause,
            parent=run.workflow_run_id,
            epoch=run.epoch,
        )
        by_partition.setdefault(app.partition_of(run.run_id), []).append(event)
    for partition, events in by_partition.items():
        await app.run_requests.append(partition, events)
