"""Runs handed to the executors, and taken back: every attempt is queued here, and every cancel goes through here."""

from typing import Any

from waterclock.core.domain.ids import job_of, node_run
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definition, Definitions
from waterclock.core.domain.partition.room import route_of_spec
from waterclock.core.domain.partition.run_part_specs import member_count, spec_of_run
from waterclock.core.domain.partition.state import Ended, Run
from waterclock.core.domain.run.deadlines import latest_start
from waterclock.core.domain.workflow.conditions import Unusable
from waterclock.proto.events import (
    Instant,
    NodeCleared,
    RunCancelled,
    RunCancelRequested,
    RunOpened,
    RunQueued,
    Trigger,
)
from waterclock.proto.spec import Handler, JobSpec, Workflow

_LATE = SECOND
"""A run that is queued so late, while others wait for room, says how far behind the system was."""


class Dispatch:
    def __init__(self, decisions: Decisions, definitions: Definitions) -> None:
        self._decisions = decisions
        self._definitions = definitions
        self._state = decisions.state

    # -- definitions ------------------------------------------------------------------------------------

    def definition(self, run: Run) -> Definition | None:
        """None: it must be read first, and is asked for; or it is gone."""
        known = self._definitions.get(run.job_id, run.version)
        if known is None and not self._definitions.is_gone(run.job_id, run.version):
            self.need_definition(run.job_id, run.version)
        return known

    def need_definition(self, job_id: str, version: int) -> None:
        self._decisions.open.definitions_needed[job_id, version] = None

    def spec_of(self, run: Run) -> JobSpec | None:
        """What a run's work is: its job's definition, or what follows from it for a node or a member. Raises
        Unusable. None: the definition must be read first."""
        known = self._definitions.get(run.job_id, run.version)
        return None if known is None else spec_of_run(self._state, run, known)

    # -- queue ------------------------------------------------------------------------------------------

    def queue(
        self,
        run_id: str,
        version: int,
        spec: JobSpec,
        *,
        scheduled: Instant,
        due: Instant,
        now: Instant,
        trigger: Trigger = "schedule",
        fire: int | None = None,
        parent: str | None = None,
        again: Run | None = None,
        epoch: int | None = None,
        attempt: int = 1,
        output_kept: bool = False,
        item: Any = None,
    ) -> None:
        """Hand an attempt to the executors: the first one, or the next one of a run that is `again` queued.

        A run that is made of others is opened instead, and its parts are decided one by one.
        """
        task = spec.task
        if type(task) is Workflow or spec.fan_out is not None:
            self._open(
                RunOpened(
                    run_id=run_id,
                    at=now,
                    version=version,
                    scheduled=scheduled,
                    due=due,
                    kind="wave" if type(task) is Workflow else "fan_out",
                    again=again is not None,
                    trigger=trigger,
                    attempt=attempt,
                    fire=fire,
                    pause_after=spec.pause_on_failure,
                    parent=parent if again is None else again.parent,
                    epoch=epoch if epoch is not None else self._epoch(run_id, spec, again),
                    parameters=None if again is None else again.parameters,
                    total=member_count(self._state, spec, parent),
                    output_kept=output_kept,
                    once=_may_be_the_only_run(spec, parent),
                    deadline=_deadline(spec, now),
                )
            )
            return
        is_first = again is None or (again.attempt + 1 == again.first_attempt and not again.crash_count)
        event = RunQueued(
            run_id=run_id,
            at=now if again is None else max(now, again.queued_at + 1),
            version=version,
            scheduled=scheduled,
            due=due,
            attempt=attempt if again is None else again.attempt + 1,
            again=again is not None,
            crash_count=0 if again is None else again.crash_count,
            trigger=trigger,
            queue=spec.queue,
            tier=spec.tier,
            priority=spec.priority,
            handler=task.handler if type(task) is Handler else None,
            first_attempt=attempt if again is None else again.first_attempt,
            pause_after=spec.pause_on_failure,
            fire=fire,
            parent=parent if again is None else again.parent,
            epoch=epoch if again is None else again.epoch,
            output_kept=output_kept if again is None else again.output_kept,
            item=item if again is None else again.item,
            once=_may_be_the_only_run(spec, parent if again is None else again.parent),
            behind_ms=(behind := self.behind(spec, due, now)),
            slowed=bool(behind) and self._decisions.room.saturated,
            parcel=self._parcel(run_id, spec, now) if again is None else "",
            start_by=latest_start(spec, due, trigger) if is_first else None,
            exact=spec.priority > 0 and self._decisions.room.has_exact_lines(route_of_spec(spec)),
        )
        self._decisions.emit(event)
        self._decisions.open.queued.append((event, spec))

    def _parcel(self, run_id: str, spec: JobSpec, now: Instant) -> str:
        decisions = self._decisions
        return decisions.open.parcels.add(run_id, spec, route_of_spec(spec), now, decisions.room)

    def queue_again(self, run: Run, now: Instant) -> None:
        """The next attempt of a run that waited; or its definition is asked for."""
        try:
            spec = self.spec_of(run)
        except Unusable as error:
            self.cancel(run, str(error), now)
            return
        if spec is None:
            self.need_definition(run.job_id, run.version)
            return
        self.queue(
            run.run_id,
            run.version,
            spec,
            scheduled=run.scheduled,
            due=run.due,
            now=now,
            trigger=run.trigger,
            again=run,
        )

    def behind(self, spec: JobSpec, due: Instant, now: Instant) -> int | None:
        """How far behind the system was, if a run is queued late and others wait."""
        if now - due <= _LATE or not self._decisions.late:
            return None
        waits_for_slots = self._decisions.room.waits_for_slots(route_of_spec(spec))
        return 0 if waits_for_slots else self._decisions.behind // 1000

    def next_epoch(self, job_id: str) -> int:
        return self._state.epochs.get(job_id, 0) + 1

    def _epoch(self, run_id: str, spec: JobSpec, again: Run | None) -> int | None:
        if again is not None and again.epoch is not None:
            return again.epoch
        return self.next_epoch(job_of(run_id)) if isinstance(spec.task, Workflow) else None

    def _open(self, event: RunOpened) -> None:
        decisions = self._decisions
        workflow_run = self._state.workflow_runs.get(event.run_id)
        if workflow_run is not None and workflow_run.to_clear:
            for node in (node for node in workflow_run.attempts if node not in workflow_run.nodes):
                decisions.emit(
                    NodeCleared(
                        run_id=node_run(event.run_id, node),
                        at=event.at,
                        reason="is run again",
                        parent=event.run_id,
                    )
                )
        decisions.emit(event)
        decisions.advance_later(event.run_id)

    # -- cancel -----------------------------------------------------------------------------------------

    def cancel(
        self, run: Run, reason: str, now: Instant, *, at_once: bool = False, recorded: bool = False
    ) -> Ended | None:
        """Stop a run wherever it is. One that executes is cancelled only when its executor says so.

        `recorded`: the log has the request already.
        """
        decisions = self._decisions
        if run.parts:
            if not recorded and not run.cancelling:
                self._request_cancel(run, reason, now, at_once)
            decisions.advance_later(run.run_id)
            return None
        if run.status == "RUNNING":
            if not recorded:
                self._request_cancel(run, reason, now, at_once)
            decisions.stop(run.executor_id, run.run_id, reason, now=at_once)
            return None
        if run.status == "QUEUED":
            self.withdraw(run, reason, at_once)
        return decisions.emit(RunCancelled(run_id=run.run_id, at=now, reason=reason, attempt=run.attempt))

    def withdraw(self, run: Run, reason: str, at_once: bool = False) -> None:
        """Take back work that is queued or executing, whatever becomes of it."""
        self.take_back(run, reason)
        self._decisions.stop(None, run.run_id, reason, now=at_once, until=run.queued_at)

    def take_back(self, run: Run, reason: str) -> None:
        """Take work out of the queue. Who begins it all the same is told to stop."""
        if run.parcel:
            self._decisions.open.recalled.append((run.run_id, run.queued_at))
        else:
            self._decisions.open.withdrawn.append(run.run_id)
        self._decisions.withdrawn[run.run_id] = reason

    def _request_cancel(self, run: Run, reason: str, now: Instant, at_once: bool) -> None:
        self._decisions.emit(
            RunCancelRequested(run_id=run.run_id, at=now, actor="scheduler", reason=reason, now=at_once)
        )


def _deadline(spec: JobSpec, now: Instant) -> Instant | None:
    """When a workflow run that opens now is to have ended. The members of a fan-out have their timeout each."""
    seconds = spec.timeout_seconds if isinstance(spec.task, Workflow) else None
    return None if seconds is None else now + round(seconds * SECOND)


def _may_be_the_only_run(spec: JobSpec, parent: str | None) -> bool:
    """Whether a run is of a job without times of its own, and no part of another."""
    return parent is None and spec.schedule.schedule_type not in ("CRON", "INTERVAL")
