"""The owner's book of runs: applies events, and collects what one pass decided and what follows from it."""

from typing import Any

from waterclock.core.domain.bounded_map import Remembered
from waterclock.core.domain.partition.decisions import Pass
from waterclock.core.domain.partition.evolve import evolve
from waterclock.core.domain.partition.part_specs import Definition, derive, total_of
from waterclock.core.domain.partition.parts import node_of
from waterclock.core.domain.partition.state import Ended, PartitionState, Run
from waterclock.core.domain.workflow.expression import Unusable
from waterclock.core.domain.workflow.shape import shape_of
from waterclock.proto.events import (
    Instant,
    NodeCleared,
    NodeMarked,
    RunCancelled,
    RunCancelRequested,
    RunEvent,
    RunOpened,
    RunQueued,
    RunSkipped,
    Trigger,
)
from waterclock.proto.names import job_of, node_run
from waterclock.proto.spec import Handler, JobSpec, Workflow
from waterclock.proto.work import StopRequest

SPECS_KEPT = 4_000
"""Of runs that have not ended; one that is not among them is read back from the log when it is retried."""
WITHDRAWN_KEPT = 10_000

_UNBEGUN = (RunSkipped, NodeMarked, RunCancelled)
"""What may end a node that never ran. A tuple: built once, where `|` would be for every event."""


class Ledger:
    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.by_job: dict[str, dict[str, Run]] = {}
        for run in state.runs.values():
            self.by_job.setdefault(run.job_id, {})[run.run_id] = run
        self.open = Pass()
        self.withdrawn = Remembered[str, str](WITHDRAWN_KEPT)
        """Runs cancelled while queued, and why: an executor that starts one all the same is told to stop."""
        self.stirred: dict[str, None] = dict.fromkeys((*state.waves, *state.expansions))
        """Runs with parts that something happened to: what follows has not been decided yet."""
        self.fresh: dict[str, list[str]] = {}
        """Nodes that ended since their wave was last advanced."""
        self._held: dict[str, set[str]] = {}
        """Parts whose end was decided here and may have been decided otherwise by their executor: nothing follows
        from it before that is known."""
        self._specs = Remembered[tuple[str, int], Definition](SPECS_KEPT)
        self._gone: set[tuple[str, int]] = set()

    def take(self) -> Pass:
        done, self.open = self.open, Pass()
        return done

    def learn(self, job_id: str, version: int, spec: JobSpec) -> None:
        shape = shape_of(spec.task) if isinstance(spec.task, Workflow) else None
        self._specs[job_id, version] = Definition(spec, shape)

    def unlearn(self, run: Run) -> None:
        """Nothing more is to come of the run's job, for now."""
        self._specs.forget((run.job_id, run.version))

    def spec(self, job_id: str, version: int) -> JobSpec | None:
        known = self._specs.get((job_id, version))
        return None if known is None else known.spec

    def definition(self, run: Run) -> Definition | None:
        """None: it must be read first, and is asked for; or it is gone."""
        key = (run.job_id, run.version)
        known = self._specs.get(key)
        if known is None and key not in self._gone:
            self.open.starved.add(key)
        return known

    def lose(self, job_id: str, version: int) -> None:
        """The log no longer has that definition."""
        self._gone.add((job_id, version))

    def is_gone(self, run: Run) -> bool:
        return (run.job_id, run.version) in self._gone

    def spec_of(self, run: Run) -> JobSpec | None:
        """What a run's work is: its job's definition, or what follows from it for a node or a member."""
        known = self._specs.get((run.job_id, run.version))
        return None if known is None else derive(self.state, run, known)

    def stir(self, run_id: str | None) -> None:
        if run_id in self.state.waves or run_id in self.state.expansions:
            self.stirred[run_id] = None

    def active(self, job_id: str) -> list[Run]:
        """The runs of a job that its overlap policy counts, oldest first."""
        runs = self.by_job.get(job_id)
        return [run for run in runs.values() if run.blocks] if runs else []

    def emit(self, event: RunEvent) -> Ended | None:
        """Decide an event: it is applied at once and goes out with this pass."""
        self.open.events.append(event)
        ended = self.apply(event)
        if ended is not None and not ended.run.parts and ended.run.parent is not None:
            self._held.setdefault(ended.run.parent, set()).add(event.run_id)
        return ended

    def is_sure(self, run_id: str) -> bool:
        """Whether the ends of a run's parts all stand in the log, with nothing unread before them."""
        return run_id not in self._held

    def confirm(self, run_id: str) -> None:
        """What was decided about a run has come back."""
        parent = run_id.rpartition("~")[0]
        held = self._held.get(parent)
        if held is not None:
            held.discard(run_id)
            if not held:
                del self._held[parent]
                self.stir(parent)

    def apply(self, event: RunEvent) -> Ended | None:
        """Apply an event, decided here or read from the log."""
        runs = self.state.runs
        known = event.run_id in runs
        unbegun = not known and isinstance(event, _UNBEGUN) and self._is_open_node(event.parent, event.run_id)
        ended = evolve(self.state, event)
        if ended is not None:
            of_job = self.by_job[ended.run.job_id]
            del of_job[event.run_id]
            if not of_job:
                del self.by_job[ended.run.job_id]
            self._note(ended.run.parent, event.run_id)
        elif event.run_id in runs:
            if not known:
                run = runs[event.run_id]
                self.by_job.setdefault(run.job_id, {})[run.run_id] = run
        elif unbegun:
            self._note(getattr(event, "parent", None), event.run_id)
        return ended

    def _is_open_node(self, parent: str | None, run_id: str) -> bool:
        wave = self.state.waves.get(parent or "")
        return wave is not None and node_of(run_id) not in wave.nodes

    def _note(self, parent: str | None, run_id: str) -> None:
        """A part has ended: its whole is to be looked at."""
        self.stir(parent)
        if parent in self.state.waves:
            self.fresh.setdefault(parent, []).append(node_of(run_id))

    def index(self, job_id: str, key: str, value: bytes | None) -> None:
        self.open.index.setdefault(job_id, {})[key] = value

    def forget(self, job_id: str, version: int) -> None:
        """Remove a job's definitions up to a version from the index."""
        self.open.forgotten[job_id] = max(version, self.open.forgotten.get(job_id, 0))

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
        if isinstance(spec.task, Workflow) or spec.fan_out is not None:
            self._open(
                RunOpened(
                    run_id=run_id,
                    at=now,
                    version=version,
                    scheduled=scheduled,
                    due=due,
                    kind="wave" if isinstance(spec.task, Workflow) else "fan_out",
                    again=again is not None,
                    trigger=trigger,
                    attempt=attempt,
                    fire=fire,
                    pause_after=spec.pause_on_failure,
                    parent=parent if again is None else again.parent,
                    epoch=epoch if epoch is not None else self._epoch(run_id, spec, again),
                    parameters=None if again is None else again.parameters,
                    total=total_of(self.state, spec, parent),
                    output_kept=output_kept,
                    once=_may_be_the_only_one(spec, parent),
                )
            )
            return
        event = RunQueued(
            run_id=run_id,
            at=now if again is None else max(now, again.queued_at + 1),
            version=version,
            scheduled=scheduled,
            due=due,
            attempt=attempt if again is None else again.attempt + 1,
            again=again is not None,
            first_attempt=attempt if again is None else again.first_attempt,
            crash_count=0 if again is None else again.crash_count,
            trigger=trigger,
            queue=spec.queue,
            tier=spec.tier,
            priority=spec.priority,
            handler=spec.task.handler if isinstance(spec.task, Handler) else None,
            pause_after=spec.pause_on_failure,
            fire=fire,
            parent=parent if again is None else again.parent,
            epoch=epoch if again is None else again.epoch,
            output_kept=output_kept if again is None else again.output_kept,
            item=item if again is None else again.item,
            once=_may_be_the_only_one(spec, parent if again is None else again.parent),
        )
        self.emit(event)
        self.open.queued.append((event, spec))

    def epoch_after(self, job_id: str) -> int:
        return self.state.epochs.get(job_id, 0) + 1

    def _epoch(self, run_id: str, spec: JobSpec, again: Run | None) -> int | None:
        if again is not None and again.epoch is not None:
            return again.epoch
        return self.epoch_after(job_of(run_id)) if isinstance(spec.task, Workflow) else None

    def _open(self, event: RunOpened) -> None:
        wave = self.state.waves.get(event.run_id)
        if wave is not None and wave.to_clear:
            for node in (node for node in wave.attempts if node not in wave.nodes):
                self.emit(
                    NodeCleared(
                        run_id=node_run(event.run_id, node),
                        at=event.at,
                        reason="is run again",
                        parent=event.run_id,
                    )
                )
        self.emit(event)
        self.stir(event.run_id)

    def queue_again(self, run: Run, now: Instant) -> bool:
        """The next attempt of a run that waited. False: its definition must be read first."""
        try:
            spec = self.spec_of(run)
        except Unusable as error:
            self.cancel(run, str(error), now)
            return True
        if spec is None:
            self.open.starved.add((run.job_id, run.version))
            return False
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
        return True

    def cancel(
        self, run: Run, reason: str, now: Instant, *, at_once: bool = False, recorded: bool = False
    ) -> Ended | None:
        """Stop a run wherever it is. One that executes is cancelled only when its executor says so.

        `recorded`: the log has the request already.
        """
        if run.parts:
            if not recorded and not run.cancelling:
                self.emit(
                    RunCancelRequested(
                        run_id=run.run_id, at=now, actor="scheduler", reason=reason, now=at_once
                    )
                )
            self.stir(run.run_id)
            return None
        if run.status == "RUNNING":
            if not recorded:
                self.emit(
                    RunCancelRequested(
                        run_id=run.run_id, at=now, actor="scheduler", reason=reason, now=at_once
                    )
                )
            self.open.stops.append(
                (run.executor_id, StopRequest(run_id=run.run_id, reason=reason, now=at_once))
            )
            return None
        if run.status == "QUEUED":
            self.withdraw(run, reason, at_once)
        return self.emit(RunCancelled(run_id=run.run_id, at=now, reason=reason, attempt=run.attempt))

    def withdraw(self, run: Run, reason: str, at_once: bool = False) -> None:
        """Take back work that is queued or executing, whatever becomes of it."""
        self.open.withdrawn.append(run.run_id)
        self.withdrawn[run.run_id] = reason
        self.open.stops.append((None, StopRequest(run_id=run.run_id, reason=reason, now=at_once)))


def _may_be_the_only_one(spec: JobSpec, parent: str | None) -> bool:
    """Whether a run is of a job without times of its own, and no part of another."""
    return parent is None and spec.schedule.schedule_type not in ("CRON", "INTERVAL")
