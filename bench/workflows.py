"""`python -m bench.workflows`: a layered DAG of 1,000 nodes and a map 10,000 wide, all no-ops; one JSON line each."""

import asyncio
import sys
import time
from typing import Any

import msgspec

from bench.machine import machine
from bench.system import System, running_system

_LOOK = 0.25


def layered(layers: int, width: int) -> list[dict[str, Any]]:
    """Every node of a layer waits for ten of the layer before."""
    return [
        {
            "id": f"l{layer}n{place}",
            "job_type": "noop",
            "depends_on": [f"l{layer - 1}n{(place + step) % width}" for step in range(10)] if layer else [],
        }
        for layer in range(layers)
        for place in range(width)
    ]


def wide(width: int) -> list[dict[str, Any]]:
    return [
        {"id": "each", "job_type": "noop", "map": {"over": {"range": width}, "max_concurrency": 1000}},
        {"id": "reduce", "job_type": "noop", "depends_on": ["each"]},
    ]


async def measure(home: System, name: str, nodes: list[dict[str, Any]], parts: int) -> dict[str, object]:
    workflow = await home.clock.workflows.create(name=name, nodes=nodes)
    accepted = await home.clock.workflows.run_now(workflow.workflow_id)
    deadline = time.monotonic() + 300
    while (wave := await home.clock.workflows.wave(accepted.workflow_run_id)).end_time is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} does not end")
        await asyncio.sleep(_LOOK)
    assert wave.start_time is not None
    seconds = (wave.end_time - wave.start_time).total_seconds()
    return {
        "name": f"workflows/{name}",
        "status": wave.status,
        "parts": parts,
        "seconds": round(seconds, 2),
        "ms_per_part": round(seconds / parts * 1000, 3),
        "scheduler_rss_mb": home.memory_mb("scheduler"),
        "machine": machine(),
    }


async def main(scale: int) -> None:
    async with running_system() as home:
        layers, width = 10, max(10, 100 // scale)
        print(_line(await measure(home, "layered", layered(layers, width), layers * width)), flush=True)
        members = 10_000 // scale
        print(_line(await measure(home, "wide", wide(members), members + 1)), flush=True)


def _line(result: dict[str, object]) -> str:
    return msgspec.json.encode(result).decode()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
