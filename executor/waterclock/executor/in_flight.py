"""What this executor has in hand: every attempt from its delivery to the acknowledgement of its outcome."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Literal, assert_never

from msgspec import Struct

from waterclock.core.jetstream.messages import Delivery
from waterclock.core.runtime.clock import now_us
from waterclock.executor import attempt_record
from waterclock.executor.attempt_record import Attempt
from waterclock.executor.context import Progress
from waterclock.proto.work import WorkItem

CauseKind = Literal["cancelled", "timed_out", "handed_back", "fenced"]


class Cause(Struct, frozen=True, kw_only=True):
    """Why an attempt is stopped before its end."""

    kind: CauseKind
    reason: str
    grace: float = 0.0
    """Seconds between TERM and KILL."""


Interrupt = Callable[[Cause], object]


Key = tuple[str, int]


def key_of(item: WorkItem) -> Key:
    """What tells two pieces of work apart: an attempt that was handed back or snoozed is queued again as it was."""
    return item.run_id, item.queued


class Running:
    """One attempt in hand. Its lane's task owns it; others may only stop it or renew its delivery."""

    __slots__ = (
        "_interrupt",
        "_renew",
        "attempt",
        "cause",
        "cost",
        "delivery",
        "item",
        "key",
        "progress",
        "pulled",
        "silences",
        "task",
        "told",
    )

    def __init__(self, item: WorkItem, key: Key, delivery: Delivery, cost: int) -> None:
        self.item = item
        self.key = key
        self.delivery = delivery
        self.cost = cost
        self.pulled = now_us()
        self.silences = 0
        """Which silence of ours came before its delivery."""
        self.attempt: Attempt | None = None
        self.cause: Cause | None = None
        self.progress: Progress | None = None
        self.told: Progress | None = None
        """The progress that is in the log."""
        self.task: asyncio.Task[None] | None = None
        self._interrupt: Interrupt | None = None
        self._renew: Callable[[float], None] | None = None

    def stop(self, cause: Cause) -> None:
        """The first cause names the end; a later one can only hurry it."""
        if self.cause is None:
            self.cause = cause
        if self._interrupt is not None:
            self._interrupt(cause)

    def interruptible(self, interrupt: Interrupt) -> None:
        """From now on, stopping the attempt calls `interrupt`; at once if it was stopped before."""
        self._interrupt = interrupt
        if self.cause is not None:
            interrupt(self.cause)

    def on_renewal(self, renew: Callable[[float], None]) -> None:
        """Call `renew` with the seconds for which the attempt's lease may be relied on, whenever that changes."""
        self._renew = renew

    def renewed(self, seconds: float) -> None:
        if self._renew is not None:
            self._renew(seconds)

    def uninterruptible(self) -> None:
        """What follows must not be disturbed: the performing is over."""
        self._interrupt = self._renew = None


def ended_by(
    cause: Cause, traces: attempt_record.Traces = attempt_record.NO_TRACES, error_message: str = ""
) -> attempt_record.Ending:
    match cause.kind:
        case "cancelled":
            return attempt_record.Cancelled(reason=cause.reason, traces=traces)
        case "timed_out":
            return attempt_record.TimedOut(reason=cause.reason, error_message=error_message, traces=traces)
        case "handed_back":
            return attempt_record.HandedBack(reason=cause.reason, traces=traces)
        case "fenced":
            return attempt_record.HandedBack(reason=cause.reason, crashed=True, traces=traces)
        case _:
            assert_never(cause.kind)


class InHand:
    """Everything held. The next attempt of a run may come while the last one's outcome is still on its way."""

    def __init__(self) -> None:
        self._held: dict[Key, Running] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Running]:
        return iter(list(self._held.values()))

    def get(self, key: Key) -> Running | None:
        return self._held.get(key)

    def of_run(self, run_id: str) -> list[Running]:
        return [running for running in self._held.values() if running.item.run_id == run_id]

    def add(self, running: Running) -> None:
        self._held[running.key] = running

    def remove(self, running: Running) -> None:
        self._held.pop(running.key, None)
