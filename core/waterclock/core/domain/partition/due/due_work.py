"""What has come due, schedules and retries: decided at once where there is room, else put in line and decided in turn.

One call decides a slice of it, so that a pass stays short whatever is due.
"""

from waterclock.core.domain.ids import namespace_of
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.due.backlog import Backlog
from waterclock.core.domain.partition.due.schedules import Schedules
from waterclock.core.domain.partition.due.start_deadlines import StartDeadlines
from waterclock.core.domain.partition.due.timing_wheel import Wheel
from waterclock.core.domain.partition.room import lane
from waterclock.core.domain.partition.state import Run
from waterclock.proto.events import Instant

_TICK = 1000
_SLICE = 128
"""How much one pass decides: then others have their turn."""
_MOST_DUE = 4_096
"""How much of what came due one pass puts in line. It is little work, and only who is in line has a turn."""
_MOST_AHEAD = 20_000
"""How many one-shots may have been decided ahead of a job that has waited longer. Then that one goes, room or not: what
was decided ahead must be remembered."""
_FORCED = 16
"""How many go like that in a pass."""
_MOST_EXPIRED = 512
"""Of how many that wait one pass finds that they are too late."""
_ASK_AGAIN = 50_000
"""When to look again for room that others may have left, in microseconds."""


class DueWork:
    def __init__(
        self,
        decisions: Decisions,
        dispatch: Dispatch,
        wheel: Wheel[ArmedSchedule | Run],
        backlog: Backlog,
        schedules: Schedules,
        start_deadlines: StartDeadlines,
        now: Instant,
    ) -> None:
        self._decisions = decisions
        self._dispatch = dispatch
        self._wheel = wheel
        self._backlog = backlog
        self._schedules = schedules
        self._start_deadlines = start_deadlines
        self._looked_at = now

    def decide(self, now: Instant) -> bool:
        """Decide what is due and has room, a slice of it. Whether more could be decided at once."""
        room, backlog = self._decisions.room, self._backlog
        has_room = room.has
        if room.served is not backlog.served:
            backlog.regroup(room.served)
        self._looked_at = now
        at_once = _SLICE
        expiring = _MOST_EXPIRED
        for timer, item in self._wheel.take(now, _MOST_DUE):
            if isinstance(item, ArmedSchedule):
                if not self._schedules.is_armed(item):
                    continue
                if item.waiting:
                    if expiring:
                        expiring -= 1
                        self._schedules.expire(item, now)
                    else:
                        self._wheel.add(timer, item)
                elif at_once and not backlog and has_room(item.lane.route, item.lane.priority):
                    at_once -= 1
                    self._schedules.fire(item, now)
                else:
                    self._schedules.wait(item)
            elif item.parts:
                self._decisions.advance_later(item.run_id)
            elif self._has_timer(item) and item.due == timer:
                if not backlog and has_room(item.route, item.priority):
                    self._dispatch.queue_again(item, now)
                else:
                    backlog.add(item, lane(item.priority, True, namespace_of(item.job_id), item.route))
            else:
                self._start_deadlines.expire(item, now)
        for item in self._schedules.take_fresh():
            if at_once and not backlog and has_room(item.lane.route, item.lane.priority):
                at_once -= 1
                self._schedules.fire(item, now)
            else:
                self._schedules.wait(item)
        self._decisions.late = bool(backlog)
        self._decisions.behind = 0
        more = False
        if backlog:
            self._decisions.behind = now - (self._late_since() or now)
            more = self._decide_waiting(now)
        left = self._wheel.next_due()
        return more or (left is not None and left <= now)

    def decided_until(self, now: Instant) -> tuple[Instant, int]:
        """All that was due up to this instant is decided; and of what is due at the next, all up to this version."""
        decided = min(now // _TICK * _TICK, self._schedules.near.loaded_until - 1)
        for undecided in (self._backlog.oldest_due, self._wheel.next_due()):
            if undecided is not None and undecided <= decided:
                decided = undecided - 1
        return decided, self._decided_versions(decided + 1, now)

    def _decided_versions(self, at: Instant, now: Instant) -> int:
        """Of what is due at an instant, and nothing undecided before it. A crowd of one instant is decided in the order
        of definitions, about: so what was decided of it need not be remembered one by one."""
        next_due = self._wheel.next_due()
        if at > now or (next_due is not None and next_due <= at):
            return 0
        oldest, unread = self._backlog.oldest, self._schedules.near.unread_version(at)
        waiting = [] if oldest is None or oldest[0] > at else [oldest[1]]
        versions = waiting if unread is None else [*waiting, unread]
        return max(0, min(versions, default=0) - 1)

    def next_look(self) -> Instant | None:
        """When there may be something to decide."""
        due = self._wheel.next_due()
        if self._backlog or self._decisions.without_room:
            again = self._looked_at + _ASK_AGAIN
            return again if due is None else min(due, again)
        return due

    def lag(self, now: Instant) -> int:
        due = self._wheel.next_due()
        first = min(now if due is None else due, self._schedules.near.loaded_until)
        return max(0, now - (self._late_since() or now), now - first)

    def waiting_for_slots(self, *, recurring: bool) -> int:
        """How many schedules are due and wait for slow work to end, or for executors."""
        room = self._decisions.room
        return self._backlog.count_on(room.waits_for_slots, recurring=recurring)

    def oldest(self) -> Instant | None:
        """When the first was due of what is not decided."""
        waits, due = self._backlog.waits_since, self._wheel.next_due()
        if waits is None or due is None:
            return due if waits is None else waits
        return min(waits, due)

    def _decide_waiting(self, now: Instant) -> bool:
        left = _SLICE
        for item in self._backlog.take(_SLICE, self._decisions.room.has):
            left -= 1
            if isinstance(item, ArmedSchedule):
                self._schedules.fire(item, now)
            elif self._has_timer(item):
                self._dispatch.queue_again(item, now)
        near = self._schedules.near
        if len(self._decisions.state.ahead) > _MOST_AHEAD + len(near) + near.unread:
            for _ in range(_FORCED):
                oldest = self._backlog.take_oldest()
                if oldest is not None:
                    self._schedules.fire(oldest, now)
        return left <= 0

    def _has_timer(self, run: Run) -> bool:
        return self._decisions.state.runs.get(run.run_id) is run and run.waits == "timer"

    def _late_since(self) -> Instant | None:
        """Since when the first waits that does not wait for slow work to end."""
        room = self._decisions.room
        return self._backlog.oldest_on(lambda route: not room.waits_for_slots(route))
