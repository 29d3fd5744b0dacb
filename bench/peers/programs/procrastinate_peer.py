"""Procrastinate on Postgres: bulk defers, one asynchronous worker, finished jobs kept as by default."""

import asyncio
import sys
from datetime import UTC, datetime

import record
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=record.SERVER))


@app.task(name="noop")
async def noop(number, payload):
    record.ran(number)


async def submit():
    numbers, at = record.arguments()
    due = None if at is None else datetime.fromtimestamp(at, UTC)
    async with app.open_async():
        record.begin()
        for chunk in record.chunks(numbers):
            deferrer = noop.configure() if due is None else noop.configure(schedule_at=due)
            await deferrer.batch_defer_async(
                *({"number": number, "payload": record.PAYLOAD} for number in chunk)
            )


async def prepare():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def work():
    async with app.open_async():
        await app.run_worker_async(concurrency=30, fetch_job_polling_interval=0.2)


if __name__ == "__main__":
    asyncio.run({"prepare": prepare, "work": work, "submit": submit}[sys.argv[1]]())
