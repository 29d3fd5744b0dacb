"""Jobs become work, through the real scheduler and the real log."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from integration.scheduler.rig import rig, scheduler
from waterclock.core.domain.run.deadlines import missed_in_queue
from waterclock.core.runtime.clock import now_us
from waterclock.proto.events import (
    JobCancelled,
    JobPaused,
    RunCancelled,
    RunCancelRequested,
    RunFailed,
    RunQueued,
    RunRequested,
    RunSkipped,
    RunStarted,
)
from waterclock.proto.spec import JobSpec, Schedule, Shell

TRUE = Shell(command="true")


async def test_an_immediate_job_is_queued_once_and_survives_a_restart(nats_url: str, tmp_path: Path) -> None:
    async with rig(nats_url) as r:
        async with scheduler(nats_url, tmp_path):
            version = await r.create("now", JobSpec(name="now", task=TRUE, payload={"x": 1}))
            item = await r.work()
            assert (item.job_id, item.version, item.attempt, item.spec.payload) == (
                "now",
                version,
                1,
                {"x": 1},
            )
            await r.succeed(item)
        async with scheduler(nats_url, tmp_path):
            await r.create("after", JobSpec(name="after", task=TRUE))
            assert (await r.work()).job_id == "after"
        queued = [event for event in await r.events() if isinstance(event, RunQueued)]
        assert [event.run_id.partition("@")[0] for event in queued] == ["now", "after"]


async def test_a_future_job_fires_at_its_time_and_not_before(nats_url: str, tmp_path: Path) -> None:
    async with rig(nats_url) as r, scheduler(nats_url, tmp_path):
        at = datetime.now(UTC) + timedelta(seconds=1.5)
        schedule = Schedule(schedule_type="FUTURE", schedule_time=at)
        await r.create("later", JobSpec(name="later", task=TRUE, schedule=schedule))
        item = await r.work()
        assert item.queued >= item.scheduled == int(at.timestamp()) * 1_000_000 + at.microsecond


async def test_an_interval_fires_on_its_grid_and_skips_while_a_run_is_on(
    nats_url: str, tmp_path: Path
) -> None:
    async with rig(nats_url) as r, scheduler(nats_url, tmp_path):
        schedule = Schedule(schedule_type="INTERVAL", interval_seconds=1)
        await r.create("tick", JobSpec(name="tick", task=TRUE, schedule=schedule))
        first = await r.work()
        assert first.scheduled % 1_000_000 == 0
        events = await r.until(lambda events: any(isinstance(event, RunSkipped) for event in events))
        skipped = next(event for event in events if isinstance(event, RunSkipped))
        assert skipped.because_of == first.run_id
        await r.succeed(first)
        assert (await r.work()).scheduled > skipped.scheduled


async def test_a_failure_with_a_retry_is_queued_again_with_the_next_attempt(
    nats_url: str, tmp_path: Path
) -> None:
    async with rig(nats_url) as r:
        async with scheduler(nats_url, tmp_path):
            await r.create("flaky", JobSpec(name="flaky", task=TRUE, max_retries=1))
            item = await r.work()
            now = now_us()
            await r.report(
                RunFailed(
                    run_id=item.run_id,
                    at=now,
                    attempt=1,
                    executor_id="test",
                    started=now,
                    reason="exit code 1",
                    retry_at=now + 1_000_000,
                )
            )
        async with scheduler(nats_url, tmp_path):
            again = await r.work()
        assert (again.run_id, again.attempt) == (item.run_id, 2)
        assert again.queued >= now + 1_000_000


async def test_a_run_that_an_executor_took_too_late_lets_the_next_one_in(
    nats_url: str, tmp_path: Path
) -> None:
    async with rig(nats_url) as r, scheduler(nats_url, tmp_path):
        schedule = Schedule(schedule_type="INTERVAL", interval_seconds=1)
        spec = JobSpec(name="tick", task=TRUE, schedule=schedule, start_deadline_seconds=30)
        await r.create("tick", spec)
        first = await r.work()
        missed = missed_in_queue(first, 0, first.due + 31_000_000)
        assert missed is not None
        await r.report(missed)
        assert (await r.work()).scheduled > first.scheduled


async def test_run_now_cancel_and_stop(nats_url: str, tmp_path: Path) -> None:
    async with rig(nats_url) as r, scheduler(nats_url, tmp_path):
        far = Schedule(schedule_type="CRON", cron_expression=("0 0 1 1 *",))
        spec = JobSpec(name="yearly", task=TRUE, schedule=far)
        version = await r.create("yearly", spec)
        await r.report(RunRequested(run_id="yearly@now-1", at=now_us(), version=version, actor="ann"))
        item = await r.work()
        assert (item.run_id, item.trigger) == ("yearly@now-1", "now")
        stops = await r.connection.nc.subscribe("wc.stop.worker-1")
        await r.report(RunStarted(run_id=item.run_id, at=now_us(), attempt=1, executor_id="worker-1"))
        await r.report(RunCancelRequested(run_id=item.run_id, at=now_us(), actor="ann"))
        stop = await stops.next_msg(timeout=5)
        assert b"yearly@now-1" in stop.data
        await r.report(RunRequested(run_id="yearly@now-2", at=now_us(), version=version))
        queued = await r.work()
        now = now_us()
        await r.change(JobCancelled(job_id="yearly", spec=spec, at=now, created_at=now, actor="ann"))
        events = await r.until(lambda events: any(isinstance(event, RunCancelled) for event in events))
        cancelled = [event.run_id for event in events if isinstance(event, RunCancelled)]
        assert cancelled == [queued.run_id]


@pytest.mark.parametrize("job_id", ["bad", "bulk~7"], ids=["of its own", "created in a frame"])
async def test_failures_in_a_row_pause_the_schedule(nats_url: str, tmp_path: Path, job_id: str) -> None:
    async with rig(nats_url) as r, scheduler(nats_url, tmp_path):
        schedule = Schedule(schedule_type="INTERVAL", interval_seconds=1)
        spec = JobSpec(name="bad", task=TRUE, schedule=schedule, pause_on_failure=2)
        await r.create(job_id, spec, frame=job_id.partition("~")[0])
        for _ in range(2):
            item = await r.work()
            now = now_us()
            await r.report(
                RunFailed(run_id=item.run_id, at=now, attempt=1, executor_id="x", started=now, reason="no")
            )
        await r.until_definition(job_id, JobPaused)
