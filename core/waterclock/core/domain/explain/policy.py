"""A definition's rules in words."""

from waterclock.proto.spec import JobSpec, Schedule


def policy(spec: JobSpec) -> str:
    parts = [when(spec.schedule), f"overlap {spec.overlap}"]
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
