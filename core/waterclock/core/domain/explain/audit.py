"""Both streams in, one report out. Keeps only what the range asked about can still need."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Literal, assert_never

from msgspec import Struct

from waterclock.core.domain import ids
from waterclock.core.domain.explain.audit_report import AuditReport, Fault, Finding, finding
from waterclock.core.domain.explain.definition_spans import Span, spans
from waterclock.core.domain.ids import job_of
from waterclock.core.domain.run.states import is_stale, transition
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.proto.events import (
    BackfillEnded,
    BackfillRequested,
    BackfillSteered,
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    DependentChanged,
    Instant,
    JobEvent,
    NodeCleared,
    NodeMarked,
    NoticesDelivered,
    Outcome,
    OutcomeRejected,
    RerunRequested,
    RunCancelled,
    RunCancelRequested,
    RunClosed,
    RunEvent,
    RunFailed,
    RunLost,
    RunOpened,
    RunProgressed,
    RunQueued,
    RunReported,
    RunRequested,
    RunRetryRequested,
    RunReturned,
    RunSkipped,
    RunsMissed,
    RunSnoozed,
    RunStarted,
    RunSucceeded,
    RunTimedOut,
    RunWaiting,
    ScheduleEnded,
    SkipRequested,
)
from waterclock.proto.spec import JobSpec
from waterclock.proto.verdicts import TERMINAL, RunStatus

EDIT_LAG = 5_000_000
FOREVER = 1 << 62

Decision = RunQueued | RunWaiting | RunSkipped | RunsMissed | RunOpened
History = list[tuple[int, JobEvent]]
Fate = Literal["ran", "skipped", "missed", "cancelled"]

_DECISIONS = (RunQueued, RunWaiting, RunSkipped, RunsMissed, RunOpened)
_UNTRIED: dict[RunStatus, Fate] = {"SKIPPED": "skipped", "MISSED": "missed", "CANCELLED": "cancelled"}


class _Run(Struct, kw_only=True, gc=False):
    status: RunStatus | None = None
    attempt: int = 0
    executor_id: str | None = None
    scheduled: Instant | None = None
    scheduled_by: str = ""
    version: int = 0
    decided_at: Instant = 0
    taken: bool = False
    """It was to run, or to wait for that: as one of its job's `max_fires`, also if it never started."""
    by_hand: bool = False
    """Somebody said how it ended: an owner that had not read that may have decided it as well."""

    @property
    def of_schedule(self) -> bool:
        return self.scheduled_by in ("schedule", "catch_up")


class Auditor:
    """Feed it the definitions, then the runs in log order, then ask for the report.

    It may see a part of the partitions, if it sees both streams of each. Of runs scheduled outside [start, end) it
    keeps nothing, so that its size is that of the range and not of the log; only jobs with a limit on their fires are
    counted from their beginning (`counts_from`).
    """

    def __init__(self, start: Instant = 0, end: Instant = FOREVER) -> None:
        self._start = start
        self._end = end
        self._jobs: dict[str, History] = defaultdict(list)
        self._limited: dict[str, Instant] = {}
        self._runs: dict[str, _Run] = {}
        self._runs_of: dict[str, list[_Run]] = defaultdict(list)
        self._missed: dict[str, list[RunsMissed]] = defaultdict(list)
        self._ended: dict[str, list[ScheduleEnded]] = defaultdict(list)
        self._orphans: dict[str, RunEvent] = {}
        self._findings: list[Finding] = []

    def job_event(self, version: int, event: JobEvent) -> None:
        self._jobs[event.job_id].append((version, event))
        if event.spec.schedule.max_fires is not None:
            self._limited.setdefault(event.job_id, event.created_at)

    def counts_from(self) -> Instant:
        """From when on the runs must be read: the start, or the birth of a job whose fires are numbered."""
        return min([self._start, *self._limited.values()])

    def run_event(self, event: RunEvent) -> None:
        if isinstance(event, ScheduleEnded):
            self._ended[event.run_id].append(event)
            return
        if isinstance(event, RunsMissed) and event.count > 1:
            if event.until >= self._start:
                self._missed[job_of(event.run_id)].append(event)
            return
        run = self._runs.get(event.run_id)
        if run is None:
            run = self._first_seen(event)
            if run is None:
                return
        if is_stale(run.attempt, run.executor_id, event):
            return
        status = transition(run.status, event)
        if status is None:
            again = isinstance(event, RunQueued | RunOpened) and event.again
            late = isinstance(event, RunsMissed) and event.attempt is not None  # of what was decided to run
            if isinstance(event, _DECISIONS) and not again and not late and not run.by_hand:
                self._find("decided_twice", event.run_id, run.scheduled, f"{run.status}, then {_word(event)}")
            return
        run.status = status
        match event:
            case RunQueued() | RunOpened():
                run.attempt, run.executor_id, run.taken = event.attempt, None, True
                _note(run, event, event.trigger)
            case RunWaiting():
                run.taken = True
                _note(run, event, event.trigger)
            case RunSkipped() | RunsMissed():
                _note(run, event, event.trigger)
            case RunStarted():
                run.executor_id = event.executor_id
            case NodeMarked():
                run.by_hand = True
            case (
                RunRequested()
                | RunSucceeded()
                | RunFailed()
                | RunTimedOut()
                | RunSnoozed()
                | RunReturned()
                | RunCancelled()
                | RunLost()
                | RunCancelRequested()
                | RunRetryRequested()
                | SkipRequested()
                | BackfillRequested()
                | BackfillSteered()
                | BackfillEnded()
                | RunProgressed()
                | RunReported()
                | RunClosed()
                | RerunRequested()
                | NodeCleared()
                | DependenciesChanged()
                | DependentChanged()
                | DependencyCompleted()
                | DependenciesUsed()
                | NoticesDelivered()
                | OutcomeRejected()
            ):
                pass  # its status is all that changed
            case _:
                assert_never(event)

    def report(
        self,
        start: Instant | None = None,
        end: Instant | None = None,
        *,
        decided: Instant,
        settled_jobs: int | None = None,
        settled: bool = False,
        edit_lag: Instant = EDIT_LAG,
    ) -> AuditReport:
        """Judge the due times in [start, end), by default the whole range. Those up to `decided` must be accounted for,
        but for what definitions after `settled_jobs` had due when they were read: that may still wait.

        `settled`: nothing is under way any more, so every run must have ended. `edit_lag`: how long after an edit
        an owner that had not read it yet may still have decided by the definition before.
        """
        start = self._start if start is None else start
        end = self._end if end is None else end
        report = AuditReport(jobs=len(self._jobs), findings=list(self._findings))
        for job_id, history in self._jobs.items():
            runs = sorted(self._runs_of.get(job_id, ()), key=_scheduled)
            self._judge(job_id, history, runs, start, end, decided, settled_jobs, edit_lag, report)
        for run_id, event in self._orphans.items():
            if run_id not in self._runs:
                scheduled = ids.scheduled_of(run_id)
                report.findings.append(
                    finding("orphaned", run_id, scheduled, f"{_word(event)}, and nobody had decided it")
                )
        for run_id, run in self._runs.items():
            if run.status is None or run.status in TERMINAL:
                continue
            report.under_way += 1
            if settled:
                report.findings.append(
                    finding("unfinished", run_id, run.scheduled, f"is {run.status} with nothing under way")
                )
        return report

    # -- one job ----------------------------------------------------------------------------------------

    def _judge(
        self,
        job_id: str,
        history: History,
        runs: list[_Run],
        start: Instant,
        end: Instant,
        decided: Instant,
        settled_jobs: int | None,
        edit_lag: Instant,
        report: AuditReport,
    ) -> None:
        expected: set[Instant] = set()
        taken = 0
        since = 0 if job_id in self._limited else start
        missed = _Stretches(self._missed.get(job_id, ()))
        for scheduled, version, spec in self._due(job_id, history, runs, since, end - 1, edit_lag):
            limit = spec.schedule.max_fires
            if (limit is not None and taken >= limit) or scheduled in expected:
                continue
            run = self._runs.get(ids.run_id(job_id, scheduled))
            fate = _fate(run) or ("missed" if scheduled in missed else None)
            untaken = fate in ("skipped", "missed", None) and not (run is not None and run.taken)
            if limit is not None and not untaken:
                taken += 1
            expected.add(scheduled)
            if scheduled < start:
                continue
            if fate is not None:
                report.accounted[fate] = report.accounted.get(fate, 0) + 1
            elif scheduled > decided or (settled_jobs is not None and version > settled_jobs):
                report.pending += 1
                continue
            else:
                run_id = ids.run_id(job_id, scheduled)
                report.findings.append(
                    finding("unaccounted", run_id, scheduled, "no event speaks of this due time")
                )
            report.expected += 1
        for run in runs:
            if run.scheduled is None or not run.of_schedule or run.scheduled in expected:
                continue
            if not start <= run.scheduled < end or run.scheduled > decided:
                continue
            if _before_edit(run, history, edit_lag):
                report.accounted["before_edit"] = report.accounted.get("before_edit", 0) + 1
            else:
                run_id = ids.run_id(job_id, run.scheduled)
                report.findings.append(
                    finding("invented", run_id, run.scheduled, "no definition has it due then")
                )

    def _due(
        self,
        job_id: str,
        history: History,
        runs: list[_Run],
        since: Instant,
        until: Instant,
        edit_lag: Instant,
    ) -> Iterator[tuple[Instant, int, JobSpec]]:
        """Each due time, and the definition that has it."""
        for span in spans(history, until):
            after = max(span.after, _decided_before(runs, span, edit_lag), since - 1)
            ended = [event.at for event in self._ended.get(job_id, ()) if event.version == span.version]
            last = min([span.until, *ended])
            if span.at_once is not None:
                if since <= span.at_once <= until:
                    yield span.at_once, span.version, span.spec
            elif span.spec.schedule.schedule_type not in ("IMMEDIATE", "DEPENDENT"):
                fires = compile_schedule(span.spec.schedule, span.spec.name)
                fire = fires.after(after)
                while fire is not None and fire.scheduled <= last:
                    yield fire.scheduled, span.version, span.spec
                    fire = fires.after(fire.scheduled)

    # -- one run ----------------------------------------------------------------------------------------

    def _first_seen(self, event: RunEvent) -> _Run | None:
        """A record for a run that is in the range; an attempt of a run that nobody decided is put aside."""
        scheduled = getattr(event, "scheduled", None)
        if scheduled is None:
            scheduled = ids.scheduled_of(event.run_id)
        job_id = job_of(event.run_id)
        start = 0 if job_id in self._limited else self._start
        if scheduled is not None and not start <= scheduled < self._end:
            return None
        if transition(None, event) is None:
            if isinstance(event, RunStarted | Outcome) and scheduled is not None and scheduled >= self._start:
                self._orphans.setdefault(event.run_id, event)
            return None
        run = self._runs[event.run_id] = _Run()
        self._runs_of[job_id].append(run)
        return run

    def _find(self, fault: Fault, run_id: str, scheduled: Instant | None, explanation: str) -> None:
        self._findings.append(finding(fault, run_id, scheduled, explanation))


class _Stretches:
    """Stretches of missed fires."""

    def __init__(self, missed: Iterable[RunsMissed]) -> None:
        ordered = sorted((event.scheduled, event.until) for event in missed)
        self._starts = [scheduled for scheduled, _ in ordered]
        self._reach = list(accumulate((until for _, until in ordered), max))

    def __contains__(self, scheduled: Instant) -> bool:
        before = bisect_right(self._starts, scheduled)
        return before > 0 and self._reach[before - 1] >= scheduled


def _note(run: _Run, event: Decision, trigger: str) -> None:
    if run.scheduled is None:
        run.scheduled, run.scheduled_by = event.scheduled, trigger
        run.version, run.decided_at = event.version, event.at


def _fate(run: _Run | None) -> Fate | None:
    return None if run is None or run.status is None else _UNTRIED.get(run.status, "ran")


def _decided_before(runs: list[_Run], span: Span, edit_lag: Instant) -> Instant:
    """How far an earlier definition had decided into this span, by an owner that had not read the edit yet."""
    first = bisect_right(runs, span.after, key=_scheduled)
    last = bisect_left(runs, span.after + edit_lag + 1, lo=first, key=_scheduled)
    for run in reversed(runs[first:last]):
        if run.of_schedule and run.version < span.version and run.decided_at - span.after <= edit_lag:
            return _scheduled(run)
    return 0


def _before_edit(run: _Run, history: History, lag: Instant) -> bool:
    """Whether a run is due by a definition whose successor the owner cannot have read yet when it decided."""
    versions = [version for version, _ in history]
    if run.scheduled is None or run.version not in versions or run.version == versions[-1]:
        return False
    place = versions.index(run.version)
    spec, successor = history[place][1].spec, history[place + 1][1]
    if run.scheduled <= successor.at or run.decided_at - successor.at > lag:
        return False
    fire = compile_schedule(spec.schedule, spec.name).at_or_after(run.scheduled)
    return fire is not None and fire.scheduled == run.scheduled


def _scheduled(run: _Run) -> Instant:
    return -1 if run.scheduled is None else run.scheduled


def _word(event: RunEvent) -> str:
    return str(event.__struct_config__.tag)
