"""Backfills: past fires run beside the live schedule, at most a few at a time, in the order asked for."""

from waterclock.core.domain import ids
from waterclock.core.domain.partition.ledger import Ledger
from waterclock.core.domain.partition.state import Backfill
from waterclock.proto.events import BackfillEnded, Instant


class Backfills:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def advance_all(self, now: Instant) -> None:
        for backfill in list(self._ledger.state.backfills.values()):
            self.advance(backfill, now)

    def advance(self, backfill: Backfill, now: Instant) -> None:
        """Queue as many fires as may be active, or end it."""
        if not backfill.paused and not backfill.cancelled:
            self._fill(backfill, now)
        if backfill.finished:
            self._ledger.emit(
                BackfillEnded(
                    run_id=backfill.backfill_id,
                    at=now,
                    succeeded=backfill.succeeded,
                    failed=backfill.failed,
                    left_out=len(backfill.fires) - backfill.position,
                )
            )

    def _fill(self, backfill: Backfill, now: Instant) -> None:
        spec = self._ledger.spec(backfill.job_id, backfill.version)
        if spec is None:
            self._ledger.open.starved.add((backfill.job_id, backfill.version))
            return
        while backfill.active < backfill.max_active and backfill.position < len(backfill.fires):
            scheduled = backfill.fires[backfill.position]
            suffix = backfill.backfill_id.rpartition("-")[2]
            self._ledger.queue(
                f"{ids.run_id(backfill.job_id, scheduled)}-{suffix}",
                backfill.version,
                spec,
                scheduled=scheduled,
                due=now,
                now=now,
                trigger="backfill",
                parent=backfill.backfill_id,
            )
