"""What the jobs of the benchmarks do: nothing."""

from typing import Any

from waterclock.executor import Context, Worker

worker = Worker(queue="default", tier="light", slots=1024)


@worker.handler("noop")
async def noop(context: Context, payload: Any) -> None:
    pass
