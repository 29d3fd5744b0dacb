"""What a handler is told about its attempt."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Context(Struct, frozen=True, kw_only=True, gc=False):
    run_id: str
    job_id: str
    attempt: int
    scheduled: int
    """Microseconds since the epoch; `scheduled_time` is the same as a datetime."""
    crash_count: int = 0
    fencing_token: int | None = None
    """Grows with every lease of this run: a store that remembers the greatest it saw can refuse a late writer."""
    index: int | None = None
    """Which member of a fan-out this is."""
    labels: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    write: Callable[[bytes], None]

    @property
    def scheduled_time(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.scheduled)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of a run, and of no other run."""
        return self.run_id

    def log(self, text: str) -> None:
        """Add a line to the run's log."""
        self.write(text.encode(errors="replace") + b"\n")
