"""Waves of workflows: which node runs next, and when the wave is over.

Whatever is decided follows from the state: a wave can be looked at any time, by any owner, and nothing is done twice.
"""

from collections.abc import Callable, Iterable

from waterclock.core.domain.partition.ledger import Ledger
from waterclock.core.domain.partition.part_specs import Definition, scope_in
from waterclock.core.domain.partition.parts import Wave
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.workflow.expression import Unusable, expression_of
from waterclock.core.domain.workflow.node_specs import filled, node_spec
from waterclock.core.domain.workflow.shape import Frontier, Shape
from waterclock.proto.events import (
    Instant,
    RunCancelled,
    RunClosed,
    RunEvent,
    RunOpened,
    RunSkipped,
)
from waterclock.proto.names import node_run
from waterclock.proto.spec import Node

BATCH = 500
"""How many nodes of a wave one pass decides."""
_NAMED = 5

Emit = Callable[[RunEvent, Instant], None]


class Waves:
    def __init__(self, ledger: Ledger, emit: Emit) -> None:
        self._ledger = ledger
        self._emit = emit
        self._frontiers: dict[str, Frontier] = {}

    def advance(self, run: Run, now: Instant) -> None:
        """Decide every node whose turn has come; end the wave after the last."""
        wave = self._ledger.state.waves[run.run_id]
        if run.status != "RUNNING" and not run.cancelling:
            return
        if run.cancelling:
            self._cancel(run, wave, now)
            return
        definition = self._ledger.definition(run)
        if definition is None:
            return
        frontier = self._frontier(run, wave, definition)
        decided = 0
        while (node_id := frontier.take()) is not None:
            if node_id in wave.nodes or node_run(run.run_id, node_id) in self._ledger.state.runs:
                continue
            decided += self._decide(run, wave, definition, frontier, node_id, now)
            self._catch_up(run, wave, frontier)
            if decided >= BATCH:
                self._ledger.stir(run.run_id)
                return
        if len(wave.nodes) >= len(frontier.shape.nodes):
            self._close(run, wave, frontier.shape, now)

    def forget(self, run_id: str) -> None:
        """Whatever was worked out of a wave: it is over, or was changed by hand."""
        self._frontiers.pop(run_id, None)
        self._ledger.fresh.pop(run_id, None)

    def _frontier(self, run: Run, wave: Wave, definition: Definition) -> Frontier:
        frontier = self._frontiers.get(run.run_id)
        if frontier is None:
            assert definition.shape is not None
            self._ledger.fresh.pop(run.run_id, None)
            ended = {node: end.outcome for node, end in wave.nodes.items()}
            frontier = self._frontiers[run.run_id] = Frontier(definition.shape, ended)
        else:
            self._catch_up(run, wave, frontier)
        return frontier

    def _catch_up(self, run: Run, wave: Wave, frontier: Frontier) -> None:
        for node in self._ledger.fresh.pop(run.run_id, ()):
            frontier.ended(node, wave.nodes[node].outcome)

    def _decide(
        self, run: Run, wave: Wave, definition: Definition, frontier: Frontier, node_id: str, now: Instant
    ) -> int:
        node = frontier.shape.nodes[node_id]
        match frontier.verdict(node_id):
            case None:
                return 0
            case "run":
                self._run(run, definition, frontier.shape, node, now)
            case "skip":
                self._skip(run, node_id, f"{node.trigger_rule}: {_ends(wave, node)}", now)
            case "block":
                culprit = next(up for up in node.depends_on if _is_bad(wave, up))
                reason = f"{node.trigger_rule}: '{culprit}' {_word(wave, culprit)}"
                self._skip(run, node_id, reason, now, node_run(run.run_id, culprit))
        return 1

    def _run(self, run: Run, definition: Definition, shape: Shape, node: Node, now: Instant) -> None:
        state = self._ledger.state
        run_id = node_run(run.run_id, node.id)
        attempt = state.waves[run.run_id].attempts.get(node.id, 0) + 1
        try:
            scope = scope_in(state, run, definition, node.id)
            if node.condition is not None and not expression_of(node.condition).holds(scope):
                self._skip(run, node.id, f"condition: {node.condition}", now)
                return
            spec = node_spec(definition.spec, node)
            if spec.fan_out is None:
                spec = filled(spec, scope)
        except Unusable as error:
            self._fail(run, run_id, attempt, str(error), now)
            return
        self._ledger.queue(
            run_id,
            run.version,
            spec,
            scheduled=run.scheduled,
            due=now,
            now=now,
            trigger="workflow",
            parent=run.run_id,
            epoch=run.epoch,
            attempt=attempt,
            output_kept=node.id in shape.read,
        )

    def _skip(self, run: Run, node_id: str, reason: str, now: Instant, because_of: str | None = None) -> None:
        self._emit(
            RunSkipped(
                run_id=node_run(run.run_id, node_id),
                at=now,
                version=run.version,
                scheduled=run.scheduled,
                due=now,
                reason=reason,
                because_of=because_of,
                parent=run.run_id,
                epoch=run.epoch,
                blocked=because_of is not None,
                trigger="workflow",
            ),
            now,
        )

    def _fail(self, run: Run, run_id: str, attempt: int, reason: str, now: Instant) -> None:
        """A node of which nothing can run: opened and closed, as there is no attempt that could fail."""
        opened = RunOpened(
            run_id=run_id,
            at=now,
            version=run.version,
            scheduled=run.scheduled,
            due=now,
            kind="fan_out",
            trigger="workflow",
            attempt=attempt,
            parent=run.run_id,
            epoch=run.epoch,
        )
        self._emit(opened, now)
        self._emit(RunClosed(run_id=run_id, at=now, succeeded=False, reason=reason), now)

    def _cancel(self, run: Run, wave: Wave, now: Instant) -> None:
        """Stop what runs; once that has ended, what has not begun is cancelled, and so is the wave."""
        ledger = self._ledger
        active = [part for part in self._nodes(run) if part.run_id in ledger.state.runs]
        for part in active:
            if not part.cancelling:
                ledger.cancel(part, "its wave is cancelled", now, at_once=run.at_once)
        if any(part.run_id in ledger.state.runs for part in active):
            return
        definition = ledger.definition(run)
        if definition is not None and definition.shape is not None:
            for node in definition.shape.nodes:
                if node not in wave.nodes:
                    self._emit(
                        RunCancelled(
                            run_id=node_run(run.run_id, node),
                            at=now,
                            reason="its wave is cancelled",
                            version=run.version,
                            scheduled=run.scheduled,
                            parent=run.run_id,
                            epoch=run.epoch,
                        ),
                        now,
                    )
        elif not ledger.is_gone(run):
            return
        self._emit(RunCancelled(run_id=run.run_id, at=now, reason="cancelled", attempt=run.attempt), now)

    def _nodes(self, run: Run) -> Iterable[Run]:
        of_job = self._ledger.by_job.get(run.job_id, {})
        return [part for part in of_job.values() if part.parent == run.run_id]

    def _close(self, run: Run, wave: Wave, shape: Shape, now: Instant) -> None:
        """The leaves decide: a failure that a later node has dealt with is none of the wave."""
        failed = any(wave.nodes[leaf].outcome in ("failed", "blocked") for leaf in shape.leaves)
        culprits = [node for node in shape.nodes if wave.nodes[node].outcome == "failed"]
        named = ", ".join(culprits[:_NAMED]) + (", …" if len(culprits) > _NAMED else "")
        self._emit(
            RunClosed(
                run_id=run.run_id,
                at=now,
                succeeded=not failed,
                reason=f"failed: {named}" if failed and culprits else "",
            ),
            now,
        )


def _is_bad(wave: Wave, node: str) -> bool:
    end = wave.nodes.get(node)
    return end is not None and end.outcome in ("failed", "blocked")


def _word(wave: Wave, node: str) -> str:
    end = wave.nodes[node]
    if end.outcome == "blocked":
        return "did not run"
    return {"TIMED_OUT": "timed out", "CANCELLED": "was cancelled"}.get(end.status, "failed")


def _ends(wave: Wave, node: Node) -> str:
    known = [f"'{up}' {wave.nodes[up].outcome}" for up in node.depends_on if up in wave.nodes]
    return ", ".join(known[:_NAMED]) + (", …" if len(known) > _NAMED else "")
