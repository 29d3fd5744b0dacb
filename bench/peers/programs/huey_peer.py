"""huey on Redis: two worker processes, results not kept."""

import sys
from datetime import UTC, datetime

import record
from huey import RedisHuey

huey = RedisHuey("bench", url=record.SERVER, results=False)


@huey.task(name="noop")
def noop(number, payload):
    record.ran(number)


def submit():
    numbers, at = record.arguments()
    eta = None if at is None else datetime.fromtimestamp(at, UTC)
    record.begin()
    for number in numbers:
        if eta is None:
            noop(number, record.PAYLOAD)
        else:
            noop.schedule((number, record.PAYLOAD), eta=eta)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        pace = ("--scheduler-interval", "1", "--no-periodic", "--quiet")
        record.become("huey_consumer", "huey_peer.huey", "--workers", "2", "--worker-type", "process", *pace)
    # Imported by name, so that the queue knows the task by the name the consumer knows.
    import huey_peer

    huey_peer.submit()
