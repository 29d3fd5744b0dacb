"""The owner's book of runs: applies events, and collects what one pass decided and what follows from it."""

from msgspec import Struct, field

from waterclock.core.domain.partition.state import Ended, PartitionState, Run, evolve
from waterclock.proto.events import (
    Instant,
    RunCancelled,
    RunCancelRequested,
    RunEvent,
    RunQueued,
    Trigger,
)
from waterclock.proto.spec import Handler, JobSpec
from waterclock.proto.work import StopRequest

SPECS_KEPT = 20_000
WITHDRAWN_KEPT = 10_000


class Pass(Struct, kw_only=True):
    """What one pass decided. The events go to the log first; the rest is derived from them and follows."""

    events: list[RunEvent] = field(default_factory=list)
    queued: list[tuple[RunQueued, JobSpec]] = field(default_factory=list)
    stops: list[tuple[str | None, StopRequest]] = field(default_factory=list)
    """(executor, request); no executor: whoever has it or gets it."""
    withdrawn: list[str] = field(default_factory=list)
    """Queued runs whose work message is to be removed."""
    pauses: list[tuple[str, str]] = field(default_factory=list)
    """(job, note): schedules to pause after failures in a row."""
    index: dict[str, dict[str, bytes | None]] = field(default_factory=dict)
    """Changes of the timing index, by job: key and value, None deletes."""
    forgotten: dict[str, int] = field(default_factory=dict)
    """Jobs whose index entries of versions up to this one are void. Removed after the frame: until it is in the
    log, whoever comes next needs them to decide the same again."""
    starved: set[tuple[str, int]] = field(default_factory=set)
    """Definitions (job, version) that must be read from the log before some runs can go on."""

    def index_changes(self) -> dict[str, bytes | None]:
        return {key: value for changes in self.index.values() for key, value in changes.items()}

    def __bool__(self) -> bool:
        return bool(
            self.events
            or self.stops
            or self.withdrawn
            or self.pauses
            or self.index
            or self.forgotten
            or self.starved
        )


class Ledger:
    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.by_job: dict[str, dict[str, Run]] = {}
        for run in state.runs.values():
            self.by_job.setdefault(run.job_id, {})[run.run_id] = run
        self.open = Pass()
        self.withdrawn: dict[str, str] = {}
        """Runs cancelled while queued, and why: an executor that starts one all the same is told to stop."""
        self._specs: dict[tuple[str, int], JobSpec] = {}

    def take(self) -> Pass:
        done, self.open = self.open, Pass()
        return done

    def learn(self, job_id: str, version: int, spec: JobSpec) -> None:
        if len(self._specs) >= SPECS_KEPT:
            del self._specs[next(iter(self._specs))]
        self._specs[job_id, version] = spec

    def spec(self, job_id: str, version: int) -> JobSpec | None:
        return self._specs.get((job_id, version))

    def active(self, job_id: str) -> list[Run]:
        """The runs of a job that its overlap policy counts, oldest first."""
        runs = self.by_job.get(job_id)
        return [run for run in runs.values() if run.blocks] if runs else []

    def emit(self, event: RunEvent) -> Ended | None:
        """Decide an event: it is applied at once and goes out with this pass."""
        self.open.events.append(event)
        return self.apply(event)

    def apply(self, event: RunEvent) -> Ended | None:
        """Apply an event, decided here or read from the log."""
        runs = self.state.runs
        known = event.run_id in runs
        ended = evolve(self.state, event)
        if ended is not None:
            of_job = self.by_job[ended.run.job_id]
            del of_job[event.run_id]
            if not of_job:
                del self.by_job[ended.run.job_id]
        elif not known and event.run_id in runs:
            run = runs[event.run_id]
            self.by_job.setdefault(run.job_id, {})[run.run_id] = run
        return ended

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
    ) -> None:
        """Hand an attempt to the executors: the first one, or the next one of a run that is `again` queued."""
        event = RunQueued(
            run_id=run_id,
            at=now if again is None else max(now, again.queued_at + 1),
            version=version,
            scheduled=scheduled,
            due=due,
            attempt=1 if again is None else again.attempt + 1,
            again=again is not None,
            first_attempt=1 if again is None else again.first_attempt,
            crash_count=0 if again is None else again.crash_count,
            trigger=trigger,
            queue=spec.queue,
            tier=spec.tier,
            priority=spec.priority,
            handler=spec.task.handler if isinstance(spec.task, Handler) else None,
            pause_after=spec.pause_on_failure,
            fire=fire,
            parent=parent if again is None else again.parent,
            epoch=None if again is None else again.epoch,
        )
        self.emit(event)
        self.open.queued.append((event, spec))

    def queue_again(self, run: Run, now: Instant) -> bool:
        """The next attempt of a run that waited. False: its definition must be read first."""
        spec = self.spec(run.job_id, run.version)
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
            self.open.withdrawn.append(run.run_id)
            self.withdrawn[run.run_id] = reason
            if len(self.withdrawn) > WITHDRAWN_KEPT:
                del self.withdrawn[next(iter(self.withdrawn))]
            self.open.stops.append((None, StopRequest(run_id=run.run_id, reason=reason, now=at_once)))
        return self.emit(RunCancelled(run_id=run.run_id, at=now, reason=reason, attempt=run.attempt))
