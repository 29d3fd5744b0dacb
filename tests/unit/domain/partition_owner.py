"""An owner of a partition for tests: its clock is a number, its index a dict, its log the events it decided."""

from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.timing_index import HORIZON
from waterclock.proto.events import JobCreated, RunEvent, RunQueued, RunsMissed
from waterclock.proto.policies import CatchUp
from waterclock.proto.spec import JobSpec, Schedule, Shell

START = 1_790_000_040 * SECOND
"""The beginning of a minute."""


class FewAtOnce:
    """Room for so many runs, wherever they go."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.slow = False
        """Whether what waits does so for slow work."""
        self.saturated = False
        self.served: frozenset[str] | None = None
        self.parcel = 1
        """How many may travel in one message."""

    def has(self, route: str, priority: int = 0) -> bool:
        return self.left > 0

    def waits_for_slots(self, route: str) -> bool:
        return self.slow

    def parcel_size(self, route: str) -> int:
        return self.parcel

    def has_exact_lines(self, route: str) -> bool:
        return True

    def began(self, route: str, priority: int = 0) -> None:
        self.left -= 1

    def ended(self, route: str, ran: int | None, priority: int = 0, count: int = 1) -> None:
        self.left += count


def at(seconds: float) -> int:
    return START + int(seconds * SECOND)


def every(
    seconds: float, *, catch_up: CatchUp | None = None, start_deadline: float | None = None, priority: int = 0
) -> JobSpec:
    return JobSpec(
        name="job",
        task=Shell(command="true"),
        schedule=Schedule(schedule_type="INTERVAL", interval_seconds=seconds),
        overlap="allow",
        catch_up=catch_up or CatchUp(policy="none"),
        start_deadline_seconds=start_deadline,
        priority=priority,
    )


def once() -> JobSpec:
    return JobSpec(name="once", task=Shell(command="true"))


class Partition:
    def __init__(
        self, *, room: int = 1_000_000, state: PartitionState | None = None, now: int = START
    ) -> None:
        self.room = FewAtOnce(room)
        self.owner = Owner(3, state or PartitionState(), now, self.room)
        self.owner.wake(now)
        self.owner.loaded((now + HORIZON) // MINUTE * MINUTE + MINUTE)
        self.events: list[RunEvent] = []
        self.index: dict[str, bytes] = {}
        self.version = 0

    def create(self, job_id: str, spec: JobSpec, when: int = START) -> int:
        self.version += 1
        event = JobCreated(job_id=job_id, spec=spec, at=when, created_at=when)
        self.owner.observe_job(event, self.version, when)
        return self.version

    def tick(self, now: int, *, lived: bool = True) -> list[RunEvent]:
        """One pass; what it decided."""
        owner = self.owner
        owner.wake(now, lived=lived)
        owner.loaded((now + HORIZON) // MINUTE * MINUTE + MINUTE)
        owner.tick(now)
        decided = owner.take_pass()
        filed = [(filed.at, bytes(filed.entry)) for filed in decided.index]
        self.index |= decided.hot | {f"{at} {entry!r}": entry for at, entry in filed}
        self.events += decided.events
        return decided.events

    def settle(self, now: int) -> None:
        while self.tick(now):
            pass

    @property
    def queued(self) -> list[RunQueued]:
        return [event for event in self.events if isinstance(event, RunQueued)]

    @property
    def missed(self) -> list[RunsMissed]:
        return [event for event in self.events if isinstance(event, RunsMissed)]
