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
    return wrong + _check_dependents(world) + _check_notices(world)


def _check_dependents(world: World) -> list[str]:
    """Once all notices have come, who is told is who waits."""
    assert world.owner is not None
    state = world.owner.state
    told = {(job, dependent) for job, known in state.notices.dependents.items() for dependent in known}
    wait = {(job, dependent) for dependent, on in state.dependencies.items() for job in on.on}
    return [f"{dependent} is told of {job}, and does not wait for it" for job, dependent in told - wait] + [
        f"{dependent} waits for {job}, and is not told of it" for job, dependent in wait - told
    ]


def _check_notices(world: World) -> list[str]:
    rows = Rows()
    queued: dict[str, RunQueued | RunOpened] = {}
    past: dict[str, str] = {}
    """The newest success of each job without times of its own."""
    waiting: dict[str, set[str]] = {}
    versions: dict[tuple[str, str], int] = {}
    """By job and dependent, the newest definition that said whether it waits."""
    owed: dict[tuple[str, str], set[str]] = {}
    excused: dict[tuple[str, str], set[str]] = {}
    """What one who has left may be told all the same: the owner had not read that it left. It does not listen."""
    told: dict[tuple[str, str], set[str]] = {}
    events = [event for frame in world.runs for event in frame.events]
    for place, event in enumerate(events):
        before = rows.runs.get(event.run_id)
        ended_before = -1 if before is None else before.ended
        rows.fold(place, event)
        match event:
            case DependentChanged():
                pair = event.run_id, event.dependent
                if event.version > versions.get(pair, 0):
                    versions[pair] = event.version
                    if event.waits:
                        waiting.setdefault(event.run_id, set()).add(event.dependent)
                        if event.known and event.run_id in past:
                            owed.setdefault(pair, set()).add(past[event.run_id])
                    else:
                        waiting.setdefault(event.run_id, set()).discard(event.dependent)
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
            job_id = job_of(event.run_id)
            for dependent in waiting.get(job_id, ()):
                owed.setdefault((job_id, dependent), set()).add(event.run_id)
            for other, dependent in versions:
                if other == job_id and dependent not in waiting[job_id]:
                    excused.setdefault((job_id, dependent), set()).add(event.run_id)
    wrong = []
    for pair in dict.fromkeys((*owed, *told)):
        must, did, may = owed.get(pair, set()), told.get(pair, set()), excused.get(pair, set())
        if not must <= did <= must | may:
            wrong.append(f"{pair[1]} was told of {did}, not {must}, of {pair[0]}")
    return wrong
