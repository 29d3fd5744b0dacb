"""Handlers that run in processes of their own; a process finds them by their module."""

import os
import signal
import time
from typing import Any

from waterclock.executor import Context, Retry, Worker

worker = Worker(slots=4)


@worker.handler("who", run_in="process")
def who(context: Context, payload: Any) -> dict[str, Any]:
    context.log(f"run {context.run_id}")
    return {"pid": os.getpid(), "payload": payload, "attempt": context.attempt}


@worker.handler("fail", run_in="process")
def fail(context: Context, payload: Any) -> None:
    raise KeyError(payload)


@worker.handler("again", run_in="process")
def again(context: Context, payload: Any) -> None:
    raise Retry("later", after=60)


@worker.handler("die", run_in="process")
def die(context: Context, payload: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@worker.handler("hang", run_in="process")
def hang(context: Context, payload: str) -> None:
    with open(payload, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(300)
