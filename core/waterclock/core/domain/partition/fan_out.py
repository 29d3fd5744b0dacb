"""Fan-outs: members are begun as others end, a few hundred at a time, so no step grows with their number."""

from collections.abc import Callable
from typing import Any

from waterclock.core.domain.ids import member_run
from waterclock.core.domain.partition.decisions import Decisions, LinesNeeded
from waterclock.core.domain.partition.definition_cache import Definition
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.room import route_of_spec
from waterclock.core.domain.partition.run_part_specs import policy_in, source_in, spec_of_member
from waterclock.core.domain.partition.run_parts import OUTPUT_LIMIT, FanOutState
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.workflow.conditions import Unusable
from waterclock.core.domain.workflow.fan_out_source import Lines, tolerated
from waterclock.proto.events import Instant, RunCancelled, RunClosed, RunEvent, RunProgressed
from waterclock.proto.spec import FanOut

BATCH = 500
"""How many members of a fan-out one pass begins."""
MOST_ACTIVE = 10_000
"""Members that may be under way at once, whatever `max_concurrency` says."""
_PROGRESS = 1_000_000
"""How often progress is reported, in microseconds."""
_LINES = 2_000
"""Lines asked for at once."""
_NULL = 5
"""Bytes of a result that is missing, as JSON: `null` and a comma."""

Emit = Callable[[RunEvent, Instant], None]


class FanOuts:
    """`emit` decides an event together with what follows from it (see follow_ups.py)."""

    def __init__(self, decisions: Decisions, dispatch: Dispatch, emit: Emit) -> None:
        self._decisions = decisions
        self._dispatch = dispatch
        self._state = decisions.state
        self._emit = emit
        self._reported: dict[str, Instant] = {}
        """When progress was last reported, by run."""
        self._lines: dict[str, tuple[int, list[str]]] = {}
        """Lines read ahead, by run: the number of the first, and the lines."""
        self._stopped: set[str] = set()
        """Fan-outs whose members were all told to stop."""

    def advance(self, run: Run, now: Instant) -> None:
        """Begin as many members as may run, or end the fan-out."""
        fan_out = self._state.fan_outs[run.run_id]
        if run.cancelling:
            self._cancel(run, fan_out, now)
            return
        definition = self._dispatch.definition(run)
        if definition is None:
            return
        try:
            self._expand(run, fan_out, definition, now)
        except Unusable as error:
            self._emit(RunClosed(run_id=run.run_id, at=now, succeeded=False, reason=str(error)), now)

    def supply_lines(self, run_id: str, start: int, lines: list[str], total: int, now: Instant) -> None:
        """Lines that were needed, and how many there are in all."""
        fan_out = self._state.fan_outs.get(run_id)
        if fan_out is None:
            return
        self._lines[run_id] = (start, lines)
        if fan_out.total is None:
            self._emit(RunProgressed(run_id=run_id, at=now, total=total), now)
        if not lines and fan_out.next < (fan_out.total or 0):
            self.fail(run_id, f"the file ends after {start} lines", now)
        self._decisions.advance_later(run_id)

    def fail(self, run_id: str, reason: str, now: Instant) -> None:
        """The lines cannot be read."""
        fan_out = self._state.fan_outs.get(run_id)
        if fan_out is not None and fan_out.active == 0:
            self._emit(RunClosed(run_id=run_id, at=now, succeeded=False, reason=reason), now)

    def forget(self, run_id: str) -> None:
        self._reported.pop(run_id, None)
        self._lines.pop(run_id, None)
        self._stopped.discard(run_id)

    def _expand(self, run: Run, fan_out: FanOutState, definition: Definition, now: Instant) -> None:
        source = source_in(self._state, run, definition)
        total = fan_out.total
        if total is None:
            if not isinstance(source, Lines):
                raise Unusable("its items cannot be counted")
            self._need_lines(run.run_id, source, fan_out)
            return
        policy = policy_in(self._state, run, definition)
        give_up = fan_out.failed > tolerated(policy, total)
        if not give_up and not self._begin(run, fan_out, definition, source, policy, now):
            return
        if fan_out.active == 0 and (give_up or fan_out.next >= total):
            self._close(run, fan_out, total, give_up, now)
        else:
            self._report_progress(run.run_id, fan_out, total, now)

    def _begin(
        self,
        run: Run,
        fan_out: FanOutState,
        definition: Definition,
        source: Any,
        policy: FanOut,
        now: Instant,
    ) -> bool:
        """Begin members while there is room. False: their lines must be read first."""
        assert fan_out.total is not None
        room = min(policy.max_concurrency, MOST_ACTIVE) - fan_out.active
        count = min(room, BATCH, fan_out.total - fan_out.next)
        for index in range(fan_out.next, fan_out.next + count):
            item = None
            if isinstance(source, Lines) and (item := self._line(run.run_id, index)) is None:
                self._need_lines(run.run_id, source, fan_out)
                return False
            spec = spec_of_member(self._state, run, definition, index, item)
            route = route_of_spec(spec)
            if not self._decisions.room.has(route, spec.priority):
                self._decisions.without_room[run.run_id] = route, spec.priority
                return True
            self._dispatch.queue(
                member_run(run.run_id, index, run.attempt),
                run.version,
                spec,
                scheduled=run.scheduled,
                due=now,
                now=now,
                trigger="fan_out",
                parent=run.run_id,
                epoch=run.epoch,
                item=item,
            )
        if count == BATCH < room:
            self._decisions.advance_later(run.run_id)
        return True

    def _line(self, run_id: str, index: int) -> str | None:
        start, lines = self._lines.get(run_id, (0, []))
        return lines[index - start] if start <= index < start + len(lines) else None

    def _need_lines(self, run_id: str, source: Lines, fan_out: FanOutState) -> None:
        self._decisions.open.lines_needed[run_id] = LinesNeeded(
            artifact=source.artifact,
            start=fan_out.next,
            count=_LINES,
            counted=fan_out.total is not None,
        )

    def _report_progress(self, run_id: str, fan_out: FanOutState, total: int, now: Instant) -> None:
        if now - self._reported.setdefault(run_id, now) >= _PROGRESS:
            self._reported[run_id] = now
            self._emit(
                RunProgressed(run_id=run_id, at=now, total=total, done=fan_out.done, failed=fan_out.failed),
                now,
            )

    def _close(self, run: Run, fan_out: FanOutState, total: int, give_up: bool, now: Instant) -> None:
        output: dict[str, Any] = {"total": total, "done": fan_out.done, "failed": fan_out.failed}
        results = fan_out.results
        if results and fan_out.results_size + (total - len(results)) * _NULL <= OUTPUT_LIMIT:
            output["results"] = [results.get(index) for index in range(total)]
        reason = f"{fan_out.failed} of {total} members failed" if fan_out.failed else ""
        self._emit(
            RunClosed(run_id=run.run_id, at=now, succeeded=not give_up, reason=reason, output=output), now
        )

    def _cancel(self, run: Run, fan_out: FanOutState, now: Instant) -> None:
        if fan_out.active and run.run_id not in self._stopped:
            self._stopped.add(run.run_id)
            for part in self._decisions.parts_of(run):
                if not part.cancelling:
                    self._dispatch.cancel(part, "its fan-out is cancelled", now, at_once=run.at_once)
        if fan_out.active == 0:
            self._emit(RunCancelled(run_id=run.run_id, at=now, reason="cancelled", attempt=run.attempt), now)
