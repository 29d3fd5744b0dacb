"""A one-shot that nothing but room could have kept from running: queued straight away, and forgotten straight away when
it has succeeded.

Millions of them pass through, and each asks the same questions with the same answers. Here they are asked in a few
microseconds; whatever has another answer takes the way of all fires (due_fires.py) and of all outcomes (follow_ups.py),
which decide the same.
"""

from collections.abc import Mapping

from waterclock.core.domain.ids import run_id
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.definition_cache import Definitions
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.evolve import end_once
from waterclock.core.domain.partition.room import PARTS
from waterclock.proto.events import Instant, RunQueued, RunSucceeded
from waterclock.proto.spec import Handler


class OneShots:
    def __init__(
        self,
        decisions: Decisions,
        definitions: Definitions,
        dispatch: Dispatch,
        armed: Mapping[str, ArmedSchedule],
    ) -> None:
        """`armed`: by job."""
        self._ended: dict[tuple[str, int], tuple[int, int]] = {}
        """By route and priority: how many have ended that the room has not been told of, and how long they ran."""
        self._armed = armed
        self._decisions = decisions
        self._definitions = definitions
        self._dispatch = dispatch
        self._state = decisions.state

    def queue(self, item: ArmedSchedule, now: Instant) -> bool:
        """Queue its only run. False: there is more to decide about it, and nothing has been."""
        decisions, state, job_id, lane = self._decisions, self._state, item.job_id, item.lane
        if (
            lane.recurring
            or lane.route == PARTS
            or job_id in decisions.by_job
            or job_id in state.dependencies
        ):
            return False
        spec = item.spec
        if spec is None:
            spec = item.unpack()
        if spec.start_deadline_seconds is not None or spec.schedule.max_fires is not None:
            return False
        scheduled, due = item.scheduled, item.due
        name = run_id(job_id, scheduled)
        if name in state.skips:
            return False
        task = spec.task
        behind = self._dispatch.behind(spec, due, now) if decisions.late else None
        event = RunQueued(
            run_id=name,
            at=now,
            version=item.version,
            scheduled=scheduled,
            due=due,
            queue=spec.queue,
            tier=spec.tier,
            priority=spec.priority,
            handler=task.handler if type(task) is Handler else None,
            pause_after=spec.pause_on_failure,
            once=True,
            behind_ms=behind,
            slowed=bool(behind) and decisions.room.saturated,
            parcel=decisions.open.parcels.add(name, spec, lane.route, now, decisions.room),
            exact=spec.priority > 0 and decisions.room.has_exact_lines(lane.route),
        )
        item.after = scheduled
        self._definitions.remember_plain(job_id, item.version, spec)
        decisions.begin(event, spec, job_id, lane.route)
        return True

    def end(self, event: RunSucceeded) -> bool:
        """Forget its only run, which has succeeded. False: something may follow from that, and nothing has been done.
        The room is told by `leave_room`, of all together."""
        decisions = self._decisions
        run = self._state.runs.get(event.run_id)
        if run is None:
            return False
        job_id = run.job_id
        if (
            len(decisions.by_job[job_id]) > 1
            or job_id in self._armed
            or job_id in self._state.dependencies
            or not end_once(self._state, run, event)
        ):
            return False
        del decisions.by_job[job_id]
        if run.route:
            line = run.route, run.priority
            count, ran = self._ended.get(line, (0, 0))
            self._ended[line] = count + 1, ran + event.at - event.started
        self._definitions.forget(job_id, run.version)
        return True

    def leave_room(self) -> None:
        """For others."""
        for (route, priority), (count, ran) in self._ended.items():
            self._decisions.room.ended(route, ran, priority, count)
        self._ended.clear()
