"""The faults, each a row: what is done and how it is healed, for how long, and what must hold."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec import Struct

from chaos import fault_injection
from chaos.fault_runner import Bounds, Inject
from chaos.installation import COMPONENTS, Environment, Installation, installed


def _plain(_name: str, _directory: object) -> dict[str, str]:
    return {}


class World(Struct, frozen=True, kw_only=True):
    """What a fault happens to. Faults of the same world share an installation, one after the other."""

    name: str
    nodes: int = 1
    counts: tuple[tuple[str, int], ...] = ()
    environment: Environment = _plain

    def installed(self, directory: Path) -> AbstractAsyncContextManager[Installation]:
        return installed(directory, nodes=self.nodes, counts=dict(self.counts), environment=self.environment)


ONE_OF_EACH = World(name="one of each")
CLOCKS = World(name="clocks that can be set", environment=fault_injection.settable_clock)
CLUSTER = World(name="three NATS nodes, R3", nodes=3, counts=(("scheduler", 2), ("executor", 2)))


class Fault(Struct, frozen=True, kw_only=True):
    """Bounds are what a machine shared with others keeps; what was measured is in docs/reliability.md."""

    name: str
    inject: Inject
    seconds: float = 0.0
    """How long it lasts after the injection is done."""
    recovered: float = 5.0
    """Seconds from the healing until a job asked for after it has had its effect, at most."""
    held: float = 0.0
    """The share of the jobs offered while it lasted that were accepted within a second, at least."""
    per_second: float = 20.0
    tolerated: tuple[str, ...] = ()
    """Checkers whose complaints are a known limit, told in docs/reliability.md."""
    world: World = ONE_OF_EACH
    needs: str | None = None
    """A Debian package that the injection is made with."""
    in_short_form: bool = False

    @property
    def bounds(self) -> Bounds:
        return Bounds(recovered=self.recovered, held=self.held, tolerated=self.tolerated)


_ON_A_WRONG_LOG = ("tokens_that_fell", "effects_unlike_outcomes")
"""Schedulers and executors go by it until the projector has judged it, a second or two."""

TABLE: tuple[Fault, ...] = (
    *(
        Fault(name=f"kill -9 {name}", inject=fault_injection.kill(name), recovered=recovered)
        for name, recovered in (
            ("scheduler-1", 8.0),
            ("executor-1", 12.0),
            ("projector-1", 5.0),
            ("api-1", 10.0),
            ("nats", 8.0),
            ("postgres", 5.0),
        )
    ),
    Fault(
        name="SIGSTOP scheduler, past its lease",
        inject=fault_injection.freeze("scheduler-1"),
        seconds=4,
        held=0.9,
    ),
    Fault(
        name="SIGSTOP executor, past ack deadline and leases",
        inject=fault_injection.freeze("executor-1"),
        seconds=9,
        held=0.9,
        recovered=10,
    ),
    Fault(name="SIGSTOP projector", inject=fault_injection.freeze("projector-1"), seconds=6, held=0.9),
    Fault(name="SIGSTOP api", inject=fault_injection.freeze("api-1"), seconds=5),
    Fault(
        name="SIGSTOP nats-server, past all pings",
        inject=fault_injection.freeze("nats"),
        seconds=17,
        recovered=8,
    ),
    Fault(name="SIGSTOP Postgres", inject=fault_injection.freeze("postgres"), seconds=8, held=0.9),
    Fault(
        name="fsync fails (EIO) on the log",
        inject=fault_injection.failing_syscalls("fsync", "EIO"),
        needs="strace",
        seconds=3,
        recovered=8,
        in_short_form=True,
    ),
    Fault(
        name="disk full (ENOSPC) for the log",
        inject=fault_injection.failing_syscalls("write", "ENOSPC"),
        needs="strace",
        seconds=3,
        recovered=8,
    ),
    *(
        Fault(
            name=name,
            inject=inject,
            recovered=8,
            tolerated=_ON_A_WRONG_LOG,
        )
        for name, inject in (
            ("log restored from an older copy", fault_injection.older_log),
            ("log truncated", fault_injection.truncated_log),
            ("stream deleted", fault_injection.deleted_stream),
        )
    ),
    Fault(
        name="Postgres restored from an older copy",
        inject=fault_injection.older_postgres,
        recovered=5,
        held=0.8,
    ),
    *(
        Fault(
            name=f"clock of {name} steps {'+' if hours > 0 else '-'}1 h and back",
            inject=fault_injection.clock_step(f"{name}-1", hours),
            needs="libfaketime",
            seconds=5,
            held=0.9,
            world=CLOCKS,
        )
        for name in ("scheduler", "executor", "api")
        for hours in (1, -1)
    ),
    *(
        Fault(name=f"200 ms latency {name} to NATS", inject=fault_injection.slow(f"{name}-1"), seconds=5)
        for name in COMPONENTS
    ),
    *(
        Fault(
            name=f"connections of {name} to NATS lost again and again",
            inject=fault_injection.cuts(f"{name}-1"),
        )
        for name in COMPONENTS
    ),
    *(
        Fault(
            name=f"half-open {name} to NATS",
            inject=fault_injection.half_open(f"{name}-1"),
            seconds=17,
            recovered=10,
        )
        for name in COMPONENTS
    ),
    Fault(
        name="200 ms latency projector to Postgres",
        inject=fault_injection.slow("projector-1/postgres"),
        seconds=5,
        held=0.9,
    ),
    Fault(
        name="connections of projector to Postgres lost",
        inject=fault_injection.cuts("projector-1/postgres"),
        held=0.9,
    ),
    Fault(
        name="half-open projector to Postgres",
        inject=fault_injection.half_open("projector-1/postgres"),
        seconds=17,
        held=0.9,
    ),
    Fault(name="all consumers deleted", inject=fault_injection.deleted_consumers, held=0.9),
    Fault(
        name="frames repeated, late and out of order",
        inject=fault_injection.repeated_frames,
        seconds=4,
        held=0.9,
    ),
    Fault(name="work delivered twice", inject=fault_injection.repeated_work, seconds=4, held=0.9),
    Fault(name="Postgres away for a minute", inject=fault_injection.away("postgres"), seconds=60, held=0.9),
    Fault(
        name="R3: kill -9 a leader",
        inject=fault_injection.kill_leader,
        recovered=12,
        world=CLUSTER,
        per_second=10,
    ),
    Fault(
        name="R3: kill -9 a follower",
        inject=fault_injection.kill_follower,
        recovered=12,
        world=CLUSTER,
        per_second=10,
    ),
    Fault(
        name="R3: SIGSTOP a leader",
        inject=fault_injection.freeze_leader,
        seconds=12,
        recovered=12,
        world=CLUSTER,
        per_second=10,
    ),
    Fault(
        name="R3: a leader cut off from nodes and clients",
        inject=fault_injection.partition_leader,
        seconds=15,
        recovered=15,
        world=CLUSTER,
        per_second=10,
    ),
    Fault(
        name="R3: rolling restart",
        inject=fault_injection.rolling_restart,
        recovered=12,
        world=CLUSTER,
        per_second=10,
    ),
)
