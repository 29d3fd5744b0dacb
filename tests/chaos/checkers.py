"""What must hold after every fault. Each checker reads a history and names every counter-example."""

from itertools import pairwise

from chaos.history import ENDED, Effect, Held, History, by_key

MOST_GROWTH_MB = 64.0
"""Beyond what a process had before: caches that fill, and what the allocator keeps."""


def lost(history: History) -> list[str]:
    """Every job whose acceptance was acknowledged has exactly one run, and that has ended well."""
    runs: dict[str, list[str]] = {}
    for outcome in history.outcomes:
        runs.setdefault(outcome.job_id, []).append(outcome.status)
    complaints = []
    for job in history.accepted():
        found = runs.get(job.job_id, [])
        if job.kind in ("interval", "cron"):
            bad = [status for status in found if status != "SUCCESS"]
            if bad or not found:
                complaints.append(f"{job.kind} job {job.job_id}: {len(found)} runs, {bad} among them")
        elif found != ["SUCCESS"]:
            complaints.append(f"{job.kind} job {job.job_id} was accepted, its runs are {found}")
    return complaints


def invented(history: History) -> list[str]:
    """No run of a job that nobody asked for."""
    asked = {job.job_id for job in history.submitted}
    return [
        f"{outcome.run_id} runs, nobody asked for it"
        for outcome in history.outcomes
        if outcome.job_id not in asked
    ]


def unended(history: History) -> list[str]:
    return [
        f"{outcome.run_id} is {outcome.status} though nothing goes on any more"
        for outcome in history.outcomes
        if outcome.status not in ENDED
    ]


def at_the_same_time(history: History) -> list[str]:
    """No two attempts of an exactly-once run at work at once."""
    by_run: dict[str, list[Held]] = {}
    for held in history.held:
        by_run.setdefault(held.run_id, []).append(held)
    complaints = []
    for run_id, attempts in by_run.items():
        attempts.sort(key=lambda held: held.began)
        for earlier, later in pairwise(attempts):
            if earlier.ended is None or later.began < earlier.ended:
                complaints.append(f"{run_id}: token {later.token} began while {earlier.token} was at work")
    return complaints


def tokens_that_fell(history: History) -> list[str]:
    """A later attempt of an exactly-once run never has a smaller fencing token."""
    greatest: dict[str, int] = {}
    complaints = []
    for held in sorted(history.held, key=lambda held: held.began):
        before = greatest.get(held.run_id, 0)
        if held.token <= before:
            complaints.append(f"{held.run_id}: token {held.token} came after {before}")
        greatest[held.run_id] = max(before, held.token)
    return complaints


def doubled(history: History) -> list[str]:
    """Of an exactly-once run the store has taken one effect, never two."""
    return [
        f"{key}: {len(taken)} effects"
        for key, effects in _exactly_once(history).items()
        if len(taken := [effect for effect in effects if effect.taken]) > 1
    ]


def effects_unlike_outcomes(history: History) -> list[str]:
    """A run that succeeded had its effect, and an effect that was taken belongs to a run that succeeded."""
    effects = by_key(effect for effect in history.effects if effect.taken)
    kinds = {job.job_id: job.kind for job in history.submitted}
    complaints = []
    for outcome in history.outcomes:
        if kinds.get(outcome.job_id, "command") == "command":
            continue
        done = outcome.status == "SUCCESS"
        if done != bool(effects.get(outcome.run_id)):
            complaints.append(
                f"{outcome.run_id}: {outcome.status}, effects {len(effects.get(outcome.run_id, []))}"
            )
    known = {outcome.run_id for outcome in history.outcomes}
    return complaints + [
        f"{key}: an effect of a run that nobody knows" for key in effects if key not in known
    ]


def audit_complaints(history: History) -> list[str]:
    return history.audit


def doors_disagree(history: History) -> list[str]:
    return history.disagreements


def left_behind(history: History) -> list[str]:
    left = history.leftovers
    counts = {
        "messages in the work queue": left.queued,
        "deliveries not acked": left.unacked,
        "leases of runs": left.leases,
        "slots in use": left.slots,
    }
    complaints = [f"{count} {what}" for what, count in counts.items() if count > 0]
    return complaints + [f"process {process}" for process in left.processes]


def grown(history: History) -> list[str]:
    return [
        f"{memory.process} grew from {memory.before_mb:.0f} to {memory.after_mb:.0f} MB"
        for memory in history.memory
        if memory.after_mb - memory.before_mb > MOST_GROWTH_MB
    ]


CHECKERS = (
    lost,
    invented,
    unended,
    at_the_same_time,
    tokens_that_fell,
    doubled,
    effects_unlike_outcomes,
    audit_complaints,
    doors_disagree,
    left_behind,
    grown,
)


def judge(history: History) -> dict[str, list[str]]:
    """The complaints of every checker that has any."""
    return {check.__name__: complaints for check in CHECKERS if (complaints := check(history))}


def run_again(history: History) -> int:
    """At-least-once runs that had their effect more than once: allowed, but counted."""
    often = by_key(effect for effect in history.effects if effect.kind != "exactly_once")
    return sum(1 for effects in often.values() if len(effects) > 1)


def _exactly_once(history: History) -> dict[str, list[Effect]]:
    return by_key(effect for effect in history.effects if effect.kind == "exactly_once")
