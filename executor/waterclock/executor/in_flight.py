"""The attempts this executor holds, each from its delivery until its outcome is acknowledged by the log."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from waterclock.proto.work import WorkItem

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
        "epoch",
        "in_parcel",
        "outcomes",
        "pulled",
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
        self.outcomes: list[tuple[RunningAttempt, FinalEvent]] = []
        """Of a parcel: what has ended, and is reported together."""
        self.unstarted: asyncio.TimerHandle | None = None
        """Runs when what has not been started is to be given back."""


class RunningAttempt:
    """The mutable part of an attempt. Its own task changes it; others may only stop it or renew its delivery."""

    __slots__ = (
        "_interrupt",
        "_renew",
        "attempt",
        "cost",
        "item",
        "key",
        "progress",
        "receipt",
        "reported_progress",
        "secrets",
        "stop_cause",
        "task",
    )

    def __init__(self, item: WorkItem, key: WorkKey, receipt: Receipt, cost: int) -> None:
        self.item = item
        self.key = key
        self.receipt = receipt
        self.cost = cost
        """In slots."""
        self.attempt: Attempt | None = None
        self.stop_cause: StopCause | None = None
        self.progress: Progress | None = None
        self.reported_progress: Progress | None = None
        """The progress that is in the log."""
        self.secrets: AttemptSecrets | None = None
        """What it must not say; None if it was given nothing of that kind."""
        self.task: asyncio.Task[None] | None = None
        self._interrupt: Interrupt | None = None
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

    def set_interrupt(self, interrupt: Interrupt) -> None:
        """From now on, stopping the attempt calls `interrupt`; at once if it was stopped before."""
        self._interrupt = interrupt
        if self.stop_cause is not None:
            interrupt(self.stop_cause)

    def cancel_task_on_stop(self) -> None:
        """For a performer that awaits: stopping the attempt cancels its task. See `result_of_cancel`."""
        task = self.task
        assert task is not None
        self.set_interrupt(lambda _: task.cancel())

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
    """By work item, not by run: a run's next attempt may come while the outcome of the last is being written."""

    def __init__(self) -> None:
        self._held: dict[WorkKey, RunningAttempt] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[RunningAttempt]:
        return iter(list(self._held.values()))

    def get(self, key: WorkKey) -> RunningAttempt | None:
        return self._held.get(key)

    @property
    def receipts(self) -> Iterable[Receipt]:
        """Of all of them, each once."""
        return dict.fromkeys(running.receipt for running in self._held.values())

    def of_run(self, run_id: str) -> list[RunningAttempt]:
        return [running for running in self._held.values() if running.item.run_id == run_id]

    def add(self, running: RunningAttempt) -> None:
        self._held[running.key] = running

    def remove(self, running: RunningAttempt) -> None:
        self._held.pop(running.key, None)
