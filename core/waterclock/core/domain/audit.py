"""The proof: what should have fired, from definition events alone, joined with what the log says was decided.

Every due time is accounted for exactly once: it ran, was skipped, missed or cancelled, each by an event with its
reason.
The fault tests use this as their checker, `waterclock audit` shows it to users.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct, field

from waterclock.core.domain import ids
from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.run import TERMINAL, RunStatus, is_stale, transition
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.proto.events import (
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunEvent,
    RunQueued,
    RunSkipped,
    RunsMissed,
    RunStarted,
    RunWaiting,
    ScheduleEnded,
)
from waterclock.proto.names import job_of
from waterclock.proto.spec import JobSpec

Fault = Literal["unaccounted", "decided_twice", "invented", "unfinished"]
EDIT_LAG = 5_000_000
_DECISIONS = (RunQueued, RunWaiting, RunSkipped, RunsMissed)


class Finding(Struct, frozen=True, kw_only=True):
    """One counter-example."""

    fault: Fault
    job_id: str
    run_id: str
    scheduled: Instant | None
    explanation: str


class AuditReport(Struct, kw_only=True):
    jobs: int = 0
    expected: int = 0
    accounted: dict[str, int] = field(default_factory=dict)
    """How many due times ran, were skipped, missed, …"""
    findings: list[Finding] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.findings


class Span(Struct, frozen=True, kw_only=True):
    """A stretch of time in which one definition's fires are its own: (after, until]."""

    version: int
    spec: JobSpec
    after: Instant
    until: Instant


class _RunRecord(Struct, kw_only=True):
    status: RunStatus | None = None
    attempt: int = 0
    executor_id: str | None = None
    scheduled: Instant | None = None
    scheduled_by: str = ""
    version: int = 0
    decided_at: Instant = 0


class Auditor:
    """Feed it both streams in log order, then ask for the report."""

    def __init__(self) -> None:
        self._jobs: dict[str, list[tuple[int, JobEvent]]] = defaultdict(list)
        self._runs: dict[str, _RunRecord] = {}
        self._runs_of: dict[str, list[str]] = defaultdict(list)
        self._missed: dict[str, list[RunsMissed]] = defaultdict(list)
        self._ended: dict[str, list[ScheduleEnded]] = defaultdict(list)
        self._findings: list[Finding] = []

    def job_event(self, version: int, event: JobEvent) -> None:
        self._jobs[event.job_id].append((version, event))

    def run_event(self, event: RunEvent) -> None:
        if isinstance(event, ScheduleEnded):
            self._ended[event.run_id].append(event)
            return
        job_id = job_of(event.run_id)
        if isinstance(event, RunsMissed) and event.count > 1:
            self._missed[job_id].append(event)
            return
        run = self._runs.get(event.run_id)
        if run is None:
            run = self._runs[event.run_id] = _RunRecord()
            self._runs_of[job_id].append(event.run_id)
        if is_stale(run.attempt, run.executor_id, event):
            return
        status = transition(run.status, event)
        if status is None:
            if isinstance(event, _DECISIONS) and not (isinstance(event, RunQueued) and event.again):
                self._find("decided_twice", event.run_id, run.scheduled, f"{run.status}, then {_word(event)}")
            return
        run.status = status
        match event:
            case RunQueued():
                run.attempt, run.executor_id = event.attempt, None
                self._noted(run, event, event.trigger)
            case RunWaiting():
                self._noted(run, event, event.trigger)
            case RunSkipped() | RunsMissed():
                self._noted(run, event, "schedule")
            case RunStarted():
                run.executor_id = event.executor_id
            case _:
                pass

    def report(
        self,
        start: Instant,
        end: Instant,
        *,
        decided: Instant,
        settled: bool = False,
        edit_lag: Instant = EDIT_LAG,
    ) -> AuditReport:
        """Judge the due times in [start, end). Those up to `decided` must be accounted for.

        `settled`: nothing is under way any more, so every run must have ended. `edit_lag`: how long after an edit
        an owner that had not read it yet may still have decided by the definition before.
        """
        report = AuditReport(jobs=len(self._jobs), findings=list(self._findings))
        for job_id, history in self._jobs.items():
            self._judge(job_id, history, start, end, decided, edit_lag, report)
        if settled:
            for run_id, run in self._runs.items():
                if run.status is not None and run.status not in TERMINAL:
                    report.findings.append(
                        _finding(
                            "unfinished", run_id, run.scheduled, f"is {run.status} with nothing under way"
                        )
                    )
        return report

    # -- one job ----------------------------------------------------------------------------------------

    def _judge(
        self,
        job_id: str,
        history: list[tuple[int, JobEvent]],
        start: Instant,
        end: Instant,
        decided: Instant,
        edit_lag: Instant,
        report: AuditReport,
    ) -> None:
        expected: set[str] = set()
        taken = 0
        for scheduled, spec in self._due(job_id, history, min(end - 1, decided), edit_lag):
            limit = spec.schedule.max_fires
            if limit is not None and taken >= limit:
                continue
            run_id = ids.run_id(job_id, scheduled)
            if run_id in expected:
                continue
            expected.add(run_id)
            run = self._runs.get(run_id)
            fate = self._fate(job_id, run, scheduled)
            if limit is not None and fate not in ("skipped", "missed", None):
                taken += 1
            if scheduled < start:
                continue
            report.expected += 1
            if fate is None:
                report.findings.append(
                    _finding("unaccounted", run_id, scheduled, "no event speaks of this due time")
                )
            else:
                report.accounted[fate] = report.accounted.get(fate, 0) + 1
        for run_id in self._runs_of.get(job_id, ()):
            run = self._runs[run_id]
            if run_id in expected or run.scheduled_by not in ("schedule", "catch_up"):
                continue
            if run.scheduled is None or not start <= run.scheduled < end or run.scheduled > decided:
                continue
            if _before_edit(run, history, edit_lag):
                report.accounted["before_edit"] = report.accounted.get("before_edit", 0) + 1
            else:
                report.findings.append(
                    _finding("invented", run_id, run.scheduled, "no definition has it due then")
                )

    def _fate(self, job_id: str, run: _RunRecord | None, scheduled: Instant) -> str | None:
        if run is not None and run.status is not None:
            return {"SKIPPED": "skipped", "MISSED": "missed", "CANCELLED": "cancelled"}.get(run.status, "ran")
        for missed in self._missed.get(job_id, ()):
            if missed.scheduled <= scheduled <= missed.until:
                return "missed"
        return None

    def _due(
        self, job_id: str, history: list[tuple[int, JobEvent]], until: Instant, edit_lag: Instant
    ) -> Iterator[tuple[Instant, JobSpec]]:
        for span in spans(history, until):
            after = max(span.after, self._decided_before(job_id, span, edit_lag))
            ended = [event.at for event in self._ended.get(job_id, ()) if event.version == span.version]
            last = min([span.until, *ended])
            kind = span.spec.schedule.schedule_type
            if kind == "IMMEDIATE":
                yield span.after, span.spec
            elif kind != "DEPENDENT":
                fires = compile_schedule(span.spec.schedule, span.spec.name)
                fire = fires.after(after)
                while fire is not None and fire.scheduled <= last:
                    yield fire.scheduled, span.spec
                    fire = fires.after(fire.scheduled)

    def _decided_before(self, job_id: str, span: Span, edit_lag: Instant) -> Instant:
        """How far an earlier definition had decided into this span, by an owner that had not read the edit yet."""
        decided = 0
        for run_id in self._runs_of.get(job_id, ()):
            run = self._runs[run_id]
            if run.scheduled is None or run.scheduled_by not in ("schedule", "catch_up"):
                continue
            if run.version < span.version and run.decided_at - span.after <= edit_lag:
                decided = max(decided, run.scheduled)
        return decided

    def _noted(
        self, run: _RunRecord, event: RunQueued | RunWaiting | RunSkipped | RunsMissed, trigger: str
    ) -> None:
        if run.scheduled is None:
            run.scheduled, run.scheduled_by = event.scheduled, trigger
            run.version, run.decided_at = event.version, event.at

    def _find(self, fault: Fault, run_id: str, scheduled: Instant | None, explanation: str) -> None:
        self._findings.append(_finding(fault, run_id, scheduled, explanation))


def spans(history: Iterable[tuple[int, JobEvent]], until: Instant) -> Iterator[Span]:
    """When which definition was in force."""
    current: tuple[int, JobSpec, Instant] | None = None
    for version, event in history:
        if current is not None:
            yield Span(version=current[0], spec=current[1], after=current[2], until=min(event.at, until))
        match event:
            case JobCreated():
                current = (version, event.spec, _born(event))
            case JobUpdated(paused_at=None):
                current = (version, event.spec, event.at) if _recurs(event.spec, event.at) else None
            case JobResumed():
                after = event.at if event.missed_since is None else event.missed_since
                current = (version, event.spec, after) if _recurs(event.spec, after) else None
            case JobUpdated() | JobPaused() | JobCancelled():
                current = None
    if current is not None:
        yield Span(version=current[0], spec=current[1], after=current[2], until=until)


def _before_edit(run: _RunRecord, history: list[tuple[int, JobEvent]], lag: Instant) -> bool:
    """Whether a run was decided by a definition whose successor the owner cannot have read yet."""
    versions = [version for version, _ in history]
    if run.version not in versions or run.version == versions[-1]:
        return False
    _, successor = history[versions.index(run.version) + 1]
    return run.decided_at - successor.at <= lag


def _recurs(spec: JobSpec, after: Instant) -> bool:
    """Whether a definition that was edited or resumed can still fire: an immediate job has fired at its creation."""
    return spec.schedule.schedule_type != "IMMEDIATE"


def _born(event: JobCreated) -> Instant:
    time = event.spec.schedule.schedule_time
    return event.at if time is None else min(event.at, instant_of(time) - 1)


def _finding(fault: Fault, run_id: str, scheduled: Instant | None, explanation: str) -> Finding:
    return Finding(
        fault=fault, job_id=job_of(run_id), run_id=run_id, scheduled=scheduled, explanation=explanation
    )


def _word(event: RunEvent) -> str:
    return str(event.__struct_config__.tag)
