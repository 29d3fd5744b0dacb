"""Many runs cancelled, or tried again, at once."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from datetime import datetime

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.commands.bulk.pages import (
    PAGE,
    Outcome,
    Page,
    append,
    carry_out,
    check_choice,
    recorded,
    slices,
    together,
)
from waterclock.api.commands.redrive import request_retries
from waterclock.api.commands.workflows import rerun_workflow_run
from waterclock.api.errors import Refused
from waterclock.api.readmodels import run_choice as rows
from waterclock.api.readmodels.paging import decode_cursor, encode_cursor
from waterclock.api.readmodels.run_choice import ChosenRun
from waterclock.api.registry import handles
from waterclock.core.domain.ids import part_path
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import BulkResult
from waterclock.proto.commands import BulkRuns
from waterclock.proto.events import RunCancelRequested
from waterclock.proto.verdicts import ACTIVE, TERMINAL, RunStatus

_ENDED_BADLY: tuple[RunStatus, ...] = ("FAILED", "TIMED_OUT")


@handles(methods.RUNS_BULK)
async def bulk_runs(app: Application, request: BulkRuns, caller: Caller) -> BulkResult:
    check_choice(request, "runs")
    if request.cursor is None:
        await _until_fresh(app, request.ids)
    if request.dry_run and not request.ids:
        assert request.filter is not None
        matched = await rows.count_matching(app.pool, caller.namespace, request.filter, _statuses(request))
        return BulkResult(matched=matched, done=0)
    outcome = Outcome(caller.namespace)
    pages = _pages(app, request, caller, outcome)
    if request.dry_run:
        async with aclosing(pages):
            async for page, _ in pages:
                outcome.matched += len(page)
        return outcome.answer()
    act = _cancel_runs if request.action == "cancel" else _retry_runs
    async with recorded(app, request, caller):
        return await carry_out(
            pages,
            lambda page, outcome: act(app, request, caller, page, outcome),
            request.cursor,
            outcome,
        )


def _statuses(request: BulkRuns) -> Collection[RunStatus]:
    """Those that the action means something for; without a word about them, only what failed is tried again."""
    assert request.filter is not None
    if request.action == "cancel":
        return ACTIVE
    return TERMINAL - {"SUCCESS"} if request.filter.status else _ENDED_BADLY


async def _until_fresh(app: Application, run_ids: Sequence[str]) -> None:
    """Runs are found by the read models: what happened to them until now is waited for, but not for long."""
    partitions = {app.partition_of(run_id) for run_id in run_ids} or range(app.settings.partitions)
    await asyncio.gather(*map(app.freshness.of_runs, partitions))


async def _pages(
    app: Application, request: BulkRuns, caller: Caller, outcome: Outcome
) -> AsyncGenerator[Page[ChosenRun], None]:
    """Those named by their ids that there is nothing to be done with are refused here."""
    if request.filter is None:
        for named, cursor in slices(request.ids, request.cursor):
            known = await rows.by_ids(app.pool, caller.namespace, named)
            reasons = {run_id: _why_not(request, run_id, known.get(run_id)) for run_id in named}
            for run_id, reason in reasons.items():
                if reason:
                    outcome.refuse(run_id, reason)
            if not request.dry_run:
                outcome.matched += sum(bool(reason) for reason in reasons.values())
            yield [run for run_id, run in known.items() if not reasons[run_id]], cursor
        return
    after = None if request.cursor is None else decode_cursor(request.cursor, tuple[datetime, str])
    more = True
    while more:
        found = await rows.matching(
            app.pool, caller.namespace, request.filter, _statuses(request), after, PAGE + 1
        )
        more, page = len(found) > PAGE, found[:PAGE]
        if page:
            after = page[-1].scheduled_time, page[-1].run_id
            yield page, encode_cursor(after) if more else None


def _why_not(request: BulkRuns, run_id: str, run: ChosenRun | None) -> str:
    """Why nothing can be done with a run; nothing if it can."""
    if run is None:
        return f"there is no run {run_id}"
    if request.action == "cancel":
        return f"run {run_id} has ended: {run.status}" if run.status in TERMINAL else ""
    if run.status not in TERMINAL or run.status == "SUCCESS":
        return f"run {run_id} is {run.status}; only one that ended badly can be tried again"
    return ""


async def _cancel_runs(
    app: Application, request: BulkRuns, caller: Caller, page: list[ChosenRun], outcome: Outcome
) -> None:
    now, cause = now_us(), secrets.token_hex(8)
    await append(
        app,
        (
            RunCancelRequested(
                run_id=run.run_id,
                at=now,
                actor=caller.actor,
                cause=cause,
                reason=request.note,
                now=request.now,
            )
            for run in page
        ),
    )
    outcome.done += len(page)


async def _retry_runs(
    app: Application, request: BulkRuns, caller: Caller, page: list[ChosenRun], outcome: Outcome
) -> None:
    """As one by one: workflow runs, and nodes with the workflow run they are part of, are run again as a whole."""
    single: list[ChosenRun] = []
    waves: dict[str, set[str]] = {}
    of_wave: dict[str, int] = {}
    for run in page:
        path = part_path(run.run_id)
        whole = run.run_id.removesuffix("".join(f"~{part}" for part in path))
        if run.is_workflow:
            waves.setdefault(whole, set()).update(path[:1])
            of_wave[whole] = of_wave.get(whole, 0) + 1
        elif path:
            outcome.refuse(run.run_id, f"{run.run_id} is a member of {whole}: run the whole job again")
        else:
            single.append(run)
    await request_retries(app, single, caller)
    outcome.done += len(single)
    entire = {run.run_id for run in page}

    async def again(whole: str) -> None:
        nodes = () if whole in entire else tuple(waves[whole])
        try:
            await rerun_workflow_run(app, whole, nodes, caller)
        except Refused as refused:
            outcome.refuse(whole, str(refused))
        else:
            outcome.done += of_wave[whole]

    await together(again, list(waves))
