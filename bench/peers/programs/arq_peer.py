"""arq: one worker process for each core, results not kept."""

import asyncio
import logging
import sys
from datetime import UTC, datetime

import record
from arq import create_pool, func
from arq.connections import RedisSettings
from arq.worker import Worker

SETTINGS = RedisSettings.from_dsn(record.SERVER) if record.SERVER else None


async def noop(context, number, payload):
    record.ran(number)


async def submit():
    numbers, at = record.arguments()
    until = None if at is None else datetime.fromtimestamp(at, UTC)
    pool = await create_pool(SETTINGS)
    record.begin()
    for chunk in record.chunks(numbers):
        await asyncio.gather(
            *(pool.enqueue_job("noop", number, record.PAYLOAD, _defer_until=until) for number in chunk)
        )
    await pool.aclose()


def work():
    logging.disable(logging.INFO)
    worker = Worker(
        functions=[func(noop, keep_result=0)],
        redis_settings=SETTINGS,
        max_jobs=500,
        queue_read_limit=1000,
        poll_delay=0.05,
        handle_signals=True,
    )
    worker.run()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        asyncio.set_event_loop(asyncio.new_event_loop())
        work()
    else:
        asyncio.run(submit())
