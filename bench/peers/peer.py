"""What must be known of a peer to measure it."""

from typing import Literal

from msgspec import Struct


class Peer(Struct, frozen=True, kw_only=True):
    title: str
    server: Literal["redis", "postgres", "nats"]
    program: str
    """In `programs/`: `prepare`, `work` and `submit COUNT FIRST [AT]`, each job noting that it ran."""
    packages: tuple[str, ...]
    shown: tuple[str, ...]
    """The packages whose versions are reported."""
    jobs: int
    """For throughput: about six seconds' worth."""
    node: bool = False
    prepares: bool = False
    services: tuple[str, ...] = ("work",)
    """What runs while jobs are submitted; twice the same means two processes."""
    crowd: int = 5_000
    """How many are due at one instant."""
    remark: str
    """What it keeps: the end of a sentence about it."""


PEERS: dict[str, Peer] = {
    "graphile-worker": Peer(
        title="graphile-worker",
        server="postgres",
        program="graphile_peer.js",
        packages=("graphile-worker",),
        shown=("graphile-worker",),
        jobs=100_000,
        node=True,
        prepares=True,
        services=("work", "work"),
        remark="deletes finished jobs",
    ),
    "pgqueuer": Peer(
        title="PGQueuer",
        server="postgres",
        program="pgqueuer_peer.py",
        packages=("pgqueuer", "asyncpg", "uvloop"),
        shown=("pgqueuer",),
        jobs=60_000,
        prepares=True,
        services=("work", "work"),
        remark="deletes finished jobs, keeps a log of them",
    ),
    "bullmq": Peer(
        title="BullMQ",
        server="redis",
        program="bullmq_peer.js",
        packages=("bullmq", "ioredis"),
        shown=("bullmq",),
        jobs=40_000,
        node=True,
        services=("work", "work"),
        remark="keeps the last 1,000 finished jobs",
    ),
    "taskiq-nats": Peer(
        title="taskiq on NATS",
        server="nats",
        program="taskiq_peer.py",
        packages=("taskiq", "taskiq-nats", "uvloop"),
        shown=("taskiq", "taskiq-nats"),
        jobs=20_000,
        services=("work", "clock"),
        remark="keeps no history",
    ),
    "huey": Peer(
        title="huey",
        server="redis",
        program="huey_peer.py",
        packages=("huey", "redis"),
        shown=("huey",),
        jobs=20_000,
        remark="takes a job off the queue before it runs, so that a killed worker loses it",
    ),
    "dramatiq": Peer(
        title="Dramatiq",
        server="redis",
        program="dramatiq_peer.py",
        packages=("dramatiq[redis]",),
        shown=("dramatiq",),
        jobs=15_000,
        remark="keeps no history",
    ),
    "arq": Peer(
        title="arq",
        server="redis",
        program="arq_peer.py",
        packages=("arq",),
        shown=("arq",),
        jobs=6_000,
        services=("work", "work"),
        remark="keeps no history",
    ),
    "celery": Peer(
        title="Celery",
        server="redis",
        program="celery_peer.py",
        packages=("celery[redis]",),
        shown=("celery",),
        jobs=6_000,
        remark="keeps no history",
    ),
    "procrastinate": Peer(
        title="Procrastinate",
        server="postgres",
        program="procrastinate_peer.py",
        packages=("procrastinate", "psycopg[binary]"),
        shown=("procrastinate",),
        jobs=2_000,
        prepares=True,
        remark="keeps jobs and their events",
    ),
    "apscheduler": Peer(
        title="APScheduler",
        server="postgres",
        program="apscheduler_peer.py",
        packages=("apscheduler<4", "sqlalchemy", "psycopg[binary]"),
        shown=("apscheduler",),
        jobs=1_200,
        remark="deletes a one-shot when it is handed to a thread",
    ),
    "nats-schedules": Peer(
        title="NATS message schedules",
        server="nats",
        program="nats_schedules_peer.py",
        packages=("nats-py", "uvloop"),
        shown=("nats-py",),
        jobs=20_000,
        prepares=True,
        remark="only delivers: no attempts, no history",
    ),
}
