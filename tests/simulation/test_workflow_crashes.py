"""The owner killed at every step of a diamond: each node runs exactly once, and the wave ends as it should."""

import random
from collections import Counter

import pytest

from simulation.executors import Executors
from simulation.test_simulation import judge, settle
from simulation.workflows import FILE, LINES, check_workflows, rows_of
from simulation.world import EPOCH, World
from waterclock.proto.events import JobCreated, RunQueued
from waterclock.proto.spec import FanOut, JobSpec, Node, Shell, Workflow

TRUE = Shell(command="true")
DIAMOND = Workflow(
    nodes=(
        Node(id="a", task=TRUE),
        Node(id="b", task=TRUE, depends_on=("a",)),
        Node(
            id="c", task=Shell(command="echo {{ item }}"), depends_on=("a",), map=FanOut(over={"from": "a"})
        ),
        Node(id="d", task=TRUE, depends_on=("b", "c")),
    )
)
FILE_OF_LINES = JobSpec(
    name="lines",
    task=Shell(command="echo {{ item }}"),
    fan_out=FanOut(over={"lines": FILE}, max_concurrency=2),
)


class Careful(Executors):
    """Executors that never fail and always acknowledge."""

    def drain(self) -> bool:
        self.world.rng = random.Random(1)
        return super().drain()


def one_life(spec: JobSpec, fuse: int | None) -> World:
    world = World(random.Random(0), crash_chance=0.0, fuse=fuse, files={FILE: LINES})
    world.define(JobCreated(job_id="job", spec=spec, at=EPOCH, created_at=EPOCH))
    executors = Careful(world)
    settle(world, executors)
    assert judge(world).clean
    assert not check_workflows(world)
    return world


@pytest.mark.parametrize(
    ("spec", "parts"),
    [(JobSpec(name="diamond", task=DIAMOND), 6), (FILE_OF_LINES, 7)],
    ids=["diamond", "file of lines"],
)
def test_the_owner_dies_at_every_step(spec: JobSpec, parts: int) -> None:
    died = 0
    for fuse in range(1, 10_000):
        world = one_life(spec, fuse)
        events = [event for frame in world.runs for event in frame.events]
        queued = Counter(event.run_id for event in events if isinstance(event, RunQueued))
        assert len(queued) == parts
        assert set(queued.values()) == {1}, f"crash at step {fuse}: {queued}"
        assert {run.status for run in rows_of(world).runs.values()} == {"SUCCESS"}
        died += world.crashes
        if world.crashes == 0:
            break
    assert died > 20
