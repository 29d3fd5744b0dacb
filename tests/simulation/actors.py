"""The users: they define, edit, ask for runs and cancel them."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import get_args

from msgspec.structs import replace

from simulation import workflows
from simulation.world import World
from waterclock.core.domain import ids
from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.core.domain.job.aggregate import (
    CancelJob,
    CommandRefused,
    CreateJob,
    Job,
    JobCommand,
    PauseJob,
    ResumeJob,
    UpdateJob,
    decide,
    evolve,
)
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.core.domain.schedule.fires import is_recurring, next_fire
from waterclock.proto.events import (
    BackfillRequested,
    BackfillSteered,
    RunCancelRequested,
    RunRequested,
    SkipRequested,
)
from waterclock.proto.policies import CatchUp, Overlap, ScheduleType
from waterclock.proto.spec import JobSpec, Schedule

_CRONS = ("* * * * *", "*/5 * * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "0,30 0 * * * *")
_OVERLAPS = get_args(Overlap)


@dataclass
class User:
    world: World
    jobs: dict[str, Job] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.pause = lambda job_id: self._do(job_id, PauseJob(actor="scheduler"))

    def act(self) -> None:
        rng = self.world.rng
        if len(self.jobs) < 6 and rng.random() < 0.5:
            spec = self._spec()
            if self.jobs and rng.random() < 0.2:
                spec = self._dependent(spec)
            job_id, now = f"job{len(self.jobs)}", self.world.now
            first = next_fire(spec.schedule, spec.name, now) if is_recurring(spec.schedule) else None
            self._do(job_id, CreateJob(job_id=job_id, spec=spec, first_fire=first))
            return
        if not self.jobs:
            return
        job_id = rng.choice(list(self.jobs))
        command = rng.choice(
            [
                UpdateJob(spec=self._spec()),
                PauseJob(),
                ResumeJob(missed=rng.random() < 0.5),
                ResumeJob(),
                CancelJob() if rng.random() < 0.2 else PauseJob(),
            ]
        )
        if rng.random() < 0.3:
            self._request(job_id)
        else:
            self._do(job_id, command)

    def _dependent(self, spec: JobSpec) -> JobSpec:
        """The same, but after others; with its schedule or without."""
        rng = self.world.rng
        others = tuple(rng.sample(sorted(self.jobs), min(len(self.jobs), rng.randint(1, 2))))
        rule = rng.choice(["since_last_run", "since_last_run", "same_time"])
        alone = Schedule(schedule_type="DEPENDENT") if rng.random() < 0.6 else spec.schedule
        return replace(spec, dependencies=others, dependency_rule=rule, schedule=alone)

    def _do(self, job_id: str, command: JobCommand) -> None:
        try:
            events = decide(self.jobs.get(job_id), command, self.world.now)
        except CommandRefused:
            return
        for event in events:
            self.jobs[job_id] = evolve(self.jobs.get(job_id), event)
            self.versions[job_id] = self.world.define(event)

    def _request(self, job_id: str) -> None:
        world = self.world
        runs = [event.run_id for frame in world.runs[-20:] for event in frame.events]
        chance = world.rng.random()
        if chance < 0.1:
            workflows.interfere(world)
        elif chance < 0.2:
            self._backfill(job_id)
        elif chance < 0.3:
            self._skip(job_id)
        elif runs and chance < 0.6:
            world.report(RunCancelRequested(run_id=world.rng.choice(runs), at=world.now, actor="user"))
        else:
            number = world.rng.randrange(10**9)
            world.report(
                RunRequested(
                    run_id=f"{job_id}@now-{number}", at=world.now, version=self.versions[job_id], actor="user"
                )
            )

    def _backfill(self, job_id: str) -> None:
        world = self.world
        number = world.rng.randrange(10**9)
        fires = tuple(world.now - (index + 1) * 60 * SECOND for index in range(world.rng.randint(1, 6)))
        backfill_id = f"{job_id}@backfill-{number}"
        world.report(
            BackfillRequested(
                run_id=backfill_id, at=world.now, version=self.versions[job_id], fires=fires, max_active=2
            )
        )
        for action in ("pause", "resume", "cancel"):
            if world.rng.random() < 0.3:
                world.report(BackfillSteered(run_id=backfill_id, at=world.now, action=action))
        world.report(BackfillSteered(run_id=backfill_id, at=world.now, action="resume"))

    def _skip(self, job_id: str) -> None:
        world = self.world
        schedule = self.jobs[job_id].spec.schedule
        fire = compile_schedule(schedule, "simulated").after(world.now)
        if fire is not None:
            world.report(
                SkipRequested(
                    run_id=ids.run_id(job_id, fire.scheduled), at=world.now, scheduled=fire.scheduled
                )
            )

    def _spec(self) -> JobSpec:
        rng = self.world.rng
        kind: ScheduleType = rng.choice(["IMMEDIATE", "FUTURE", "CRON", "CRON", "INTERVAL", "INTERVAL"])
        now = datetime_of(self.world.now)
        schedule = Schedule(
            schedule_type=kind,
            schedule_time=now + timedelta(seconds=rng.uniform(-30, 600)) if kind == "FUTURE" else None,
            cron_expression=(rng.choice(_CRONS),) if kind == "CRON" else (),
            interval_seconds=rng.choice([5, 7, 60, 300, 4000]) if kind == "INTERVAL" else None,
            timezone=rng.choice(["UTC", "Europe/Berlin"]),
            jitter_seconds=rng.choice([0, 0, 3, 90]) if kind in ("CRON", "INTERVAL") else 0,
            max_fires=rng.choice([None, None, None, 4]) if kind in ("CRON", "INTERVAL") else None,
            end_at=now + timedelta(seconds=rng.uniform(100, 2000))
            if kind == "INTERVAL" and rng.random() < 0.2
            else None,
        )
        task, fan_out = workflows.random_task(rng)
        if self.world.parcel_size > 1:
            task = workflows.by_handlers(task)
        return JobSpec(
            name="simulated",
            task=task,
            fan_out=fan_out,
            schedule=schedule,
            overlap=rng.choice(_OVERLAPS),
            catch_up=CatchUp(
                policy=rng.choice(["none", "latest", "all"]), window_seconds=rng.choice([30, 600, 3600])
            ),
            start_deadline_seconds=rng.choice([None, None, None, 20]),
            priority=self.world.now // SECOND % 3 * 10,  # by no dice: so a seed's life is what it was
            max_retries=2,
            pause_on_failure=rng.choice([None, None, 1, 2]),
        )
