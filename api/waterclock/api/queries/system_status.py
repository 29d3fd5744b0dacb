"""`system.status`: whether all is well, check by check."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.queries import fleet
from waterclock.api.readmodels import runs
from waterclock.api.readmodels.freshness import positions
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handles
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.system_load import SystemLoad, system_load
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.quarantined import quarantined
from waterclock.core.jetstream.streams import SHARES
from waterclock.core.runtime.clock import now_us
from waterclock.core.store.store import StoreError
from waterclock.proto import methods, names
from waterclock.proto.answers import Check, Load, Partition, SystemStatus
from waterclock.proto.heartbeats import SchedulerHeartbeat
from waterclock.proto.queries import Nothing

_SCHEDULER_LAG = 2.0
_PROJECTION_LAG = 10.0
_STORE_SECONDS = 2.0
_NEARLY_FULL = 0.9
_LACKS_NAMED = 3


@handles(methods.SYSTEM_STATUS)
async def status(app: Application, request: Nothing, caller: Caller) -> SystemStatus:
    schedulers = await fleet.schedulers(app.control)
    load = await _load(app, system_load(schedulers, now_us()))
    checks = [
        await _log(app),
        await _store(app),
        _schedulers(schedulers, fleet.owned_partitions(schedulers, app.settings.partitions)),
        Check(name="load", ok=not load.saturated and not load.crowded, detail=_in_words(load)),
        await _executors(app),
        await _confinement(app),
        await _queues(app, schedulers, load.backlog),
        await _read_models(app, caller),
        await _quarantine(app),
    ]
    return SystemStatus(ok=all(check.ok for check in checks), checks=checks, load=load)


async def _log(app: Application) -> Check:
    jobs = await stream_state(app.connection, names.JOBS)
    frames = await stream_state(app.connection, names.RUNS)
    detail = f"{jobs.messages} definitions, {frames.messages} frames of run events"
    states = await asyncio.gather(*(stream_state(app.connection, stream) for stream in SHARES))
    full = [
        f"{stream} {state.filled:.0%}"
        for stream, state in zip(SHARES, states, strict=True)
        if state.filled > _NEARLY_FULL
    ]
    if full:
        detail += f"; nearly full, and refuses what is new when it is: {', '.join(full)} (see log_bytes)"
    return Check(name="log", ok=not full, detail=detail)


async def _store(app: Application) -> Check:
    kept = app.settings.store or "the log's own servers"
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            await app.logs.check()
    except (StoreError, TimeoutError) as error:
        detail = f"artifacts and output cannot be kept: {error or 'it does not answer'}"
        return Check(name="store", ok=False, detail=detail)
    return Check(name="store", ok=True, detail=f"artifacts and output are kept in {kept}")


async def _load(app: Application, load: SystemLoad) -> Load:
    apis = [app.admission.heartbeat(), *(await app.admission.others() if load.saturated else ())]
    since = load.saturated_since
    return Load(
        saturated=load.saturated,
        since=None if since is None or not load.saturated else datetime_of(since),
        behind_seconds=round(load.behind_seconds, 3),
        drain_seconds=round(load.drain_seconds(), 3),
        backlog=load.backlog,
        waits_since=None if load.waits_since is None else datetime_of(load.waits_since),
        unread=load.unread,
        ended_per_second=round(load.ended_per_second, 1),
        accepted_per_second=round(sum(api.accepted_per_second for api in apis), 1),
        crowded=len(load.crowded),
    )


def _in_words(load: Load) -> str:
    first = f" (the first at {load.waits_since:%H:%M:%S}Z)" if load.backlog and load.waits_since else ""
    waiting = f"{load.backlog:,} due{first}, {load.unread:,} unread"
    accepted = f"{load.accepted_per_second:,.0f}/s accepted"
    if load.crowded:
        accepted += f"; too much waits for executors: namespaces that get no more in: {load.crowded}"
    if not load.saturated:
        return f"not saturated: {waiting}; {accepted}"
    since = "" if load.since is None else f" since {load.since:%H:%M:%S}Z"
    return (
        f"saturated{since}: {load.behind_seconds:.0f} s behind, {load.drain_seconds:.0f} s to drain; {waiting};"
        f" {accepted}, {load.ended_per_second:,.0f}/s done; callers are slowed down"
    )


async def _quarantine(app: Application) -> Check:
    if (await stream_state(app.connection, names.QUARANTINE)).messages == 0:
        return Check(name="quarantine", ok=True, detail="every record could be read")
    found = await quarantined(app.connection)
    if not found:
        return Check(name="quarantine", ok=True, detail="every record could be read, or was dropped")
    streams = ", ".join(sorted({record.stream for record in found}))
    detail = (
        f"{len(found)} records of {streams} cannot be read and are left out: `waterclock quarantine list`"
    )
    return Check(name="quarantine", ok=False, detail=detail)


def _schedulers(schedulers: list[SchedulerHeartbeat], partitions: list[Partition]) -> Check:
    owned = [partition for partition in partitions if partition.owner]
    owners = {partition.owner for partition in owned}
    lag = max((partition.lag_seconds or 0 for partition in owned), default=0)
    failing = sorted({number for beat in schedulers for number in beat.failing})
    detail = f"{len(owners)} own {len(owned)} of {len(partitions)} partitions, {lag:.1f} s behind at most"
    if failing:
        shown = ", ".join(map(str, failing[:10]))
        detail += f"; partitions that fail again and again: {shown} (see the schedulers' logs)"
    return Check(
        name="schedulers",
        ok=len(owned) == len(partitions) and lag < _SCHEDULER_LAG and not failing,
        detail=detail,
    )


async def _executors(app: Application) -> Check:
    found = await fleet.executors(app.control)
    active = [executor for executor in found if executor.status == "ACTIVE"]
    slots, busy = sum(e.slots for e in active), sum(e.busy for e in active)
    return Check(name="executors", ok=bool(active), detail=f"{len(active)} with {busy} of {slots} slots busy")


async def _confinement(app: Application) -> Check:
    """What is missing is said and does not make it red: it is a property of the machine, and nothing has changed."""
    found = await fleet.executors(app.control)
    missing = sorted({what for executor in found for what, why in executor.protections.items() if why})
    there = sorted({what for executor in found for what in executor.protections} - set(missing))
    detail = f"of jobs, by: {_listed(there)}"
    return Check(
        name="confinement",
        ok=True,
        detail=f"{detail}; not by: {_listed(missing)} (see `waterclock doctor`)" if missing else detail,
    )


def _listed(protections: list[str]) -> str:
    return ", ".join(what.replace("_", " ") for what in protections) or "nothing"


async def _queues(app: Application, schedulers: list[SchedulerHeartbeat], due: int) -> Check:
    """`due`: what has no room in any queue yet. The schedulers name only the fullest queues of it."""
    found = await fleet.queues(app.connection, schedulers, await fleet.heartbeats(app.control))
    waiting, running = sum(q.waiting for q in found), sum(q.running for q in found)
    stuck: Counter[str] = Counter()
    for queue in found:
        if queue.missing is not None and queue.waiting + queue.due:
            stuck[queue.missing] += queue.waiting + queue.due
    detail = f"{waiting} waiting, {running} running" + (f", {due:,} more due" if due else "")
    lacks = [f"{count:,} wait: {missing}" for missing, count in stuck.most_common(_LACKS_NAMED)]
    if len(stuck) > _LACKS_NAMED:
        lacks.append(f"and {len(stuck) - _LACKS_NAMED} more such (`waterclock queues`)")
    return Check(name="queues", ok=not stuck, detail="; ".join((detail, *lacks)))


async def _read_models(app: Application, caller: Caller) -> Check:
    try:
        lag = await _projection_lag(app)
        dead = await runs.count_dead_letters(app.pool, caller.namespace)
    except ReadModelsAway as error:
        return Check(name="read models", ok=False, detail=f"away: {error}")
    return Check(
        name="read models",
        ok=lag < _PROJECTION_LAG,
        detail=f"{lag:.1f} s behind the log; {dead} dead letters",
    )


async def _projection_lag(app: Application) -> float:
    """The age of the oldest run event that is in the log and not in the read models."""
    folded = await positions(app.pool, names.RUNS)
    now = datetime.now(UTC)
    lag = 0.0
    for partition in range(app.settings.partitions):
        newest = await last_message(app.connection, names.RUNS, names.runs_subject(partition))
        known = folded.get(partition)
        if newest is not None and (known is None or known.position < newest.sequence):
            since = known.event_time if known and known.event_time else newest.timestamp
            lag = max(lag, (now - since).total_seconds())
    return lag
