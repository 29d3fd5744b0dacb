"""Workflows and fan-outs in the simulation: random ones, users who interfere with them, and a check of the outcome."""

import random
from collections import defaultdict
from dataclasses import dataclass, field

from msgspec.structs import replace

from simulation.world import World
from waterclock.core.domain.ids import job_of, node_run, part_path
from waterclock.core.domain.run.states import attempt_used_up, is_stale, transition
from waterclock.core.domain.workflow.shape import shape_of
from waterclock.core.domain.workflow.trigger_rules import RULES, Outcome, Upstream, decide_node
from waterclock.proto.events import (
    NodeCleared,
    NodeMarked,
    NodeStands,
    RerunRequested,
    RunClosed,
    RunEvent,
    RunOpened,
    RunQueued,
    RunSkipped,
    RunStarted,
)
from waterclock.proto.spec import FanOut, Handler, Node, Shell, Task, Workflow
from waterclock.proto.verdicts import TERMINAL, RunStatus

FILE = "sha256:" + "0" * 64
LINES = [f"line {number}" for number in range(7)]


def random_task(rng: random.Random) -> tuple[Task, FanOut | None]:
    chance = rng.random()
    if chance < 0.3:
        return random_workflow(rng), None
    if chance < 0.4:
        return Shell(command="echo {{ item }}"), _random_map(rng, ())
    return Shell(command="true"), None


def by_handlers(task: Task) -> Task:
    """The same, for executors that take parcels."""
    if isinstance(task, Workflow):
        nodes = [replace(node, task=Handler(handler="simulated")) for node in task.nodes]
        return Workflow(nodes=tuple(nodes))
    return Handler(handler="simulated")


def random_workflow(rng: random.Random) -> Workflow:
    nodes: list[Node] = []
    for place in range(rng.randint(1, 6)):
        before = [node.id for node in nodes]
        upstream = tuple(sorted(rng.sample(before, min(len(before), rng.randint(0, 3)))))
        readable = [node.id for node in nodes if node.id in upstream and node.map is None]
        nodes.append(
            Node(
                id=f"n{place}",
                task=Shell(command="echo {{ item }}"),
                depends_on=upstream,
                trigger_rule=rng.choice(["all_success", "all_success", *RULES])
                if upstream
                else "all_success",
                condition=f"nodes.{readable[0]}.status != 'SUCCESS'"
                if readable and rng.random() < 0.2
                else None,
                map=_random_map(rng, readable),
            )
            if rng.random() < 0.3
            else Node(
                id=f"n{place}",
                task=Shell(command="echo {{ scheduled_time }}"),
                depends_on=upstream,
                trigger_rule=rng.choice(["all_success", "all_success", *RULES])
                if upstream
                else "all_success",
                max_retries=2,
            )
        )
    return Workflow(nodes=tuple(nodes))


def _random_map(rng: random.Random, readable: tuple[str, ...] | list[str]) -> FanOut:
    over: list[object] = [["a", "b"], {"range": rng.randint(0, 5)}, {"lines": FILE}]
    over += [{"from": node} for node in readable]
    return FanOut(
        over=rng.choice(over),
        max_concurrency=rng.choice([1, 2, 100]),
        tolerated_failures="50%" if rng.random() < 0.3 else rng.randint(0, 1),
    )


@dataclass
class _Run:
    status: RunStatus | None = None
    attempt: int = 0
    executor_id: str | None = None
    parent: str | None = None
    epoch: int | None = None
    version: int = 0
    scheduled: int = 0
    blocked: bool = False
    begun: int = -1
    """Where in the log it was decided to run, last."""
    ended: int = -1
    output: object = None
    meddled: bool = False
    opened: RunOpened | None = None


@dataclass
class Rows:
    """What a projector makes of the log, for those who need to know."""

    runs: dict[str, _Run] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)

    def fold(self, place: int, event: RunEvent) -> None:
        run = self.runs.setdefault(event.run_id, _Run())
        if is_stale(run.attempt, run.executor_id, event):
            return
        status = transition(run.status, event)
        if status is None:
            run.attempt = attempt_used_up(run.status, run.attempt, event) or run.attempt
            return
        run.status = status
        match event:
            case RunQueued() | RunOpened():
                run.attempt, run.executor_id, run.begun = event.attempt, None, place
                run.parent, run.epoch, run.version = event.parent, event.epoch, event.version
                run.scheduled, run.blocked = event.scheduled, False
                if isinstance(event, RunOpened):
                    run.opened = event
            case RunSkipped():
                run.parent, run.blocked = event.parent, event.blocked
            case RunStarted():
                run.executor_id = event.executor_id
            case NodeMarked():
                run.parent, run.meddled = event.parent, True
                self.marked.add(event.parent)
            case RerunRequested():
                self.marked.add(event.run_id)
                run.begun = -1
            case NodeCleared():
                run.begun = -1
            case RunClosed():
                run.output = event.output
            case _:
                pass
        if status in TERMINAL:
            run.ended = place


def rows_of(world: World) -> Rows:
    rows = Rows()
    events = [event for frame in world.runs for event in frame.events]
    for place, event in enumerate(events):
        rows.fold(place, event)
    return rows


def interfere(world: World) -> None:
    """Run a wave again from a node, or say how a node ended."""
    rows = rows_of(world)
    world.now += 1
    waves = [run_id for run_id, run in rows.runs.items() if run.opened and run.opened.kind == "wave"]
    if not waves:
        return
    run_id = world.rng.choice(waves)
    wave = rows.runs[run_id]
    task = world.jobs[wave.version - 1].spec.task
    assert isinstance(task, Workflow)
    shape = shape_of(task)
    chosen = world.rng.choice(list(shape.nodes))
    if wave.status in TERMINAL:
        again = shape.descendants([chosen])
        again |= shape.descendants(node for node in shape.nodes if node_run(run_id, node) not in rows.runs)
        stand = {
            node: NodeStands(outcome=_outcome(rows.runs[node_run(run_id, node)]), output=[1, 2])
            for node in shape.nodes
            if node not in again
        }
        attempts = {
            node: rows.runs[node_run(run_id, node)].attempt if node_run(run_id, node) in rows.runs else 0
            for node in sorted(again)
        }
        world.report(
            RerunRequested(
                run_id=run_id,
                at=world.now,
                version=wave.version,
                scheduled=wave.scheduled,
                epoch=wave.epoch,
                nodes=stand,
                cleared=attempts,
            )
        )
    elif wave.status == "RUNNING":
        world.report(
            NodeMarked(
                run_id=node_run(run_id, chosen),
                at=world.now,
                version=wave.version,
                scheduled=wave.scheduled,
                succeeded=world.rng.random() < 0.5,
                parent=run_id,
            )
        )


def _outcome(run: _Run) -> Outcome:
    match run.status:
        case "SUCCESS":
            return "success"
        case "SKIPPED":
            return "blocked" if run.blocked else "skipped"
        case _:
            return "failed"


def check_workflows(world: World) -> list[str]:
    """All that is wrong with the waves and fan-outs of a life that has settled."""
    rows = rows_of(world)
    wrong: list[str] = []
    members: dict[str, list[str]] = defaultdict(list)
    for run_id, run in rows.runs.items():
        if run.parent is not None and part_path(run_id):
            members[run.parent].append(run_id)
    for run_id, run in rows.runs.items():
        if run.opened is None:
            continue
        if run.status not in TERMINAL:
            wrong.append(f"{run_id} is {run.status}")
        elif run.opened.kind == "wave":
            wrong += _check_workflow_run(world, rows, run_id, run)
        else:
            wrong += _check_fan_out(run_id, run, rows, members[run_id])
    wrong += _check_epochs(rows)
    wrong += _check_overlap(world, rows)
    return wrong


def _check_workflow_run(world: World, rows: Rows, run_id: str, wave: _Run) -> list[str]:
    task = world.jobs[wave.version - 1].spec.task
    assert isinstance(task, Workflow)
    wrong = []
    ends = {node.id: rows.runs.get(node_run(run_id, node.id)) for node in task.nodes}
    for node in task.nodes:
        run = ends[node.id]
        if run is None or run.status not in TERMINAL:
            wrong.append(f"{run_id}: node {node.id} is {run.status if run else 'unheard of'} after the end")
        elif run.ended > wave.ended:
            wrong.append(f"{run_id}: node {node.id} ended after the wave")
    if wrong or wave.status == "CANCELLED" or run_id in rows.marked:
        return wrong
    for node in task.nodes:
        run = ends[node.id]
        assert run is not None
        upstream = Upstream(total=len(node.depends_on))
        for other in node.depends_on:
            end = ends[other]
            assert end is not None
            upstream.count(_outcome(end))
        verdict = decide_node(node.trigger_rule, upstream)
        ran = run.begun >= 0
        if ran and verdict != "run":
            wrong.append(f"{run_id}: {node.id} ran, although {node.trigger_rule} says {verdict}: {upstream}")
        if not ran and verdict == "run" and node.condition is None and run.status != "CANCELLED":
            wrong.append(f"{run_id}: {node.id} did not run, although {node.trigger_rule} says so: {upstream}")
        if ran and node.trigger_rule in ("all_success", "all_done", "none_failed"):
            late = [other for other in node.depends_on if ends[other].ended > run.begun]  # type: ignore[union-attr]
            if late:
                wrong.append(f"{run_id}: {node.id} began before {late} had ended")
    shape = shape_of(task)
    leaves = [_outcome(ends[leaf]) for leaf in shape.leaves]  # type: ignore[arg-type]
    expected = "FAILED" if {"failed", "blocked"} & set(leaves) else "SUCCESS"
    if wave.status != expected:
        wrong.append(f"{run_id} is {wave.status}, its leaves are {leaves}")
    return wrong


def _check_fan_out(run_id: str, run: _Run, rows: Rows, members: list[str]) -> list[str]:
    if run.status == "CANCELLED" or run.meddled or not isinstance(run.output, dict):
        return []
    own = [member for member in members if _expanded_by(member) == run.attempt]
    states = [rows.runs[member].status for member in own]
    done, failed, total = states.count("SUCCESS"), len(states) - states.count("SUCCESS"), run.output["total"]
    wrong = []
    if (run.output["done"], run.output["failed"]) != (done, failed):
        wrong.append(f"{run_id} says {run.output}, but {done} are done and {failed} failed")
    if run.status == "SUCCESS" and len(own) != total:
        wrong.append(f"{run_id} has {len(own)} members of {total}")
    if any(rows.runs[member].ended > run.ended for member in own):
        wrong.append(f"{run_id} ended before its members")
    return wrong


def _expanded_by(member: str) -> int:
    """Which attempt of the fan-out a member is of."""
    return int(member.rpartition("~")[2].partition("-")[2] or 1)


def _check_epochs(rows: Rows) -> list[str]:
    """Each wave of a workflow has a number of its own."""
    numbers: dict[tuple[str, int], str] = {}
    wrong = []
    for run_id, run in rows.runs.items():
        if run.opened is None or run.opened.kind != "wave":
            continue
        key = (job_of(run_id), run.opened.epoch or 0)
        if not key[1] or key in numbers:
            wrong.append(f"{run_id} and {numbers.get(key)} are both wave {key[1]}")
        numbers[key] = run_id
    return wrong


def _check_overlap(world: World, rows: Rows) -> list[str]:
    """A wave begins when the others of its workflow have ended, whoever began it, unless the workflow allows more."""
    waves: dict[str, list[_Run]] = defaultdict(list)
    for run_id, run in rows.runs.items():
        if run.opened is not None and run.opened.kind == "wave" and run.opened.trigger != "backfill":
            waves[job_of(run_id)].append(run)
    return [
        f"wave {wave.epoch} of {job_id} began while wave {other.epoch} had not ended"
        for job_id, alike in waves.items()
        for wave in alike
        if world.jobs[wave.version - 1].spec.overlap not in ("allow", "terminate_previous")
        for other in alike
        if 0 <= other.begun < wave.begun < other.ended
    ]
