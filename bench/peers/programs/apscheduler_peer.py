"""APScheduler 3 with its jobs in Postgres. It takes jobs from its own process only: `submit` asks that process."""

import os
import sys
import time
from datetime import UTC, datetime

import record
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler


def noop(number, payload):
    record.ran(number)


def work():
    """The module is imported by its name, so that the store can name the function."""
    import apscheduler_peer

    store = SQLAlchemyJobStore(url=record.SERVER.replace("postgresql://", "postgresql+psycopg://"))
    scheduler = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(10)},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    scheduler.start()
    orders = os.environ["BENCH_RECORD"] + ".orders"
    while True:
        if not os.path.exists(orders):
            time.sleep(0.01)
            continue
        with open(orders) as file:
            count, first, at = file.read().split()
        os.unlink(orders)
        due = datetime.fromtimestamp(float(at) or time.time(), UTC)
        for number in range(int(first), int(first) + int(count)):
            scheduler.add_job(apscheduler_peer.noop, "date", run_date=due, args=(number, record.PAYLOAD))
        open(orders + ".done", "w").close()


def submit():
    numbers, at = record.arguments()
    orders = os.environ["BENCH_RECORD"] + ".orders"
    record.begin()
    with open(orders + ".new", "w") as file:
        file.write(f"{len(numbers)} {numbers[0]} {at or 0}")
    os.rename(orders + ".new", orders)
    while not os.path.exists(orders + ".done"):
        time.sleep(0.01)
    os.unlink(orders + ".done")


if __name__ == "__main__":
    {"work": work, "submit": submit}[sys.argv[1]]()
