"""waterclock beside the two fastest peers: three rounds in turn on the same machine, and the median of each."""

import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable

from bench.peers import PEERS
from bench.peers.measurement import measure as measure_peer
from bench.plan import Plan
from bench.result import Figure, Result
from bench.scenarios import start_lag, submit
from bench.system import running_system
from bench.warm_up import warm_up

_ROUNDS = 3
_PEERS = ("graphile-worker", "pgqueuer")
_OURS = "waterclock"


async def fastest(plan: Plan) -> AsyncGenerator[Result, None]:
    rounds: dict[str, list[Result]] = {}
    for _ in range(plan.choose(_ROUNDS, quick=1)):
        for name, measured in _ENTRANTS.items():
            found = await measured(plan)
            if "not_installed" in found.figures:
                continue
            rounds.setdefault(name, []).append(found)
    for name, found_in_each in rounds.items():
        yield _median(name, found_in_each)


async def _ours(plan: Plan) -> Result:
    """A system of its own each time, as the peers have."""
    async with running_system() as system:
        await warm_up(system)
        bulk = await submit.measure(system, _OURS, plan.count(100_000, quick=20_000), submit.over_nats)
        crowd = await start_lag.measure(system, _OURS, plan.count(5_000, quick=5_000), 0.0)
    return Result(
        name=_OURS,
        figures={
            "title": _OURS,
            "server": "nats, postgres",
            "remark": "keeps every run and its history in Postgres, log fsynced",
            "rate": bulk.figures["rate"],
            "missing": bulk.figures["missing"],
            "lag_p99_ms": crowd.figures["lag_p99_ms"],
        },
        cpu=bulk.cpu,
    )


def _peer(name: str) -> Callable[[Plan], Awaitable[Result]]:
    async def measured(plan: Plan) -> Result:
        return [each async for each in measure_peer(name, PEERS[name], plan)][-1]

    return measured


_ENTRANTS: dict[str, Callable[[Plan], Awaitable[Result]]] = {
    _OURS: _ours,
    **{name: _peer(name) for name in _PEERS},
}


def _median(name: str, rounds: list[Result]) -> Result:
    """The round in the middle by its rate, with the median of the lags."""
    middle = sorted(rounds, key=lambda each: each.number("rate") or 0.0)[len(rounds) // 2]
    kept = ("title", "server", "remark", "versions", "missing", "rate")
    figures: dict[str, Figure] = {each: middle.figures[each] for each in kept if each in middle.figures}
    lags = [lag for each in rounds if (lag := each.number("lag_p99_ms")) is not None]
    figures["lag_p99_ms"] = statistics.median(lags) if lags else None
    figures["rounds"] = ", ".join(f"{each.number('rate'):,.0f}" for each in rounds)
    return Result(name=f"fastest/{name}", figures=figures, cpu=middle.cpu)
