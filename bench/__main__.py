"""`python -m bench`: measure, print one JSON line for each result, write the report."""

import argparse
import asyncio
import contextlib
import shlex
import signal
import sys
import time
import traceback
from datetime import UTC, datetime

import msgspec

from bench.machine import machine, versions
from bench.peers import PEERS, peers
from bench.plan import Plan, Scenario
from bench.report import write_report
from bench.results import Results
from bench.scenarios import SCENARIOS
from bench.scenarios.overload import PARTS


def main() -> int:
    arguments = _arguments()
    plan = Plan(
        quick=arguments.quick,
        full=arguments.full,
        smoke=arguments.smoke,
        rate=arguments.rate,
        parts=tuple(arguments.part or ()),
        seconds=arguments.seconds,
    )
    chosen = {} if arguments.report_only else _chosen(arguments)
    results = Results.stored()
    run = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    failed = set(chosen)
    try:
        failed = asyncio.run(_measure(chosen, plan, results, run))
    finally:
        if not arguments.smoke:
            if not arguments.only and not arguments.report_only:
                results.only_of(run, but=failed)
            results.store()
            write_report(results)
    for name in sorted(failed):
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


async def _measure(chosen: dict[str, Scenario], plan: Plan, results: Results, run: str) -> set[str]:
    """One after the other; one that fails does not keep the others from running. Which did."""
    task = asyncio.current_task()
    assert task is not None
    # Stopped from outside, it still stops what it started.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    common = {
        "machine": machine(),
        "versions": versions(),
        "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "run": run,
    }
    failed = set()
    for name, scenario in chosen.items():
        started = time.monotonic()
        try:
            async with contextlib.aclosing(scenario(plan)) as measured:
                async for result in measured:
                    stamped = msgspec.structs.replace(
                        result, **common, at=datetime.now(UTC).isoformat(timespec="seconds")
                    )
                    print(msgspec.json.encode(stamped).decode(), flush=True)
                    results.add(stamped)
        except Exception:
            traceback.print_exc()
            failed.add(name)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return failed


def _chosen(arguments: argparse.Namespace) -> dict[str, Scenario]:
    everything: dict[str, Scenario] = dict(SCENARIOS)
    with_peers = arguments.peers if arguments.peers is not None else not (arguments.quick or arguments.smoke)
    named = arguments.only or []
    if with_peers or any(name.startswith("peer") for name in named):
        everything |= peers()
    if not named:
        return everything
    return {name: run for name, run in everything.items() if name in named or name.partition("/")[0] in named}


def _arguments() -> argparse.Namespace:
    names = [*SCENARIOS, "peer", *(f"peer/{name}" for name in PEERS)]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="about twelve minutes, without peers unless --peers"
    )
    parser.add_argument("--full", action="store_true", help="also ten million stored schedules")
    parser.add_argument("--smoke", action="store_true", help="only see whether it runs; writes no report")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--peers", action=argparse.BooleanOptionalAction, help="measure what others offer, too"
    )
    parser.add_argument("--rate", type=int, help="runs a second to offer in fire_rate")
    parser.add_argument(
        "--part", nargs="+", choices=PARTS, metavar="PART", help=f"of overload: {', '.join(PARTS)}"
    )
    parser.add_argument("--seconds", type=int, help="how long a flood of overload lasts")
    parser.add_argument(
        "--report-only", action="store_true", help="write the report anew from stored results"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
