"""What to do with a fire while earlier runs of the same job have not ended. The only place that decides it.

A new policy is a name in `Overlap` (proto/policies.py), a case here, a row of the table in the unit test, and a line in
docs/schedules.md.
"""

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct

from waterclock.core.domain.partition.state import Run
from waterclock.proto.policies import Overlap
from waterclock.proto.verdicts import OverlapVerdict

QUEUE_LIMIT = 1000
"""How many fires `queue_all` keeps waiting; one more is skipped."""


class OverlapDecision(Struct, frozen=True, kw_only=True):
    """What becomes of this fire, and which runs to stop for it."""

    verdict: OverlapVerdict
    reason: str = ""
    because_of: str | None = None
    cancel: tuple[str, ...] = ()
    terminate: tuple[str, ...] = ()


QUEUE = OverlapDecision(verdict="queue")


def decide_overlap(
    policy: Overlap, active: Sequence[Run], *, caught_up: bool = False, requested: bool = False
) -> OverlapDecision:
    """`active`: the job's runs that have not ended, oldest first. `caught_up`: this fire was asked for by a catch-up of
    `all`, which waits its turn where `skip` would drop it. `requested`: it is no fire but a run that a user asked for,
    which no policy drops."""
    if not active:
        return QUEUE
    oldest = active[0].run_id
    waiting = [run for run in active if run.waits == "overlap"]
    match policy:
        case "allow":
            return QUEUE
        case "skip" if not (caught_up or requested):
            return OverlapDecision(
                verdict="skip", reason=f"overlap: {oldest} has not ended", because_of=oldest
            )
        case "queue_one" if waiting and not requested:
            return OverlapDecision(
                verdict="skip",
                reason=f"overlap: {waiting[0].run_id} waits already",
                because_of=waiting[0].run_id,
            )
        case "skip" | "queue_one" | "queue_all":
            if len(waiting) >= QUEUE_LIMIT:
                return OverlapDecision(
                    verdict="skip", reason=f"overlap: {QUEUE_LIMIT} runs wait already", because_of=oldest
                )
            return OverlapDecision(verdict="wait", reason=f"overlap: waits for {oldest}", because_of=oldest)
        case "cancel_previous":
            return OverlapDecision(
                verdict="wait",
                reason=f"overlap: waits until {oldest} is cancelled",
                because_of=oldest,
                cancel=tuple(run.run_id for run in active),
            )
        case "terminate_previous":
            return OverlapDecision(verdict="queue", terminate=tuple(run.run_id for run in active))
        case _:
            assert_never(policy)
