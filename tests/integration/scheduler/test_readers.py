"""A reader of the log that dies does not leave a partition deaf: it is given up, taken again, and misses nothing."""

from pathlib import Path

import pytest

from integration.scheduler.rig import PARTITIONS, rig, scheduler
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.events import RunRequested
from waterclock.proto.spec import JobSpec, Schedule, Shell

YEARLY = JobSpec(
    name="yearly",
    task=Shell(command="true"),
    schedule=Schedule(schedule_type="CRON", cron_expression=("0 0 1 1 *",)),
)


def in_one_partition(count: int) -> list[str]:
    ids = [f"job-{number}" for number in range(100)]
    return [job_id for job_id in ids if names.partition_of(job_id, PARTITIONS) == 0][:count]


class DyingReader:
    """The next batch that a reader of the stream gets kills it. Takeovers and tests read with a timeout, and live."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
        self.armed = False
        self.died = 0
        self._stream = stream
        self._next = Pull.next
        monkeypatch.setattr(Pull, "next", lambda pull, timeout=None: self._read(pull, timeout))

    async def _read(self, pull: Pull, timeout: float | None) -> list[Delivery]:
        arrived = await self._next(pull, timeout)
        if self.armed and timeout is None and pull._stream == self._stream:
            self.armed = False
            self.died += 1
            raise RuntimeError("the reader dies")
        return arrived


async def test_definitions_are_read_again(
    nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = DyingReader(monkeypatch, names.JOBS)
    async with rig(nats_url) as r, scheduler(nats_url, tmp_path):
        for number, job_id in enumerate(in_one_partition(2)):
            reader.armed = number == 1  # the first one is there to see that the partition has been taken over
            await r.create(job_id, JobSpec(name="now", task=Shell(command="true")))
            assert (await r.work(deadline=15)).job_id == job_id
    assert reader.died == 1


async def test_what_others_write_to_runs_is_read_again(
    nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = DyingReader(monkeypatch, names.RUNS)
    async with rig(nats_url) as r, scheduler(nats_url, tmp_path):
        version = await r.create("yearly", YEARLY)
        await r.report(RunRequested(run_id="yearly@now-1", at=now_us(), version=version))
        assert (await r.work()).run_id == "yearly@now-1"
        reader.armed = True
        await r.report(RunRequested(run_id="yearly@now-2", at=now_us(), version=version))
        assert (await r.work(deadline=15)).run_id == "yearly@now-2"
    assert reader.died == 1
