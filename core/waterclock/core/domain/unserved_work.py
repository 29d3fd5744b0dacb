"""Whether anybody could take the work of a queue, and if not, what is missing."""

from collections.abc import Collection

from waterclock.proto import names
from waterclock.proto.heartbeats import ExecutorHeartbeat


def missing_executor(
    queue: str, handler: str | None, tier: str, executors: Collection[ExecutorHeartbeat]
) -> str | None:
    """What no executor has that this work needs; None: one has it all, and takes it when a slot is free."""
    taking = [executor for executor in executors if executor.state == "running"]
    if not taking:
        return "no executor is running"
    of_queue = [executor for executor in taking if queue in executor.queues]
    if not of_queue:
        return f"no executor serves queue {queue}"
    of_tier = [executor for executor in of_queue if _takes(executor, tier)]
    if handler is None:
        return None if of_tier else f"no executor of queue {queue} takes tier {tier}"
    if any(handler in executor.handlers for executor in of_tier):
        return None
    if any(handler in executor.handlers for executor in of_queue):
        return f"no executor of queue {queue} that serves handler {handler} takes tier {tier}"
    return f"no executor of queue {queue} serves handler {handler}"


def _takes(executor: ExecutorHeartbeat, tier: str) -> bool:
    """An executor takes its own tier and the lighter ones."""
    if executor.tier not in names.TIERS or tier not in names.TIERS:
        return False
    return names.TIERS.index(tier) <= names.TIERS.index(executor.tier)
