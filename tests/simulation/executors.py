"""Executors: they take messages of the work queue, ask about what was delivered before, run, die, and report late.

Of a parcel they begin some attempts at once and some later, and give back what they have not begun. What concerns
parcels only is decided by dice of its own, so that a life without them is the same as it ever was.
"""

import random
from dataclasses import dataclass, field

from simulation.world import Message, Work, World
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.run.deadlines import missed_in_queue
from waterclock.proto.events import (
    Frame,
    RunCancelled,
    RunEvent,
    RunFailed,
    RunReturned,
    RunSnoozed,
    RunStarted,
    RunSucceeded,
)
from waterclock.proto.work import ClaimReply, ClaimRequest


@dataclass
class Held:
    """A message in the hands of an executor."""

    message: Message
    executor: str
    open: dict[str, Work] = field(default_factory=dict)
    """By run, what has no outcome."""
    unstarted: dict[str, Work] = field(default_factory=dict)
    comes_back: bool = False
    """Somebody else had an attempt of it: the message is not acked."""


@dataclass
class Executors:
    world: World
    lives: int = 0
    executed: set[tuple[str, int]] = field(default_factory=set)
    """(run, when it was queued) of all attempts that ever began."""
    asking: list[tuple[Message, str, list[ClaimReply]]] = field(default_factory=list)
    """Executors that wait for the answer to a claim."""
    held: dict[str, Held] = field(default_factory=dict)
    """By executor."""
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    returned: int = 0
    recalled: int = 0
    missed: int = 0
    """Taken too late to start."""

    def act(self) -> None:
        world = self.world
        self._stop()
        self._hear_answers()
        self._unpack()
        free = [message for message in world.work.values() if message.holder is None]
        if free and (world.rng.random() < 0.6 or not self.world.holding):
            self._deliver(world.rng.choice(free))
        elif self.world.holding:
            run_id = world.rng.choice(list(self.world.holding))
            self._progress(run_id)

    def drain(self) -> bool:
        """Bring everything that is queued or executing to an end; False when there was nothing to do."""
        self._stop()
        did = bool(self.asking)
        self._hear_answers()
        for message in [message for message in self.world.work.values() if message.holder is None]:
            self._deliver(message)
            did = True
        for held in list(self.held.values()):
            self._begin(held, len(held.unstarted))
        for run_id in list(self.world.holding):
            self._end(run_id, success=True)
            did = True
        return did

    # -- deliveries ---------------------------------------------------------------------------------------

    def _deliver(self, message: Message) -> None:
        world = self.world
        message.delivered += 1
        self.lives += 1
        executor = f"executor{self.lives}"
        if not message.recovered and message.delivered == 1:
            for work in message.works:
                assert (work.run_id, work.queued) not in self.executed, (
                    f"{work} runs again, and nobody was asked"
                )
            self._take(message, executor, message.works)
            return
        first, *more = [
            ClaimRequest(
                run_id=work.run_id,
                attempt=work.attempt,
                queued=work.queued,
                executor_id=executor,
                delivered=message.delivered,
                in_parcel=message.is_parcel,
            )
            for work in message.works
        ]
        message.holder = executor
        request = ClaimRequest(
            **{name: getattr(first, name) for name in first.__struct_fields__} | {"more": tuple(more)}
        )
        self.asking.append((message, executor, world.claim(request)))
        self._hear_answers()

    def _hear_answers(self) -> None:
        """Who asked waits for a while, and asks again later."""
        asking, self.asking = self.asking, []
        for message, executor, replies in asking:
            if not replies:
                if self.world.life is not None and self.world.stale and self.world.rng.random() < 0.7:
                    self.asking.append((message, executor, replies))
                    continue
                message.holder = None
                message.delivered -= 1
                continue
            message.holder = None
            answers = (replies[0], *replies[0].more)
            for work, answer in zip(message.works, answers, strict=True):
                work.crash_count = max(work.crash_count, answer.crash_count)
            answered = [(work, answer.verdict) for work, answer in zip(message.works, answers, strict=True)]
            waits = any(verdict == "wait" for _, verdict in answered)
            self._take(message, executor, [work for work, verdict in answered if verdict == "run"], waits)

    def _take(self, message: Message, executor: str, works: list[Work], waits: bool = False) -> None:
        """Begin some of what may run. What was recalled is left out of a parcel."""
        recalled = self.world.recalled if message.is_parcel else {}
        wanted = [work for work in works if recalled.get(work.run_id, 0) < work.queued]
        self.recalled += len(works) - len(wanted)
        if any(work.run_id in self.world.holding for work in wanted):
            return
        inside = {work.run_id: work for work in wanted}
        held = Held(message, executor, inside, dict(inside), comes_back=waits)
        if not inside:
            self._settle(held)
            return
        message.holder = executor
        self.held[executor] = held
        self._begin(held, self.dice.randint(0, len(inside)) if message.is_parcel else 1)

    def _unpack(self) -> None:
        """Go on with a parcel: begin more of it, give back what has not begun, or die before that."""
        unpacking = [held for held in self.held.values() if held.unstarted]
        if not unpacking:
            return
        held = self.dice.choice(unpacking)
        match self.dice.randrange(6):
            case 0:
                self._die(held.executor)
            case 1:
                self._give_back(held)
            case _:
                self._begin(held, self.dice.randint(1, len(held.unstarted)))

    def _begin(self, held: Held, count: int) -> None:
        world = self.world
        for work in list(held.unstarted.values())[:count]:
            del held.unstarted[work.run_id]
            if held.message.is_parcel and world.recalled.get(work.run_id, 0) >= work.queued:
                self.recalled += 1
                self._close(held, work)
                continue
            missed = missed_in_queue(work.item, work.crash_count, world.now, held.executor)
            if missed is not None and (held.message.recovered or held.message.delivered > 1):
                held.comes_back = True
                self._close(held, work)
                continue
            if missed is not None:
                self.missed += 1
                world.report(missed)
                self._close(held, work)
                continue
            world.holding[work.run_id] = (held.executor, work)
            self.executed.add((work.run_id, work.queued))
            world.report(
                RunStarted(run_id=work.run_id, at=world.now, attempt=work.attempt, executor_id=held.executor)
            )

    def _give_back(self, held: Held) -> None:
        """All that has not begun, in one frame."""
        world = self.world
        works = list(held.unstarted.values())
        held.unstarted.clear()
        events = [
            RunReturned(
                run_id=work.run_id,
                at=world.now,
                attempt=work.attempt,
                executor_id=held.executor,
                started=world.now,
            )
            for work in works
        ]
        world.append(Frame(writer="others", events=tuple(events)))
        self.returned += len(works)
        for work in works:
            self._close(held, work)

    # -- attempts -----------------------------------------------------------------------------------------

    def _progress(self, run_id: str) -> None:
        rng = self.world.rng
        if rng.random() < 0.1:
            self._die(self.world.holding[run_id][0])
        else:
            self._end(run_id, success=rng.random() < 0.7)

    def _die(self, executor: str) -> None:
        held = self.held.pop(executor)
        held.message.holder = None
        for run_id in held.open:
            self.world.holding.pop(run_id, None)

    def _end(self, run_id: str, success: bool) -> None:
        world = self.world
        executor, work = self.world.holding.pop(run_id)
        facts = {
            "run_id": run_id,
            "at": world.now,
            "attempt": work.attempt,
            "executor_id": executor,
            "started": world.now,
        }
        outcome: RunEvent
        if success:
            outcome = RunSucceeded(**facts, output=[1, 2, 3])  # type: ignore[arg-type]
        elif world.rng.random() < 0.2:
            outcome = RunSnoozed(**facts, until=world.now + 5 * SECOND)  # type: ignore[arg-type]
        elif world.rng.random() < 0.2:
            outcome = RunReturned(**facts)  # type: ignore[arg-type]
        else:
            retry_at = world.now + world.rng.randrange(10 * SECOND) if work.attempt < 3 else None
            outcome = RunFailed(**facts, reason="exit code 1", retry_at=retry_at)  # type: ignore[arg-type]
        world.report(outcome)
        held = self.held[executor]
        is_acked = (self.dice if held.message.is_parcel else world.rng).random() < 0.9
        held.comes_back = held.comes_back or not is_acked
        self._close(held, work)

    def _stop(self) -> None:
        stops, self.world.stops = self.world.stops, []
        for _, request in stops:
            run_id = request.run_id
            self.world.holding.pop(run_id, None)
            for held in list(self.held.values()):
                work = held.open.get(run_id)
                if work is not None:
                    held.unstarted.pop(run_id, None)
                    self.world.report(
                        RunCancelled(
                            run_id=run_id,
                            at=self.world.now,
                            reason=request.reason,
                            attempt=work.attempt,
                            executor_id=held.executor,
                        )
                    )
                    self._close(held, work)

    def _close(self, held: Held, work: Work) -> None:
        """An attempt is over; when all of a message are, so is the message."""
        del held.open[work.run_id]
        if not held.open:
            del self.held[held.executor]
            self._settle(held)

    def _settle(self, held: Held) -> None:
        message = held.message
        message.holder = None
        if not held.comes_back and self.world.work.get(message.key) is message:
            del self.world.work[message.key]
