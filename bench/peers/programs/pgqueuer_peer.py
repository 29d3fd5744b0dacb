"""PGQueuer on Postgres: batches of two hundred for each of two workers, and its log of finished jobs as by default."""

import asyncio
import signal
import sys
import time
from datetime import timedelta

import asyncpg
import record
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries


async def prepare():
    connection = await asyncpg.connect(record.SERVER)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def submit():
    numbers, at = record.arguments()
    connection = await asyncpg.connect(record.SERVER)
    queries = Queries(AsyncpgDriver(connection))
    record.begin()
    for chunk in record.chunks(numbers):
        after = None if at is None else timedelta(seconds=max(0.0, at - time.time()))
        payloads = [f"{number} {record.PAYLOAD}".encode() for number in chunk]
        size = len(payloads)
        await queries.enqueue(["noop"] * size, payloads, [0] * size, [after] * size)
    await connection.close()


async def work():
    async with asyncpg.create_pool(record.SERVER, min_size=2, max_size=4) as pool:
        queuer = PgQueuer(AsyncpgPoolDriver(pool))

        @queuer.entrypoint("noop")
        async def noop(job):
            record.ran(int(job.payload.partition(b" ")[0]))

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
        await queuer.run(batch_size=200, dequeue_timeout=timedelta(seconds=0.1))


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run({"prepare": prepare, "work": work, "submit": submit}[sys.argv[1]]())
