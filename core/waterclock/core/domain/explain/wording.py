"""Events and a definition's rules in words, for people who ask why."""

from typing import assert_never

from waterclock.core.domain.instants import SECOND, rfc3339
from waterclock.proto.events import (
    BackfillEnded,
    BackfillRequested,
    BackfillSteered,
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    DependentChanged,
    Instant,
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    NodeCleared,
    NodeMarked,
    NoticesDelivered,
    Outcome,
    OutcomeRejected,
    RerunRequested,
    RunCancelled,
    RunCancelRequested,
    RunClosed,
    RunEvent,
    RunFailed,
    RunLost,
    RunOpened,
    RunProgressed,
    RunQueued,
    RunReported,
    RunRequested,
    RunRetryRequested,
    RunReturned,
    RunSkipped,
    RunsMissed,
    RunSnoozed,
    RunStarted,
    RunSucceeded,
    RunTimedOut,
    RunWaiting,
    ScheduleEnded,
    SkipRequested,
)
from waterclock.proto.spec import JobSpec, Schedule


def policy(spec: JobSpec) -> str:
    is_asked_for = spec.schedule.schedule_type == "DEPENDENT" and not spec.dependencies
    parts = ["when somebody asks for it" if is_asked_for else when(spec.schedule), f"overlap {spec.overlap}"]
    if spec.schedule.schedule_type in ("CRON", "INTERVAL"):
        parts.append(f"catch-up {spec.catch_up.policy} within {spec.catch_up.window_seconds:g} s")
    if spec.max_retries:
        retry = spec.retry
        parts.append(
            f"{spec.max_retries} retries after {retry.initial_seconds:g} s × {retry.factor:g},"
            f" at most {retry.max_seconds:g} s"
        )
    if spec.timeout_seconds is not None:
        parts.append(f"timeout {spec.timeout_seconds:g} s")
    if spec.start_deadline_seconds is not None:
        parts.append(f"to be started within {spec.start_deadline_seconds:g} s")
    if spec.delivery == "exactly_once":
        parts.append("exactly once")
    return "; ".join(parts)


def when(schedule: Schedule) -> str:
    match schedule.schedule_type:
        case "CRON":
            return f"cron {' | '.join(schedule.cron_expression)} in {schedule.timezone}"
        case "INTERVAL":
            return f"every {schedule.interval_seconds or 0:g} s"
        case "FUTURE":
            time = schedule.schedule_time
            return "once" if time is None else f"once, at {time.isoformat().replace('+00:00', 'Z')}"
        case "IMMEDIATE":
            return "once, at its creation"
        case "DEPENDENT":
            return "after its dependencies"


_TRIGGERS = {
    "schedule": "by its schedule",
    "catch_up": "by its schedule, late, as its catch-up policy says",
    "now": "because somebody asked for it",
    "backfill": "by a backfill",
    "dependency": "because what it waits for has ended",
    "workflow": "by its workflow",
    "fan_out": "as a member of a fan-out",
}


def moment(at: Instant) -> str:
    """To the millisecond; in whole seconds where it is one."""
    return rfc3339(at - at % 1000).replace("000Z", "Z") if at % SECOND else rfc3339(at)


def behind(event: RunQueued) -> str:
    """How far behind the system was when it queued a run; "" where that delayed nothing."""
    if event.behind_ms == 0:
        return "all slots for its work were taken"
    if event.behind_ms is None:
        return ""
    slowed = ", callers were slowed down" if event.slowed else ""
    return f"the system was {span(event.behind_ms * 1000)} behind{slowed}"


def span(microseconds: int) -> str:
    seconds = microseconds / SECOND
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = int(seconds) // 60
    if minutes < 120:
        return f"{minutes} min {int(seconds) % 60} s"
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes < 2880
        else f"{minutes // 1440} d {minutes // 60 % 24} h"
    )


def run_event(event: RunEvent) -> str:
    match event:
        case RunRequested():
            return f"{_somebody(event.actor)} asked for a run of version {event.version}"
        case RunQueued():
            late = (event.due - event.scheduled) / SECOND
            jitter = f", due {late:.3g} s later by jitter" if late > 0 and event.attempt == 1 else ""
            again = " again" if event.again or event.attempt > 1 else ""
            return (
                f"queued{again} as attempt {event.attempt} by version {event.version}, {_TRIGGERS[event.trigger]}, "
                f"for {moment(event.scheduled)}{jitter}; queue {event.queue}, {event.tier}, priority {event.priority}"
                + (f", needs a worker that serves {event.handler}" if event.handler else "")
                + (f"; {late_by}" if (late_by := behind(event)) else "")
            )
        case RunWaiting():
            return f"must wait: {event.reason}"
        case RunSkipped():
            return f"skipped: {event.reason}" + (f" ({event.because_of})" if event.because_of else "")
        case RunsMissed():
            many = (
                f"{event.count} fires until {moment(event.until)} were" if event.count > 1 else "the fire was"
            )
            return f"{many} missed: {event.reason}"
        case RunStarted():
            return f"attempt {event.attempt} started on {event.executor_id}"
        case RunSucceeded():
            return f"{_attempt(event)} succeeded on {event.executor_id} after {_took(event)}"
        case RunFailed():
            return f"{_attempt(event)} failed after {_took(event)}: {event.reason}{_then(event)}"
        case RunTimedOut():
            return f"{_attempt(event)} timed out after {_took(event)}: {event.reason}{_then(event)}"
        case RunSnoozed():
            return (
                f"{_attempt(event)} asked to be called again at {moment(event.until)}{_because(event.reason)}"
            )
        case RunReturned():
            return f"{event.executor_id} handed {_attempt(event)} back; it does not count{_because(event.reason)}"
        case RunCancelled():
            return f"cancelled{_because(event.reason)}"
        case RunLost():
            who, end = (
                event.executor_id or "its executor",
                "given up" if event.dead else "it will be run again",
            )
            return f"{who} died with it (crash {event.crash_count}); {end}{_because(event.reason)}"
        case RunCancelRequested():
            return f"{_somebody(event.actor)} asked to stop it{_because(event.reason)}"
        case RunRetryRequested():
            return f"{_somebody(event.actor)} asked for another attempt after attempt {event.attempt}"
        case SkipRequested():
            return (
                f"{_somebody(event.actor)} asked to leave out {moment(event.scheduled)}{_because(event.note)}"
            )
        case BackfillRequested():
            return f"{_somebody(event.actor)} asked for a backfill of {len(event.fires)} fires"
        case BackfillSteered():
            return f"{_somebody(event.actor)} asked to {event.action} the backfill"
        case BackfillEnded():
            return f"the backfill ended: {event.succeeded} succeeded, {event.failed} failed, {event.left_out} left out"
        case OutcomeRejected():
            return (
                f"a late outcome ({event.outcome}) of {event.executor_id} was rejected: its token {event.fencing_token}"
                f" is older than {event.current_token}"
            )
        case RunOpened():
            parts = "nodes" if event.kind == "wave" else "members"
            epoch = "" if event.epoch is None else f" of epoch {event.epoch}"
            return (
                f"opened{epoch} by version {event.version}, {_TRIGGERS[event.trigger]}: its {parts} run now"
            )
        case RunProgressed():
            return f"{event.done} of {event.total} members done, {event.failed} failed"
        case RunReported():
            return f"attempt {event.attempt} is {event.done:.0%} done{_because(event.note)}"
        case RunClosed(timed_out=True):
            return f"stopped{_because(event.reason)}"
        case RunClosed():
            return (
                f"all its parts have ended, {'well' if event.succeeded else 'badly'}{_because(event.reason)}"
            )
        case RerunRequested():
            return f"{_somebody(event.actor)} asked to run {', '.join(event.cleared)} again{_because(event.note)}"
        case NodeCleared():
            return f"cleared, to be decided again{_because(event.reason)}"
        case NodeMarked():
            outcome = "succeeded" if event.succeeded else "skipped"
            return f"{_somebody(event.actor)} marked it as {outcome}{_because(event.note)}"
        case DependenciesChanged():
            return f"waits for {', '.join(event.on)}" if event.on else "waits for no other job any more"
        case DependentChanged():
            return f"{event.dependent} {'waits' if event.waits else 'no longer waits'} for it"
        case DependencyCompleted():
            return f"{event.dependency}, which it waits for, has completed"
        case DependenciesUsed():
            return "all that it waited for has completed"
        case NoticesDelivered():
            return "those who wait for it were told"
        case ScheduleEnded():
            return f"the schedule ended: {event.reason}"
        case _:
            assert_never(event)


def job_event(event: JobEvent, version: int) -> str:
    who = _somebody(event.actor)
    match event:
        case JobCreated():
            return f"{who} defined the job (version {version})"
        case JobUpdated():
            return f"{who} changed the job (version {version})"
        case JobPaused():
            return f"{who} paused the job (version {version}){_because(event.note)}"
        case JobResumed():
            missed = "" if event.missed_since is None else ", with what was missed"
            return f"{who} resumed the job (version {version}){missed}"
        case JobCancelled():
            return f"{who} cancelled the job (version {version}){_because(event.note)}"
        case _:
            assert_never(event)


def _then(event: RunFailed | RunTimedOut) -> str:
    return (
        "; no attempts are left"
        if event.retry_at is None
        else f"; to be tried again at {moment(event.retry_at)}"
    )


def _attempt(event: Outcome) -> str:
    return f"attempt {event.attempt}"


def _took(event: Outcome) -> str:
    lost = f"; its output was lost: {event.log_lost}" if event.log_lost else ""
    return f"{(event.at - event.started) / SECOND:.3f} s{lost}"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _somebody(actor: str) -> str:
    return actor or "somebody"
