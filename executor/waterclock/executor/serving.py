"""`Worker.run()`: a program that is a worker, and nothing else."""

from waterclock.core.runtime.data_directory import resolved
from waterclock.core.runtime.lifecycle import StopSignal, run_service
from waterclock.core.runtime.settings import Settings, load
from waterclock.executor.service import Executor
from waterclock.executor.worker import Worker


def serve(worker: Worker, flags: dict[str, object]) -> int:
    """Returns the exit code."""

    async def entry(settings: Settings, stop: StopSignal) -> None:
        await Executor(settings, [worker], processes=False).run(stop)

    return run_service("worker", entry, resolved(load(flags), "executor"))
