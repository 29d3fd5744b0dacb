"""The handlers of the recorded history. They run in the version that is recorded, so they use only the public SDK."""

import asyncio
import time
from typing import Any

from waterclock.executor import Cancel, Context, Retry, Snooze, Worker

worker = Worker(slots=16)
_snoozed: set[str] = set()


@worker.handler("echo")
async def echo(context: Context, payload: Any) -> Any:
    context.log(f"attempt {context.attempt}")
    return payload


@worker.handler("slow")
async def slow(context: Context, payload: Any) -> Any:
    """Long enough to report progress, to be cancelled and to be interrupted by a kill."""
    end = time.monotonic() + float(payload["seconds"])
    while time.monotonic() < end:
        context.progress(0.5, "half way")
        await asyncio.sleep(0.1)
    return {"token": context.fencing_token}


@worker.handler("flaky")
def flaky(context: Context, payload: Any) -> Any:
    if context.attempt < int(payload["succeeds_at"]):
        raise Retry("not yet", after=0.1)
    return {"attempt": context.attempt}


@worker.handler("snoozing")
async def snoozing(context: Context, payload: Any) -> Any:
    if context.run_id not in _snoozed:
        _snoozed.add(context.run_id)
        raise Snooze(0.2, "too early")
    return "awake"


@worker.handler("pointless")
async def pointless(context: Context, payload: Any) -> Any:
    raise Cancel("nothing to do")


@worker.handler("member")
async def member(context: Context, payload: Any) -> Any:
    if payload == context.index == 2:
        raise ValueError("the third member fails")
    return {"item": payload}
