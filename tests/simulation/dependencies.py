"""Checks jobs that wait for others: everybody who waited was told of each completion, and nothing is left over."""

from simulation.workflows import Rows
from simulation.world import World
from waterclock.core.domain.ids import job_of, part_path
from waterclock.core.domain.partition.dependency_state import missing_dependencies
from waterclock.proto.events import DependencyCompleted, DependentChanged, RunOpened, RunQueued


def check_dependencies(world: World) -> list[str]:
    """All that is wrong in a life that has settled."""
    assert world.owner is not None
    state = world.owner.state
    wrong = [f"a notice to {notice.to} was never sent" for notice in state.notices.outbox.values()]
    for job_id, job in state.dependencies.items():
        if (
            not job.paused
            and job.completed
            and not job.same_time
            and not missing_dependencies(state.dependencies, job_id, None)
        ):
            spec = world.jobs[job.version - 1].spec
            if spec.schedule.schedule_type == "DEPENDENT":
                wrong.append(f"{job_id} has all it waits for, and does not run")
    return wrong + _check_notices(world)


def _check_notices(world: World) -> list[str]:
    rows = Rows()
    queued: dict[str, RunQueued | RunOpened] = {}
    past: dict[str, str] = {}
    """The newest success of each job without times of its own."""
    waiting: dict[str, dict[str, int]] = {}
    owed: dict[tuple[str, str], set[str]] = {}
    told: dict[tuple[str, str], set[str]] = {}
    events = [event for frame in world.runs for event in frame.events]
    for place, event in enumerate(events):
        before = rows.runs.get(event.run_id)
        ended_before = -1 if before is None else before.ended
        rows.fold(place, event)
        match event:
            case DependentChanged():
                listening = waiting.setdefault(event.run_id, {})
                if event.version >= listening.get(event.dependent, 0):
                    if event.waits:
                        listening[event.dependent] = event.version
                        if event.known and event.run_id in past:
                            owed.setdefault((event.run_id, event.dependent), set()).add(past[event.run_id])
                    else:
                        listening.pop(event.dependent, None)
            case DependencyCompleted():
                told.setdefault((event.dependency, event.run_id), set()).add(event.of)
            case RunQueued() | RunOpened():
                queued[event.run_id] = event
            case _:
                pass
        run = rows.runs[event.run_id]
        begun = queued.get(event.run_id)
        counts = not part_path(event.run_id) and (begun is None or begun.trigger != "backfill")
        if run.ended > ended_before and run.status == "SUCCESS" and counts:
            if begun is not None and begun.once:
                past[job_of(event.run_id)] = event.run_id
            for dependent in waiting.get(job_of(event.run_id), ()):
                owed.setdefault((job_of(event.run_id), dependent), set()).add(event.run_id)
    return [
        f"{dependent} was told of {told.get((job, dependent), set())}, not {runs}, of {job}"
        for (job, dependent), runs in owed.items()
        if told.get((job, dependent), set()) != runs
    ]
