"""What an audit says."""

from typing import Literal

from msgspec import Struct, field

from waterclock.core.domain.ids import job_of
from waterclock.proto.events import Instant

Fault = Literal["unaccounted", "decided_twice", "invented", "orphaned", "unfinished"]
"""`unaccounted`: a due time no event speaks of. `decided_twice`: a second decision about the same run. `invented`: a
run of the schedule that no definition has due. `orphaned`: an attempt of a run that nobody decided. `unfinished`: a
run without an end, though nothing is under way."""


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
    pending: int = 0
    """Due in the range, and not yet decided by anybody: no owner has come that far."""
    under_way: int = 0
    """Of those that ran: not ended yet."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.findings

    def add(self, other: "AuditReport") -> None:
        """Join the report of another partition."""
        self.jobs += other.jobs
        self.expected += other.expected
        self.pending += other.pending
        self.under_way += other.under_way
        self.findings += other.findings
        for fate, count in other.accounted.items():
            self.accounted[fate] = self.accounted.get(fate, 0) + count


def finding(fault: Fault, run_id: str, scheduled: Instant | None, explanation: str) -> Finding:
    return Finding(
        fault=fault, job_id=job_of(run_id), run_id=run_id, scheduled=scheduled, explanation=explanation
    )
