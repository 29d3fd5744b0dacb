"""What a handler sees of its attempt, and how it writes to its log and reports progress."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import Struct

from waterclock.core.domain.instants import datetime_of
from waterclock.executor.attempt_record import Attempt
from waterclock.executor.handler_exceptions import SecretMissing
from waterclock.proto.heartbeats import Progress

_LONGEST_NOTE = 500


HandlerMessage = bytes | Progress
"""A piece of the handler's log, or its progress."""


class SecretRequest(Struct, frozen=True):
    """From a handler's own process, which waits for the value, or for the SecretMissing that says why there is none."""

    name: str


class Context:
    """Whoever calls the handler says in a subclass where its messages go, and who knows secrets."""

    __slots__ = ("_attempt",)

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    @property
    def run_id(self) -> str:
        return self._attempt.item.run_id

    @property
    def job_id(self) -> str:
        return self._attempt.item.job_id

    @property
    def attempt(self) -> int:
        """1, 2, …"""
        return self._attempt.item.attempt

    @property
    def crash_count(self) -> int:
        """How often an executor has died while running this."""
        return self._attempt.crash_count

    @property
    def scheduled_time(self) -> datetime:
        """When the schedule fired, however late it came to run."""
        return datetime_of(self._attempt.item.scheduled)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of a run, and of no other run."""
        return self._attempt.item.run_id

    @property
    def fencing_token(self) -> int | None:
        """Grows with every lease of this run: a store that remembers the greatest it saw can refuse a late writer.

        None unless the job's delivery is `exactly_once`.
        """
        return self._attempt.fencing_token

    @property
    def payload(self) -> Any:
        """The job's, as the handler's second argument has it."""
        return self._attempt.item.spec.payload

    @property
    def index(self) -> int | None:
        """Which member of a fan-out this is."""
        return self._attempt.item.index

    @property
    def labels(self) -> dict[str, str]:
        return self._attempt.item.spec.labels

    @property
    def metadata(self) -> dict[str, Any]:
        return self._attempt.item.spec.metadata

    def secret(self, name: str) -> str:
        """The value of a secret of the job's namespace. From then on it is masked in the run's log, output, error and
        progress. Raises SecretMissing, which ends the run with a reason that says what to do."""
        raise SecretMissing(f"there is nobody to ask for the secret {name}")

    def log(self, text: str) -> None:
        """Add a line to the run's log, from any thread."""
        self._send(text.encode(errors="replace") + b"\n")

    def progress(self, done: float, note: str = "") -> None:
        """Say how far it has come, from 0 to 1, as often as you like.

        It is shown with the run and to those who watch it, every other second at most and once it has run for a second.
        """
        # In this order NaN becomes 0. As JSON it would be null, and nobody could read the frame that it is in.
        share = min(1.0, max(0.0, float(done)))
        text = note[:_LONGEST_NOTE].encode(errors="replace").decode()
        self._send(Progress(done=share, note=text))

    def _send(self, message: HandlerMessage) -> None:
        raise NotImplementedError


class RelayedContext(Context):
    """Of a handler in a process of its own, whose executor is elsewhere."""

    __slots__ = ("_ask", "_relay")

    def __init__(
        self,
        attempt: Attempt,
        relay: Callable[[HandlerMessage], None],
        ask: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(attempt)
        self._relay = relay
        self._ask = ask

    def secret(self, name: str) -> str:
        return super().secret(name) if self._ask is None else self._ask(name)

    def _send(self, message: HandlerMessage) -> None:
        self._relay(message)
