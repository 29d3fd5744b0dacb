"""Values as people read them."""

from datetime import UTC, datetime
from typing import Any

from waterclock.proto.answers import Job
from waterclock.proto.spec import Argv, Artifact, Handler, Http, Shell, Task, Workflow


def ago(time: datetime | None, now: datetime | None = None) -> str:
    """`in 5m`, `3s ago`."""
    if time is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - time).total_seconds()
    span = duration(abs(seconds))
    return f"{span} ago" if seconds >= 0 else f"in {span}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"
    return f"{hours // 24}d"


def stamp(time: datetime | None) -> str:
    """In UTC, to the second."""
    return "" if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def schedule(job: Job) -> str:
    match job.schedule_type:
        case "CRON":
            cron = job.cron_expression
            text = cron if isinstance(cron, str) else " | ".join(cron or ())
            return text if job.timezone == "UTC" else f"{text} {job.timezone}"
        case "INTERVAL":
            return f"every {duration(job.interval_seconds)}"
        case "FUTURE":
            return f"at {stamp(job.schedule_time)}"
        case "DEPENDENT":
            return f"after {', '.join(job.dependencies)}"
        case "IMMEDIATE":
            return "now"


def task(what: Task) -> str:
    match what:
        case Shell():
            return what.command
        case Argv():
            import shlex

            return shlex.join(what.command)
        case Artifact():
            return " ".join((what.artifact[:19], *what.args))
        case Http():
            return f"{what.method} {what.url}"
        case Handler():
            return f"handler {what.handler}"
        case Workflow():
            return f"workflow of {len(what.nodes)} nodes"


def text(value: Any) -> str:
    return "" if value is None else str(value)
