"""One ownership of the partition, and what may happen to its process at any call of a port.

It may die there. The call may be slow: time passes in it, and messages arrive meanwhile. Or the process stands still
for so long that others take it for dead: somebody takes the partition or nobody does, and some time it goes on where it
stood.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waterclock.scheduler.one_pass import Inbox
from waterclock.scheduler.ports import LeaseLost

if TYPE_CHECKING:
    from simulation.world import World


class Crash(Exception):
    """The owner's process died here."""


class StandsStill:
    """Awaited where a process stops turning; it goes on when the world says so."""

    def __await__(self) -> Generator["StandsStill", None, None]:
        yield self


@dataclass
class Life:
    world: "World"
    term: int
    inbox: Inbox = field(default_factory=Inbox)
    is_certain: bool = True
    """Its heartbeats have come all the time: nobody can have taken the partition."""
    index_known: int = 0
    """The last revision of the index that it has read or written."""

    @property
    def is_current(self) -> bool:
        return self.term == self.world.term

    def check_fence(self) -> None:
        if not self.is_current:
            raise LeaseLost(f"owner {self.term} writes after owner {self.world.term} took over")

    async def begin(self, scale: float = 1.0) -> None:
        """Before a call has an effect."""
        world = self.world
        if world.immortal or not world.delay_chance:
            return
        if world.rng.random() < world.delay_chance * scale:
            if world.rng.random() < 0.5:
                world.be_slow(self)
            else:
                await StandsStill()

    async def end(self, scale: float = 1.0) -> None:
        """After it, and before its caller hears of it."""
        self.world.maybe_crash(scale)
        await self.begin(scale)
