"""`audit`: the proof from the log that no run is missing and none happened twice.

Partition by partition, so that it holds no more than one of them at a time.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.queries import fleet
from waterclock.api.registry import streams
from waterclock.core.domain.explain.audit import Auditor
from waterclock.core.domain.explain.audit_report import AuditReport
from waterclock.core.domain.ids import namespace_of
from waterclock.core.domain.instants import datetime_of, instant_of, rfc3339
from waterclock.core.jetstream.messages import sequence_before
from waterclock.core.jetstream.pull_loop import Delivery, Pull
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.quarantine import read_frame, read_job_frame
from waterclock.proto import methods, names
from waterclock.proto.answers import Audit, Finding
from waterclock.proto.events import Instant
from waterclock.proto.queries import AuditQuery

_SKEW = timedelta(minutes=1)
_MAX_FINDINGS = 1000
_JOBS_SHARE = 0.3
"""How much of a partition's progress its definitions are."""


@streams(methods.AUDIT_RUN)
async def audit(app: Application, request: AuditQuery, caller: Caller) -> AsyncIterator[Audit]:
    """Progress while the log is read, then the report."""
    now = now_us()
    asked = 0 if request.start is None else instant_of(request.start)
    end = now if request.end is None else min(now, instant_of(request.end))
    start, note = await _log_reaches_from(app, asked, now)
    owners = await _decided_by_owners(app)
    report, count = AuditReport(), app.settings.partitions
    for partition in range(count):
        reading = _Partition(app, partition, caller.namespace, Auditor(start, end))
        async for read in reading.read():
            yield Audit(read=min(0.999, (partition + read) / count))
        decided, settled = owners.get(partition, (0, 0))
        report.add(
            await asyncio.to_thread(
                reading.auditor.report,
                decided=max(reading.decided, decided),
                settled_jobs=max(reading.settled, settled),
            )
        )
    yield _answer(report, start, end, note)


class _Partition:
    """One partition's definitions, then its runs, through an auditor."""

    def __init__(self, app: Application, partition: int, namespace: str, auditor: Auditor) -> None:
        self.auditor = auditor
        self.decided: Instant = 0
        """How far the last frame of an owner had come."""
        self.settled = 0
        """Up to which definition all that was due when it was read was decided then."""
        self._app = app
        self._partition = partition
        self._namespace = namespace

    async def read(self) -> AsyncIterator[float]:
        """How far it is, between 0 and 1."""
        jobs, runs = names.jobs_of_partition(self._partition), names.runs_subject(self._partition)
        async for read in self._through(names.JOBS, jobs, 0):
            yield _JOBS_SHARE * read
        since = datetime_of(self.auditor.counts_from())
        after = 0
        if since.timestamp() > 0:
            after = await sequence_before(self._app.connection, names.RUNS, runs, since - _SKEW)
        async for read in self._through(names.RUNS, runs, after):
            yield _JOBS_SHARE + (1 - _JOBS_SHARE) * read

    async def _through(self, stream: str, subject: str, after: int) -> AsyncIterator[float]:
        take = self._take_jobs if stream == names.JOBS else self._take_runs
        connection = self._app.connection
        async with Pull.ordered(connection, stream, [subject], after_sequence=after) as pull:
            total = pull.pending
            async for batch in pull.backlog():
                for delivery in batch:
                    take(delivery)
                yield 1 - pull.pending / max(total, pull.pending)
                await asyncio.sleep(0)

    def _take_jobs(self, record: Delivery) -> None:
        for event in read_job_frame(record).events:
            if event.spec.namespace == self._namespace:
                self.auditor.job_event(record.sequence, event)

    def _take_runs(self, record: Delivery) -> None:
        frame = read_frame(record)
        if frame.cursor is not None:
            self.decided, self.settled = frame.cursor.time, frame.cursor.settled_jobs
        for event in frame.events:
            if namespace_of(event.run_id) == self._namespace:
                self.auditor.run_event(event)


async def _log_reaches_from(app: Application, asked: Instant, now: Instant) -> tuple[Instant, str]:
    """From when on the log reaches, and a note if that is later than asked for: older events have left it."""
    info = await app.connection.api(f"STREAM.INFO.{names.RUNS}")
    kept = info["config"].get("max_age", 0) // 1000
    created = instant_of(datetime.fromisoformat(info["created"]))
    begins = now - kept + _SKEW // timedelta(microseconds=1)
    if not kept or begins <= max(asked, created):
        return asked, ""
    return begins, f"the log begins at {rfc3339(begins)}: what was due before is older than its retention"


async def _decided_by_owners(app: Application) -> dict[int, tuple[Instant, int]]:
    """Up to when each partition is decided, and up to which definition, from its owner's heartbeat: an owner without
    events writes no frame."""
    owners = fleet.owners(await fleet.schedulers(app.control), app.settings.partitions)
    return {
        number: (fleet.decided_until(held, beat.at), max(held.settled, 0))
        for number, (beat, held) in owners.items()
    }


def _answer(report: AuditReport, start: Instant, end: Instant, note: str) -> Audit:
    return Audit(
        read=1.0,
        jobs=report.jobs,
        expected=report.expected,
        accounted=report.accounted,
        pending=report.pending,
        under_way=report.under_way,
        clean=report.clean,
        faults=len(report.findings),
        findings=[
            Finding(
                fault=finding.fault,
                job_id=finding.job_id,
                run_id=finding.run_id,
                scheduled_time=None if finding.scheduled is None else datetime_of(finding.scheduled),
                explanation=finding.explanation,
            )
            for finding in report.findings[:_MAX_FINDINGS]
        ],
        start=datetime_of(start),
        end=datetime_of(end),
        note=note,
    )
