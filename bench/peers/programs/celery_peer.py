"""Celery on Redis. Late acknowledgement: a task whose worker dies is not lost. Results are not kept."""

import sys
from datetime import UTC, datetime

import record
from celery import Celery

app = Celery("celery_peer", broker=record.SERVER)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=128,
    worker_disable_rate_limits=True,
    broker_connection_retry_on_startup=True,
    task_serializer="json",
)


@app.task(name="noop")
def noop(number, payload):
    record.ran(number)


def submit():
    numbers, at = record.arguments()
    eta = None if at is None else datetime.fromtimestamp(at, UTC)
    with app.producer_or_acquire() as producer:
        producer.connection.ensure_connection()
        record.begin()
        for number in numbers:
            noop.apply_async((number, record.PAYLOAD), producer=producer, eta=eta)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR")
        record.become(
            "celery", "-A", "celery_peer", "worker", "--pool", "prefork", "--concurrency", "2", *quiet
        )
    submit()
