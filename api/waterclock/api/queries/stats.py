"""How runs went over time, from counts that the projector keeps.

By job and by label they are kept by the hour, and not for jobs that run once. A range with few runs is counted from the
runs themselves instead, in steps of any length. Either way the keys add up to the whole: what is not told apart stands
under null.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.errors import Invalid
from waterclock.api.readmodels import stats
from waterclock.api.readmodels.stats import MOST_KEYS, Counted, Span
from waterclock.api.registry import handles
from waterclock.core.domain.instants import SECOND, datetime_of, instant_of
from waterclock.core.domain.job import durations
from waterclock.core.domain.readmodel.run_stats import RunCounts, percentile_seconds
from waterclock.proto import methods
from waterclock.proto.answers import Stats, StatsBucket
from waterclock.proto.queries import StatsQuery

_STEPS = (60, 300, 900, 3600, 6 * 3600, 86_400)
_USUAL_STEPS = 200
_MOST_STEPS = 1500
_FEW_RUNS = 20_000
_RECENT = timedelta(minutes=10)


@handles(methods.STATS_READ)
async def read(app: Application, request: StatsQuery, caller: Caller) -> Stats:
    span = _span(request)
    if span.end > datetime.now(UTC) - _RECENT:
        await app.freshness.of_all_runs()
    match request.by:
        case "queue" | "executor":
            found = await stats.counted(app.pool, caller.namespace, span, request.by)
        case None:
            found = await stats.counted(app.pool, caller.namespace, span)
        case "job":
            found = await _told_apart(app, caller.namespace, span, None)
        case by:
            found = await _told_apart(app, caller.namespace, span, by.removeprefix("label:"))
    buckets = [
        _bucket(start, key, counts, request.by)
        for (start, key), counts in sorted(found.items(), key=lambda item: (item[0][0], item[0][1] or "~~"))
        if counts.total > 0
    ]
    return Stats(buckets=buckets, start=span.start, end=span.end, step_seconds=span.step)


async def _told_apart(app: Application, namespace: str, span: Span, label: str | None) -> Counted:
    whole = await stats.counted(app.pool, namespace, span)
    runs = sum(counts.total for counts in whole.values())
    if runs <= _FEW_RUNS:
        found = await stats.from_runs(app.pool, namespace, span, label)
    elif not span.is_of_hours:
        raise Invalid.field("step", f"of {runs:,} runs, jobs are told apart by whole hours only, as in 1h")
    elif label is None:
        found = await stats.by_job(app.pool, namespace, span)
    else:
        found = await stats.by_label(app.pool, namespace, span, label)
    return _with_rest(whole, found)


def _with_rest(whole: Counted, found: Counted) -> Counted:
    """The keys with most runs, and under None what is left of the whole."""
    totals: dict[str, int] = {}
    for (_, key), counts in found.items():
        if key is not None:
            totals[key] = totals.get(key, 0) + counts.total
    shown = set(sorted(totals, key=lambda key: (-totals[key], key))[:MOST_KEYS])
    kept = {place: counts for place, counts in found.items() if place[1] in shown}
    for (start, _), counts in kept.items():
        if (start, None) in whole:
            whole[start, None].add(counts, -1)
    return {**whole, **kept}


def _bucket(start: datetime, key: str | None, counts: RunCounts, by: str | None) -> StatsBucket:
    named: dict[str, Any] = {} if by is None else {by.partition(":")[0]: key}
    return StatsBucket(
        start=start,
        success=counts.success,
        failed=counts.failed,
        missed=counts.missed,
        skipped=counts.skipped,
        cancelled=counts.cancelled,
        p50_seconds=percentile_seconds(counts.durations, 0.50),
        p95_seconds=percentile_seconds(counts.durations, 0.95),
        lag_p99_seconds=percentile_seconds(counts.lags, 0.99),
        **named,
    )


def _span(request: StatsQuery) -> Span:
    end = instant_of(request.end or datetime.now(UTC))
    start = end - 86_400 * SECOND if request.start is None else instant_of(request.start)
    if end <= start:
        raise Invalid.field("to", "must be after from")
    step = _step(request, (end - start) // SECOND) * SECOND
    start, end = start // step * step, -(-end // step) * step
    if (end - start) // step > _MOST_STEPS:
        raise Invalid.field(
            "step", f"makes {(end - start) // step:,} steps of this range; {_MOST_STEPS:,} are the most"
        )
    return Span(datetime_of(start), datetime_of(end), step // SECOND)


def _step(request: StatsQuery, seconds: int) -> int:
    if request.step is None:
        least = 60 if request.by in (None, "queue", "executor") else 3600
        fit = [step for step in _STEPS if step >= least and seconds <= _USUAL_STEPS * step]
        return fit[0] if fit else _STEPS[-1]
    try:
        seconds_alone = request.step.isascii() and request.step.isdigit()
        step = durations.parse(f"{request.step}s" if seconds_alone else request.step)
    except durations.InvalidDuration as error:
        raise Invalid.field("step", str(error)) from None
    if step < 60 * SECOND or step % (60 * SECOND):
        raise Invalid.field("step", "must be whole minutes, as in 5m or 1h")
    return step // SECOND
