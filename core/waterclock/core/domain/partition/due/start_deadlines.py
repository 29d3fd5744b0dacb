"""Runs that have not started by their start deadline: their owner ends them as missed.

A timer for each that has one, and none for the others. What waits for its turn is missed to the moment. What is queued
an executor may have begun: it is left alone for a little longer (run/deadlines.py says why that is enough). Should a
start stand in the log before the decision all the same, the decision is void, and the work goes on; so its message is
taken out of the queue only when the decision has been read back. Until then, and for good if that is cut off by a
crash, it does no harm: who takes it finds it too late.
"""

from collections.abc import Callable

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.decisions import Decisions
from waterclock.core.domain.partition.dispatch import Dispatch
from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.due.timing_wheel import Wheel
from waterclock.core.domain.partition.room import no_executor
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.run.deadlines import START_GRACE, shown_trigger
from waterclock.proto.events import Instant, RunEvent, RunsMissed


class StartDeadlines:
    def __init__(
        self,
        decisions: Decisions,
        dispatch: Dispatch,
        wheel: Wheel[ArmedSchedule | Run],
        emit: Callable[[RunEvent, Instant], None],
    ) -> None:
        self._decisions = decisions
        self._dispatch = dispatch
        self._wheel = wheel
        self._emit = emit
        self._unconfirmed: dict[str, Run] = {}
        """Missed while queued; that has not been read back."""
        decisions.watch_start = self.watch

    def watch(self, run: Run) -> None:
        """Look at it again when it should have started, if it has to by then."""
        expires = _expires(run)
        if expires is not None:
            self._wheel.add(expires + 1, run)

    def expire(self, run: Run, now: Instant) -> None:
        """A timer of it has run out: end it, unless it has started, ended, or been queued anew since."""
        expires = _expires(run)
        if expires is None or now <= expires or self._decisions.state.runs.get(run.run_id) is not run:
            return
        reason = self._reason(run)
        if run.status == "QUEUED":
            self._unconfirmed[run.run_id] = run
        self._emit(
            RunsMissed(
                run_id=run.run_id,
                at=now,
                version=run.version,
                scheduled=run.scheduled,
                until=run.scheduled,
                count=1,
                reason=reason,
                trigger=shown_trigger(run.trigger),
                attempt=run.attempt if run.status == "QUEUED" else None,
            ),
            now,
        )

    def confirm(self, run_id: str) -> None:
        """What was decided about a run has been read back: nobody had begun it."""
        run = self._unconfirmed.pop(run_id, None)
        if run is not None and run_id not in self._decisions.state.runs:  # nobody has asked for it again
            self._dispatch.take_back(run, "its start deadline passed")

    @property
    def has_unconfirmed(self) -> bool:
        return bool(self._unconfirmed)

    def _reason(self, run: Run) -> str:
        assert run.start_by is not None
        passed = f"start deadline of {(run.start_by - run.due) / SECOND:g} s passed"
        if run.status == "QUEUED":
            return f"{passed} in the queue: {no_executor(self._decisions.room, run.route)}"
        match run.waits:
            case "overlap":
                return f"{passed} while it waited for the run before it"
            case "dependency":
                return f"{passed} while it waited for the jobs it depends on"
            case _:
                return f"{passed}: {no_executor(self._decisions.room, run.route)}"


def _expires(run: Run) -> Instant | None:
    """The last moment at which it may still start, as far as its owner can know that it has not."""
    if run.start_by is None or run.parts or run.cancelling:
        return None
    if run.status == "QUEUED":
        return run.start_by + START_GRACE
    return run.start_by if run.status == "WAITING" else None
