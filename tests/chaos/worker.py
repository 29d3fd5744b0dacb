"""What the jobs of the fault suite do: tell the checking store, as handlers and as a program of its own."""

import json
import os
import socket
import sys
import time

_HELD_SECONDS = 0.4


def hold_and_commit(port: int) -> int:
    """The exactly-once program: at work for a while, then one effect."""
    fence = {
        "key": os.environ["WATERCLOCK_RUN_ID"],
        "attempt": int(os.environ["WATERCLOCK_ATTEMPT"]),
        "token": int(os.environ["WATERCLOCK_FENCING_TOKEN"]),
        "kind": "exactly_once",
    }
    with socket.create_connection(("127.0.0.1", port)) as store, store.makefile("rw") as lines:
        for do in ("hold", "commit"):
            lines.write(json.dumps({"do": do, **fence}) + "\n")
            lines.flush()
            answer = lines.readline().strip()
            if do == "hold":
                time.sleep(_HELD_SECONDS)
    return 0 if answer in ("taken", "known") else 1


if __name__ == "__main__":
    sys.exit(hold_and_commit(int(sys.argv[1])))

# The program above starts quickly, without what follows.
import asyncio  # noqa: E402
from typing import Any  # noqa: E402

from waterclock.executor import Context, Worker  # noqa: E402

worker = Worker(queue="default", tier="light", slots=256)


@worker.handler("record")
async def record(context: Context, payload: Any) -> None:
    """One effect under the run's key; the payload says the kind of job, and where the store is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", payload["port"])
    try:
        said = {"do": "commit", "key": context.run_id, "kind": payload["kind"], "token": None}
        writer.write(json.dumps(said).encode() + b"\n")
        await reader.readline()
    finally:
        writer.close()


@worker.handler("flaky")
async def flaky(context: Context, payload: Any) -> None:
    if context.attempt == 1:
        raise RuntimeError("the first attempt fails")
    await record(context, payload)


@worker.handler("noop")
async def noop(context: Context, payload: Any) -> None:
    pass
