"""Explanations and reports as answers."""

from waterclock.core.domain.explain.audit_report import AuditReport
from waterclock.core.domain.explain.explanation import Explanation
from waterclock.core.domain.explain.explanation import Step as Happened
from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.proto.answers import Audit, DecidedBy, Delay, Finding, Step, Why
from waterclock.proto.events import Instant

MOST_FINDINGS = 1000


def explanation(found: Explanation) -> Why:
    defined = found.definition
    return Why(
        subject=found.subject,
        answer=found.answer,
        steps=_steps(found.steps),
        reason=found.reason,
        run_id=found.run_id,
        delays=[
            Delay(
                kind=delay.kind,
                start=datetime_of(delay.start),
                end=datetime_of(delay.end),
                seconds=(delay.end - delay.start) / SECOND,
                share=round(delay.share, 4),
                attempt=delay.attempt,
                what=delay.what,
            )
            for delay in found.delays
        ],
        definition=None
        if defined is None
        else DecidedBy(
            version=defined.version,
            defined_at=datetime_of(defined.at),
            actor=defined.actor,
            note=defined.note,
            policy=defined.policy,
        ),
        owner=found.decided_by,
        executors=list(found.executors),
        previous_fire=None if found.previous is None else datetime_of(found.previous),
        next_fire=None if found.following is None else datetime_of(found.following),
    )


def audit(report: AuditReport, start: Instant, end: Instant, note: str) -> Audit:
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
            for finding in report.findings[:MOST_FINDINGS]
        ],
        start=datetime_of(start),
        end=datetime_of(end),
        note=note,
    )


def _steps(happened: tuple[Happened, ...]) -> list[Step]:
    steps: list[Step] = []
    before: Instant | None = None
    for step in happened:
        gap = None if before is None else (step.at - before) / SECOND
        position = "" if step.sequence is None else str(step.sequence)
        steps.append(
            Step(at=datetime_of(step.at), what=step.what, position=position, after_seconds=gap, by=step.by)
        )
        before = step.at
    return steps
