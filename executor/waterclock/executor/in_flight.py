"""The attempts this executor holds, each from its delivery until its outcome is acknowledged by the log."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, assert_never

from msgspec import Struct

from waterclock.core.jetstream.messages import Delivery
from waterclock.core.runtime.clock import now_us
from waterclock.executor.attempt_record import (
    NO_DETAILS,
    Attempt,
    Cancelled,
    Details,
    FinalEvent,
    Result,
    Returned,
    TimedOut,
)
from waterclock.executor.masking import SecretValues
from waterclock.executor.secrets import AttemptSecrets
from waterclock.proto.heartbeats import Progress
from waterclock.proto.policies import Value
from waterclock.proto.work import ClaimReply, WorkItem

StopKind = Literal["cancelled", "timed_out", "returned", "lease_lost"]


class StopCause(Struct, frozen=True, kw_only=True):
    """Why an attempt is stopped before its end."""

    kind: StopKind
    reason: str
    grace: float = 0.0
    """Seconds between TERM and KILL."""


Interrupt = Callable[[StopCause], object]

WorkKey = tuple[str, int]


def work_key(item: WorkItem) -> WorkKey:
    """What tells two work items apart. The attempt's number does not: one that was returned or snoozed keeps it."""
    return item.run_id, item.queued


class Receipt:
    """A delivery in our hands, of one attempt or of a parcel of them. It is acked when all of them are acknowledged by
    the log; if one of them is not, the message comes back to somebody, who asks about each."""

    __slots__ = (
        "acknowledged",
        "attempts",
        "delivery",
        "ended",
        "epoch",
        "has_unreported_start",
        "in_parcel",
        "pulled",
        "running",
        "unstarted",
    )

    def __init__(self, delivery: Delivery, *, in_parcel: bool = False) -> None:
        self.delivery = delivery
        self.in_parcel = in_parcel
        self.pulled = now_us()
        self.epoch = 0
        """Set by the keepalive: whether the delivery is certainly still ours."""
        self.attempts = 1
        """How many it brought that were not over."""
        self.acknowledged = 0
        """Of how many of them the log has the outcome."""
        self.running: list[RunningAttempt] = []
        """Those whose outcome is not reported yet."""
        self.ended: list[RunningAttempt] = []
        """Of a parcel: those of them that have an outcome, and are reported together."""
        self.has_unreported_start = False
        """Whether the reporter is about to look which of them have begun."""
        self.unstarted: asyncio.TimerHandle | None = None
        """Runs when what has not been started is to be given back."""


class RunningAttempt:
    """The mutable part of an attempt. Its own task changes it; others may only stop it or renew its delivery."""

    __slots__ = (
        "_cancels_task",
        "_interrupt",
        "_renew",
        "attempt",
        "claim",
        "cost",
        "is_plain",
        "is_start_reported",
        "item",
        "key",
        "outcome",
        "progress",
        "receipt",
        "reported_progress",
        "secrets",
        "stop_cause",
        "task",
        "time_out",
    )

    def __init__(self, item: WorkItem, key: WorkKey, receipt: Receipt, cost: int) -> None:
        self.item = item
        self.key = key
        self.receipt = receipt
        self.cost = cost
        """In slots."""
        self.claim: ClaimReply | None = None
        """What its owner said to it, if it was asked."""
        self.attempt: Attempt | None = None
        self.outcome: FinalEvent | None = None
        self.is_start_reported = False
        self.is_plain = False
        """Its time-out is watched for only if it lasts."""
        self.time_out: asyncio.TimerHandle | None = None
        self.stop_cause: StopCause | None = None
        self.progress: Progress | None = None
        self.reported_progress: Progress | None = None
        """The progress that is in the log."""
        self.secrets: AttemptSecrets | None = None
        """What it must not say; None if it was given nothing of that kind."""
        self.task: asyncio.Task[None] | None = None
        self._interrupt: Interrupt | None = None
        self._cancels_task = False
        self._renew: Callable[[float], None] | None = None

    def filled(self, values: Mapping[str, Value]) -> dict[str, str]:
        """Variables or headers, with the values of secrets where they name one."""
        return (self.secrets or AttemptSecrets(self.item.spec)).fill(values)

    def give_secret(self, name: str, value: str) -> None:
        """From now on it is masked in what the attempt says."""
        if self.secrets is None:
            self.secrets = AttemptSecrets(self.item.spec)
        self.secrets.add(name, value)

    @property
    def secret_values(self) -> SecretValues:
        if self.secrets is None:
            self.secrets = AttemptSecrets(self.item.spec)
        return self.secrets.values

    def stop(self, cause: StopCause) -> None:
        """The first cause decides the result; a later one can only shorten the grace."""
        if self.stop_cause is None:
            self.stop_cause = cause
        if self._interrupt is not None:
            self._interrupt(cause)
        elif self._cancels_task:
            self._cancel_task()

    def set_interrupt(self, interrupt: Interrupt) -> None:
        """From now on, stopping the attempt calls `interrupt`; at once if it was stopped before."""
        self._interrupt = interrupt
        self._cancels_task = False
        if self.stop_cause is not None:
            interrupt(self.stop_cause)

    def cancel_task_on_stop(self) -> None:
        """For a performer that awaits: stopping the attempt cancels its task. See `result_of_cancel`."""
        self._interrupt = None
        self._cancels_task = True
        if self.stop_cause is not None:
            self._cancel_task()

    def _cancel_task(self) -> None:
        assert self.task is not None
        self.task.cancel()

    def result_of_cancel(self) -> Result:
        """The result of a performer whose task was cancelled, to be called where it caught CancelledError.

        Raises it again if the attempt was not stopped: then the executor itself is being cancelled.
        """
        if self.stop_cause is None:
            raise asyncio.CancelledError
        assert self.task is not None
        self.task.uncancel()
        return result_of_stop(self.stop_cause)

    def on_lease_renewal(self, renew: Callable[[float], None]) -> None:
        """Call `renew` with the seconds for which the attempt's lease may be relied on, whenever that changes."""
        self._renew = renew

    def lease_renewed(self, seconds: float) -> None:
        if self._renew is not None:
            self._renew(seconds)

    def clear_interrupt(self) -> None:
        """The performing is over. What follows, the saving of its log, must not be disturbed."""
        self._interrupt = self._renew = None
        self._cancels_task = False


def result_of_stop(cause: StopCause, details: Details = NO_DETAILS, error_message: str = "") -> Result:
    match cause.kind:
        case "cancelled":
            return Cancelled(reason=cause.reason, details=details)
        case "timed_out":
            return TimedOut(reason=cause.reason, error_message=error_message, details=details)
        case "returned":
            return Returned(reason=cause.reason, details=details)
        case "lease_lost":
            return Returned(reason=cause.reason, crashed=True, details=details)
        case _:
            assert_never(cause.kind)


class InFlight:
    """By work item, not by run: a run's next attempt may come while the outcome of the last is being written.

    Of an attempt whose outcome is reported only the key is held, until the log has it.
    """

    def __init__(self) -> None:
        self._held: dict[WorkKey, Receipt] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[RunningAttempt]:
        """Those whose outcome is not reported yet."""
        return iter([running for receipt in self.receipts for running in receipt.running])

    def find(self, keys: Iterable[WorkKey]) -> Receipt | None:
        """Of the first of them that is held."""
        if self._held.keys().isdisjoint(keys):
            return None
        return next(receipt for key in keys if (receipt := self._held.get(key)) is not None)

    @property
    def receipts(self) -> Iterable[Receipt]:
        """Of all of them, each once."""
        return dict.fromkeys(self._held.values())

    @property
    def run_ids(self) -> list[str]:
        return [run_id for run_id, _ in self._held]

    def has_run(self, run_id: str) -> bool:
        return any(held == run_id for held, _ in self._held)

    def of_run(self, run_id: str) -> list[RunningAttempt]:
        return [running for running in self if running.item.run_id == run_id]

    def add(self, receipt: Receipt) -> None:
        """All that are running of it."""
        for running in receipt.running:
            self._held[running.key] = receipt

    def drop(self, running: RunningAttempt) -> None:
        """It has no outcome."""
        self._held.pop(running.key, None)
        receipt = running.receipt
        receipt.running = [other for other in receipt.running if other is not running]

    def reported(self, receipt: Receipt, ended: Sequence[RunningAttempt]) -> None:
        """Their outcomes are on their way into the log."""
        if len(ended) == len(receipt.running):
            receipt.running = []
        else:
            receipt.running = [running for running in receipt.running if running.outcome is None]

    def acknowledged(self, keys: Iterable[WorkKey]) -> None:
        """Their outcomes are in the log, or never will be."""
        held = self._held
        for key in keys:
            held.pop(key, None)
