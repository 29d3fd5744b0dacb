"""taskiq on JetStream: pull consumer, acknowledged when executed; schedules in its key-value source."""

import asyncio
import sys
from datetime import UTC, datetime

import record
from nats.js.api import ConsumerConfig, RetentionPolicy, StreamConfig
from taskiq import TaskiqScheduler
from taskiq_nats import NATSKeyValueScheduleSource, PullBasedJetStreamBroker

broker = PullBasedJetStreamBroker(
    record.SERVER,
    stream_config=StreamConfig(retention=RetentionPolicy.WORK_QUEUE),
    consumer_config=ConsumerConfig(durable_name="taskiq_durable", max_ack_pending=20_000),
    pull_consume_batch=200,
    pull_consume_timeout=1.0,
)
source = NATSKeyValueScheduleSource(record.SERVER)
scheduler = TaskiqScheduler(broker, [source])


@broker.task(task_name="noop")
async def noop(number: int, payload: str) -> None:
    record.ran(number)


async def submit():
    numbers, at = record.arguments()
    await broker.startup()
    await source.startup()
    record.begin()
    if at is None:
        for chunk in record.chunks(numbers):
            await asyncio.gather(*(noop.kiq(number, record.PAYLOAD) for number in chunk))
    else:
        due = datetime.fromtimestamp(at, UTC)
        for chunk in record.chunks(numbers):
            await asyncio.gather(
                *(noop.schedule_by_time(source, due, number, record.PAYLOAD) for number in chunk)
            )
    await source.shutdown()
    await broker.shutdown()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        parallel = ("--max-async-tasks", "1000", "--max-prefetch", "1000", "--ack-type", "when_executed")
        record.become(
            "taskiq", "worker", "taskiq_peer:broker", "--workers", "2", "--log-level", "ERROR", *parallel
        )
    if sys.argv[1] == "clock":
        pace = ("--update-interval", "1", "--loop-interval", "1")
        record.become("taskiq", "scheduler", "taskiq_peer:scheduler", "--log-level", "ERROR", *pace)
    asyncio.run(submit())
