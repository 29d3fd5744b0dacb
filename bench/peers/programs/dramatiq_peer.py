"""Dramatiq on Redis: two processes of eight threads."""

import sys
import time

import dramatiq
import record
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=record.SERVER))


@dramatiq.actor(max_retries=3)
def noop(number, payload):
    record.ran(number)


def submit():
    numbers, at = record.arguments()
    record.begin()
    for number in numbers:
        if at is None:
            noop.send(number, record.PAYLOAD)
        else:
            delay = max(0, int((at - time.time()) * 1000))
            noop.send_with_options(args=(number, record.PAYLOAD), delay=delay)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        record.become("dramatiq", "dramatiq_peer", "--processes", "2", "--threads", "8")
    submit()
