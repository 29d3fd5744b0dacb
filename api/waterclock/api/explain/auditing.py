"""The audit over the whole log: both streams through the auditor, with progress on the way."""

import asyncio
from collections.abc import AsyncIterator

from waterclock.api import fleet
from waterclock.api.application import Application
from waterclock.api.namespaces import namespace_of
from waterclock.core.domain.audit import Auditor, AuditReport
from waterclock.core.domain.instants import datetime_of, instant_of
from waterclock.core.jetstream.pull import Delivery, Pull
from waterclock.core.jetstream.reader import stream_state
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.answers import Audit, Finding
from waterclock.proto.codec import decode_frame, decode_job_frame
from waterclock.proto.queries import AuditQuery

_MOST_SHOWN = 1000
_JOBS = "wc.jobs."


async def audited(app: Application, request: AuditQuery, namespace: str) -> AsyncIterator[Audit]:
    auditor = Auditor()
    cursors: dict[str, int] = {}
    ends = {
        stream: (await stream_state(app.connection, stream)).last_seq for stream in (names.JOBS, names.RUNS)
    }
    total, before = max(1, sum(ends.values())), 0
    for stream, subject in ((names.JOBS, names.jobs_of_partition()), (names.RUNS, names.runs_subject())):
        reached = 0
        async with Pull.ordered(app.connection, stream, [subject], after_sequence=0) as pull:
            while reached < ends[stream] and (pull.pending or reached == 0):
                for delivery in await pull.next(timeout=2.0):
                    reached = delivery.sequence
                    _feed(auditor, delivery, namespace, cursors)
                yield Audit(read=min(0.999, (before + reached) / total))
                await asyncio.sleep(0)
        before += ends[stream]
    now = now_us()
    decided = min([now, *(await _decided(app, cursors)).values()])
    start = 0 if request.start is None else instant_of(request.start)
    end = now if request.end is None else instant_of(request.end)
    yield _shown(auditor.report(start, min(end, now), decided=decided))


def _feed(auditor: Auditor, delivery: Delivery, namespace: str, cursors: dict[str, int]) -> None:
    if delivery.subject.startswith(_JOBS):
        for event in decode_job_frame(delivery.data).events:
            if event.spec.namespace == namespace:
                auditor.job_event(delivery.sequence, event)
        return
    frame = decode_frame(delivery.data)
    if frame.cursor is not None:
        cursors[delivery.subject] = frame.cursor.time
    for run_event in frame.events:
        if namespace_of(run_event.run_id) == namespace:
            auditor.run_event(run_event)


async def _decided(app: Application, cursors: dict[str, int]) -> dict[str, int]:
    """Up to when each partition is decided: by its owner's word, or else by the last frame an owner has written."""
    for partition in await fleet.partitions(app.control, app.settings.partitions):
        if partition.cursor is not None:
            subject = names.runs_subject(partition.partition)
            cursors[subject] = max(instant_of(partition.cursor), cursors.get(subject, 0))
    return cursors


def _shown(report: AuditReport) -> Audit:
    return Audit(
        read=1.0,
        jobs=report.jobs,
        expected=report.expected,
        accounted=report.accounted,
        clean=report.clean,
        findings=[
            Finding(
                fault=finding.fault,
                job_id=finding.job_id,
                run_id=finding.run_id,
                scheduled_time=None if finding.scheduled is None else datetime_of(finding.scheduled),
                explanation=finding.explanation,
            )
            for finding in report.findings[:_MOST_SHOWN]
        ],
    )
