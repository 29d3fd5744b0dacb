"""Fan-outs: members are begun as others end, a few hundred at a time, so no step grows with their number."""

from collections.abc import Callable
from typing import Any

from waterclock.core.domain.partition.decisions import Lacking
from waterclock.core.domain.partition.ledger import Ledger
from waterclock.core.domain.partition.part_specs import Definition, member, source_in
from waterclock.core.domain.partition.parts import OUTPUT_LIMIT, Expansion, node_of
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.workflow.expression import Unusable
from waterclock.core.domain.workflow.fan_out import Lines, tolerated
from waterclock.proto.events import Instant, RunCancelled, RunClosed, RunEvent, RunProgressed
from waterclock.proto.names import member_run
from waterclock.proto.spec import FanOut

BATCH = 500
"""How many members of a fan-out one pass begins."""
MOST_ACTIVE = 10_000
"""Members that may be under way at once, whatever `max_concurrency` says."""
_PROGRESS = 1_000_000
"""Progress is told this often, in microseconds."""
_LINES = 2_000
"""Lines asked for at once."""
_NULL = 5
"""Bytes of a result that is not there."""

Emit = Callable[[RunEvent, Instant], None]


class Expansions:
    def __init__(self, ledger: Ledger, emit: Emit) -> None:
        self._ledger = ledger
        self._emit = emit
        self._told: dict[str, Instant] = {}
        self._lines: dict[str, tuple[int, list[str]]] = {}
        """Lines read ahead: the number of the first, and they."""
        self._stopped: set[str] = set()
        """Fan-outs whose members were all told to stop."""

    def advance(self, run: Run, now: Instant) -> None:
        """Begin as many members as may run, or end the fan-out."""
        expansion = self._ledger.state.expansions[run.run_id]
        if run.cancelling:
            self._cancel(run, expansion, now)
            return
        definition = self._ledger.definition(run)
        if definition is None:
            return
        try:
            self._expand(run, expansion, definition, now)
        except Unusable as error:
            self._emit(RunClosed(run_id=run.run_id, at=now, succeeded=False, reason=str(error)), now)

    def supply(self, run_id: str, start: int, lines: list[str], total: int, now: Instant) -> None:
        """Lines that were lacking, and how many there are in all."""
        expansion = self._ledger.state.expansions.get(run_id)
        if expansion is None:
            return
        self._lines[run_id] = (start, lines)
        if expansion.total is None:
            self._emit(RunProgressed(run_id=run_id, at=now, total=total), now)
        if not lines and expansion.next < (expansion.total or 0):
            self.fail(run_id, f"the file ends after {start} lines", now)
        self._ledger.stir(run_id)

    def fail(self, run_id: str, reason: str, now: Instant) -> None:
        """The lines cannot be read."""
        expansion = self._ledger.state.expansions.get(run_id)
        if expansion is not None and expansion.active == 0:
            self._emit(RunClosed(run_id=run_id, at=now, succeeded=False, reason=reason), now)

    def forget(self, run_id: str) -> None:
        self._told.pop(run_id, None)
        self._lines.pop(run_id, None)
        self._stopped.discard(run_id)

    def _expand(self, run: Run, expansion: Expansion, definition: Definition, now: Instant) -> None:
        source = source_in(self._ledger.state, run, definition)
        total = expansion.total
        if total is None:
            if not isinstance(source, Lines):
                raise Unusable("its items cannot be counted")
            self._ask(run.run_id, source, expansion)
            return
        policy = self._policy(run, definition)
        give_up = expansion.failed > tolerated(policy, total)
        if not give_up and not self._begin(run, expansion, definition, source, policy, now):
            return
        if expansion.active == 0 and (give_up or expansion.next >= total):
            self._close(run, expansion, total, give_up, now)
        else:
            self._tell(run.run_id, expansion, total, now)

    def _begin(
        self,
        run: Run,
        expansion: Expansion,
        definition: Definition,
        source: Any,
        policy: FanOut,
        now: Instant,
    ) -> bool:
        """Begin members while there is room. False: their lines must be read first."""
        assert expansion.total is not None
        room = min(policy.max_concurrency, MOST_ACTIVE) - expansion.active
        count = min(room, BATCH, expansion.total - expansion.next)
        for index in range(expansion.next, expansion.next + count):
            item = None
            if isinstance(source, Lines) and (item := self._line(run.run_id, index)) is None:
                self._ask(run.run_id, source, expansion)
                return False
            self._ledger.queue(
                member_run(run.run_id, index, run.attempt),
                run.version,
                member(self._ledger.state, run, definition, index, item),
                scheduled=run.scheduled,
                due=now,
                now=now,
                trigger="fan_out",
                parent=run.run_id,
                epoch=run.epoch,
                item=item,
            )
        if count == BATCH < room:
            self._ledger.stir(run.run_id)
        return True

    def _line(self, run_id: str, index: int) -> str | None:
        start, lines = self._lines.get(run_id, (0, []))
        return lines[index - start] if start <= index < start + len(lines) else None

    def _ask(self, run_id: str, source: Lines, expansion: Expansion) -> None:
        self._ledger.open.lacking[run_id] = Lacking(
            artifact=source.artifact,
            start=expansion.next,
            count=_LINES,
            counted=expansion.total is not None,
        )

    def _policy(self, run: Run, definition: Definition) -> FanOut:
        in_wave = run.parent in self._ledger.state.waves
        policy = definition.node(node_of(run.run_id)).map if in_wave else definition.spec.fan_out
        assert policy is not None
        return policy

    def _tell(self, run_id: str, expansion: Expansion, total: int, now: Instant) -> None:
        if now - self._told.setdefault(run_id, now) >= _PROGRESS:
            self._told[run_id] = now
            self._emit(
                RunProgressed(
                    run_id=run_id, at=now, total=total, done=expansion.done, failed=expansion.failed
                ),
                now,
            )

    def _close(self, run: Run, expansion: Expansion, total: int, give_up: bool, now: Instant) -> None:
        output: dict[str, Any] = {"total": total, "done": expansion.done, "failed": expansion.failed}
        results = expansion.results
        if results and expansion.results_size + (total - len(results)) * _NULL <= OUTPUT_LIMIT:
            output["results"] = [results.get(index) for index in range(total)]
        reason = f"{expansion.failed} of {total} members failed" if expansion.failed else ""
        self._emit(
            RunClosed(run_id=run.run_id, at=now, succeeded=not give_up, reason=reason, output=output), now
        )

    def _cancel(self, run: Run, expansion: Expansion, now: Instant) -> None:
        if expansion.active and run.run_id not in self._stopped:
            self._stopped.add(run.run_id)
            of_job = self._ledger.by_job.get(run.job_id, {})
            for part in [part for part in of_job.values() if part.parent == run.run_id]:
                if not part.cancelling:
                    self._ledger.cancel(part, "its fan-out is cancelled", now, at_once=run.at_once)
        if expansion.active == 0:
            self._emit(RunCancelled(run_id=run.run_id, at=now, reason="cancelled", attempt=run.attempt), now)
