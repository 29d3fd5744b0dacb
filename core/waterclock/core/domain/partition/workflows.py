"""Runs of workflows: which node runs next, and when the run is over. Users call such a run a wave.

Whatever is decided follows from the state: a workflow run can be advanced any time, by any owner, and nothing is done
twice.
"""

from collections.abc import Callable

from waterclock.core.domain.ids import node_run
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definition, Definitions
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.due.timing_wheel import Wheel
from waterclock.core.domain.partition.run_part_specs import node_scope
from waterclock.core.domain.partition.run_parts import WorkflowRunState
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.workflow.conditions import Unusable, expression_of
from waterclock.core.domain.workflow.node_specs import filled, node_spec
from waterclock.core.domain.workflow.shape import Frontier, Shape
from waterclock.proto.events import (
    Instant,
    RunCancelled,
    RunCancelRequested,
    RunClosed,
    RunEvent,
    RunOpened,
    RunSkipped,
)
from waterclock.proto.spec import Node

BATCH = 500
"""How many nodes of a workflow run one pass decides."""
_NAMED = 5
_TIMED_OUT = "it took longer than its timeout"

Emit = Callable[[RunEvent, Instant], None]


class WorkflowRuns:
    """`emit` decides an event together with what follows from it (see follow_ups.py)."""

    def __init__(
        self,
        decisions: Decisions,
        definitions: Definitions,
        dispatch: Dispatch,
        wheel: Wheel[ArmedSchedule | Run],
        emit: Emit,
    ) -> None:
        self._decisions = decisions
        self._definitions = definitions
        self._dispatch = dispatch
        self._state = decisions.state
        self._emit = emit
        self._wheel = wheel
        self._frontiers: dict[str, Frontier] = {}
        self._timed: set[str] = set()
        """Those with a deadline that have their timer."""

    def advance(self, run: Run, now: Instant) -> None:
        """Decide every node whose turn has come; end the run after the last."""
        workflow_run = self._state.workflow_runs[run.run_id]
        if run.status != "RUNNING" and not run.cancelling:
            return
        if not run.cancelling and run.deadline is not None:
            self._keep_deadline(run, run.deadline, now)
        if run.cancelling:
            self._cancel(run, workflow_run, now)
            return
        definition = self._dispatch.definition(run)
        if definition is None:
            return
        frontier = self._frontier(run, workflow_run, definition)
        decided = 0
        while (node_id := frontier.take()) is not None:
            if node_id in workflow_run.nodes or node_run(run.run_id, node_id) in self._state.runs:
                continue
            decided += self._decide(run, workflow_run, definition, frontier, node_id, now)
            self._take_ended_nodes(run, workflow_run, frontier)
            if decided >= BATCH:
                self._decisions.advance_later(run.run_id)
                return
        if len(workflow_run.nodes) >= len(frontier.shape.nodes):
            self._close(run, workflow_run, frontier.shape, now)

    def forget(self, run_id: str) -> None:
        """Drop what was worked out of a workflow run: it is over, or was changed by hand."""
        self._frontiers.pop(run_id, None)
        self._decisions.ended_nodes.pop(run_id, None)
        self._timed.discard(run_id)

    def _keep_deadline(self, run: Run, deadline: Instant, now: Instant) -> None:
        if now >= deadline:
            self._decisions.emit(
                RunCancelRequested(
                    run_id=run.run_id,
                    at=now,
                    actor="scheduler",
                    reason=_TIMED_OUT,
                    timed_out=True,
                )
            )
        elif run.run_id not in self._timed:
            self._timed.add(run.run_id)
            self._wheel.add(deadline, run)

    def _frontier(self, run: Run, workflow_run: WorkflowRunState, definition: Definition) -> Frontier:
        frontier = self._frontiers.get(run.run_id)
        if frontier is None:
            assert definition.shape is not None
            self._decisions.ended_nodes.pop(run.run_id, None)
            ended = {node: end.outcome for node, end in workflow_run.nodes.items()}
            frontier = self._frontiers[run.run_id] = Frontier(definition.shape, ended)
        else:
            self._take_ended_nodes(run, workflow_run, frontier)
        return frontier

    def _take_ended_nodes(self, run: Run, workflow_run: WorkflowRunState, frontier: Frontier) -> None:
        for node in self._decisions.ended_nodes.pop(run.run_id, ()):
            frontier.ended(node, workflow_run.nodes[node].outcome)

    def _decide(
        self,
        run: Run,
        workflow_run: WorkflowRunState,
        definition: Definition,
        frontier: Frontier,
        node_id: str,
        now: Instant,
    ) -> int:
        node = frontier.shape.nodes[node_id]
        match frontier.verdict(node_id):
            case None:
                return 0
            case "run":
                self._run(run, definition, frontier.shape, node, now)
            case "skip":
                self._skip(run, node_id, f"{node.trigger_rule}: {_outcomes(workflow_run, node)}", now)
            case "block":
                culprit = next(up for up in node.depends_on if _is_bad(workflow_run, up))
                reason = f"{node.trigger_rule}: '{culprit}' {_how_it_ended(workflow_run, culprit)}"
                self._skip(run, node_id, reason, now, node_run(run.run_id, culprit))
        return 1

    def _run(self, run: Run, definition: Definition, shape: Shape, node: Node, now: Instant) -> None:
        state = self._state
        run_id = node_run(run.run_id, node.id)
        attempt = state.workflow_runs[run.run_id].attempts.get(node.id, 0) + 1
        try:
            scope = node_scope(state, run, definition, node.id)
            if node.condition is not None and not expression_of(node.condition).holds(scope):
                self._skip(run, node.id, f"condition: {node.condition}", now)
                return
            spec = node_spec(definition.spec, node)
            if spec.fan_out is None:
                spec = filled(spec, scope)
        except Unusable as error:
            self._fail(run, run_id, attempt, str(error), now)
            return
        self._dispatch.queue(
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

    def _cancel(self, run: Run, workflow_run: WorkflowRunState, now: Instant) -> None:
        """Stop the nodes that run; once they have ended, cancel those that have not begun, and the run itself."""
        reason = "its wave has timed out" if run.timed_out else "its wave is cancelled"
        active = self._decisions.parts_of(run)
        for part in active:
            if not part.cancelling:
                self._dispatch.cancel(part, reason, now, at_once=run.at_once)
        if any(part.run_id in self._state.runs for part in active):
            return
        definition = self._dispatch.definition(run)
        if definition is not None and definition.shape is not None:
            for node in definition.shape.nodes:
                if node not in workflow_run.nodes:
                    self._emit(
                        RunCancelled(
                            run_id=node_run(run.run_id, node),
                            at=now,
                            reason=reason,
                            version=run.version,
                            scheduled=run.scheduled,
                            parent=run.run_id,
                            epoch=run.epoch,
                        ),
                        now,
                    )
        elif not self._definitions.is_gone(run.job_id, run.version):
            return
        if run.timed_out:
            ended: RunEvent = RunClosed(
                run_id=run.run_id, at=now, succeeded=False, timed_out=True, reason=_TIMED_OUT
            )
        else:
            ended = RunCancelled(run_id=run.run_id, at=now, reason="cancelled", attempt=run.attempt)
        self._emit(ended, now)

    def _close(self, run: Run, workflow_run: WorkflowRunState, shape: Shape, now: Instant) -> None:
        """The leaves decide: a failure that a later node has dealt with is not one of the whole run."""
        failed = any(workflow_run.nodes[leaf].outcome in ("failed", "blocked") for leaf in shape.leaves)
        culprits = [node for node in shape.nodes if workflow_run.nodes[node].outcome == "failed"]
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


def _is_bad(workflow_run: WorkflowRunState, node: str) -> bool:
    end = workflow_run.nodes.get(node)
    return end is not None and end.outcome in ("failed", "blocked")


def _how_it_ended(workflow_run: WorkflowRunState, node: str) -> str:
    end = workflow_run.nodes[node]
    if end.outcome == "blocked":
        return "did not run"
    return {"TIMED_OUT": "timed out", "CANCELLED": "was cancelled"}.get(end.status, "failed")


def _outcomes(workflow_run: WorkflowRunState, node: Node) -> str:
    known = [f"'{up}' {workflow_run.nodes[up].outcome}" for up in node.depends_on if up in workflow_run.nodes]
    return ", ".join(known[:_NAMED]) + (", …" if len(known) > _NAMED else "")
