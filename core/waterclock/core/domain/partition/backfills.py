"""Backfills: past fires run beside the live schedule, at most a few at a time, in the order asked for."""

from waterclock.core.domain import ids
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.state import Backfill
from waterclock.proto.events import BackfillEnded, Instant


class Backfills:
    def __init__(self, decisions: Decisions, definitions: Definitions, dispatch: Dispatch) -> None:
        self._decisions = decisions
        self._definitions = definitions
        self._dispatch = dispatch

    def advance_all(self, now: Instant) -> None:
        for backfill in list(self._decisions.state.backfills.values()):
            self.advance(backfill, now)

    def advance(self, backfill: Backfill, now: Instant) -> None:
        """Queue as many fires as may be active, or end it."""
        if not backfill.paused and not backfill.cancelled:
            self._fill(backfill, now)
        if backfill.finished:
            self._decisions.emit(
                BackfillEnded(
                    run_id=backfill.backfill_id,
                    at=now,
                    succeeded=backfill.succeeded,
                    failed=backfill.failed,
                    left_out=len(backfill.fires) - backfill.position,
                )
            )

    def _fill(self, backfill: Backfill, now: Instant) -> None:
        definition = self._definitions.get(backfill.job_id, backfill.version)
        if definition is None:
            self._dispatch.need_definition(backfill.job_id, backfill.version)
            return
        while backfill.active < backfill.max_active and backfill.position < len(backfill.fires):
            scheduled = backfill.fires[backfill.position]
            suffix = backfill.backfill_id.rpartition("-")[2]
            self._dispatch.queue(
                f"{ids.run_id(backfill.job_id, scheduled)}-{suffix}",
                backfill.version,
                definition.spec,
                scheduled=scheduled,
                due=now,
                now=now,
                trigger="backfill",
                parent=backfill.backfill_id,
            )
