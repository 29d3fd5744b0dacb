"""What one pass decided, and what follows from it."""

from msgspec import Struct, field

from waterclock.core.domain.partition.dependency_state import Letter
from waterclock.proto.events import (
    RunEvent,
    RunQueued,
)
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import StopRequest


class Lacking(Struct, frozen=True, kw_only=True):
    """Lines of an artifact that a fan-out needs next."""

    artifact: str
    start: int
    count: int
    counted: bool
    """How many lines there are is known."""


class Pass(Struct, kw_only=True):
    """What one pass decided. The events go to the log first; the rest is derived from them and follows."""

    events: list[RunEvent] = field(default_factory=list)
    queued: list[tuple[RunQueued, JobSpec]] = field(default_factory=list)
    stops: list[tuple[str | None, StopRequest]] = field(default_factory=list)
    """(executor, request); no executor: whoever has it or gets it."""
    withdrawn: list[str] = field(default_factory=list)
    """Queued runs whose work message is to be removed."""
    pauses: list[tuple[str, str]] = field(default_factory=list)
    """(job, note): schedules to pause after failures in a row."""
    index: dict[str, dict[str, bytes | None]] = field(default_factory=dict)
    """Changes of the timing index, by job: key and value, None deletes."""
    forgotten: dict[str, int] = field(default_factory=dict)
    """Jobs whose index entries of versions up to this one are void. Removed after the frame: until it is in the
    log, whoever comes next needs them to decide the same again."""
    starved: set[tuple[str, int]] = field(default_factory=set)
    """Definitions (job, version) that must be read from the log before some runs can go on."""
    lacking: dict[str, Lacking] = field(default_factory=dict)
    """Fan-outs that cannot go on before some lines are read."""
    letters: list[Letter] = field(default_factory=list)
    """What other partitions are to be told. Sent after the frame, and again until it is known to have arrived."""

    def index_changes(self) -> dict[str, bytes | None]:
        return {key: value for changes in self.index.values() for key, value in changes.items()}

    def __bool__(self) -> bool:
        return bool(
            self.events
            or self.stops
            or self.withdrawn
            or self.pauses
            or self.index
            or self.forgotten
            or self.starved
            or self.lacking
            or self.letters
        )
