"""The Python client: typed calls over NATS, with the service's own errors.

async with Client.connect() as clock:
    job = await clock.jobs.create(name="nightly", cron="0 3 * * *", command=["./backup.sh"])
    async for change in clock.runs.watch(job.job_id):
        print(change.run_id, change.status)
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from waterclock.api.client.artifacts import Artifacts
from waterclock.api.client.discovery import find
from waterclock.api.client.jobs import Jobs
from waterclock.api.client.operations import DeadLetters, Fleet
from waterclock.api.client.runs import Runs
from waterclock.api.client.wire import Wire
from waterclock.api.client.workflows import Workflows


class Client:
    """Open with `connect()`. Errors are those of `waterclock.api.errors`."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.jobs = Jobs(wire)
        self.runs = Runs(wire)
        self.workflows = Workflows(wire)
        self.artifacts = Artifacts(wire)
        self.dead_letters = DeadLetters(wire)
        self.fleet = Fleet(wire)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        url: str | None = None,
        *,
        data: Path | str | None = None,
        token: str | None = None,
        timeout: float = 10.0,
        patience: float = 15.0,
        environ: Mapping[str, str] = os.environ,
    ) -> AsyncIterator["Client"]:
        """Connects to `url`, else `WATERCLOCK_NATS_URL`, else where `DATA/connection.json` says; TLS as it is set.

        `timeout` is how long one try may take, `patience` how long a call without an answer is repeated.
        """
        way = find(url=url, data=data, token=token, environ=environ)
        async with Wire.open(way, timeout=timeout, patience=patience) as wire:
            yield cls(wire)
