"""A rebuild of the read models in a process of its own: `python -m bench.rebuild_process DATA`. Prints what it did."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import uvloop

from waterclock.core.runtime.data_directory import resolved
from waterclock.core.runtime.settings import Settings
from waterclock.projector.rebuild.rebuilder import rebuild


async def _rebuild(data: Path) -> None:
    result = await rebuild(resolved(Settings(data=data), "projector"), lambda progress: None)
    times = os.times()
    figures = msgspec.structs.asdict(result) | {"cpu_seconds": times.user + times.system}
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_rebuild(Path(sys.argv[1])))
