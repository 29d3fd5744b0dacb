"""Let every process do each thing once before it is measured."""

from bench import jobs
from bench.system import System


async def warm_up(system: System, count: int = 500) -> None:
    before = await system.history.succeeded()
    await jobs.submit(system.clock, [jobs.immediate() for _ in range(count)])
    await system.history.until_succeeded(before + count, within=30)
