"""One pass over a partition: read what has arrived, decide what is due, carry it out.

A pass waits for its frame to be acknowledged before anything follows from it, and the next pass waits for that.
"""

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from waterclock.core.domain.partition.owner import Owner
from waterclock.core.runtime.quarantine import read_frame, read_job_frame
from waterclock.proto.codec import encode
from waterclock.proto.events import Instant, JobEvent
from waterclock.proto.work import ClaimReply, ClaimRequest
from waterclock.scheduler.carry_out import carry_out, checkpoint
from waterclock.scheduler.ports import Claim, Entry, Ports, Snapshot
from waterclock.scheduler.replaced_definitions import observe_job, read_replaced
from waterclock.scheduler.takeover import Rebuilt
from waterclock.scheduler.work_items import WorkRecovery

_PASS_DEFINITIONS = 300
"""A pass reads about this many definitions, so that a flood of them does not hold up what is due."""
_WEIGHT = 0.1
"""Of the last message, in what is known about how many definitions are in one."""
_LONE_OUTCOME = 1024
"""A frame of more bytes holds several outcomes or other events: it is left to a pass."""
_TURN = 256
"""Others get their turn after so many definitions."""


class Inbox:
    """What has arrived and is not read yet. Readers put it there, a pass takes it out."""

    def __init__(self, arrived: Callable[[], None] = lambda: None) -> None:
        self.runs: list[Entry] = []
        self.jobs: list[Entry] = []
        self.claims: list[Claim] = []
        self._arrived = arrived

    def receive_claim(self, claim: Claim) -> None:
        self.claims.append(claim)
        self._arrived()


class PassResult(Struct, frozen=True, kw_only=True):
    began: float
    """On the monotonic clock."""
    decided: int
    """How many events."""
    more: bool
    """There is something left to do."""
    hurry: bool
    """There is something left to decide, and room for it: the next pass need not wait for more to come due."""


class OwnedPartition:
    """A partition after its takeover. One task calls this."""

    def __init__(self, ports: Ports, taken: Rebuilt, inbox: Inbox) -> None:
        self.owner: Owner = taken.owner
        self.near_future = taken.near_future
        self.consumed = taken.consumed
        """All frames of others up to this sequence of `RUNS` are in the state."""
        self._ports = ports
        self._inbox = inbox
        self._recovery = WorkRecovery(ports)
        self._own_frame = encode({"writer": ports.decisions.writer})[:-1] + b","
        """How a frame of ours begins: it need not be decoded when it comes back."""
        self.definitions_in_message = 1.0
        """How many there are in a message of `JOBS`, about."""
        self._changes = 1
        """Events decided and definitions read since the last snapshot; the takeover's own reading counts as one."""

    def recover(self) -> None:
        """The server may have lost work messages: compare the queue with what should be in it."""
        self._recovery.add_all(self.owner)

    def read_between_passes(self) -> bool:
        """Note what arrived and needs no pass: what we wrote ourselves, and successes from which nothing follows.
        False: something else arrived, too."""
        runs = self._inbox.runs
        if runs and self.owner.awaits_own_frames:
            return False
        noted = 0
        while noted < len(runs) and self._note(runs[noted]):
            noted += 1
        del runs[:noted]
        return not runs

    def _note(self, entry: Entry) -> bool:
        if entry.data.startswith(self._own_frame):
            self.owner.observe_own_frame(entry.sequence)
        elif len(entry.data) > _LONE_OUTCOME:
            return False
        else:
            frame = read_frame(entry)  # without events if it cannot be read, which is said once
            if frame.events and not self.owner.note_success(frame, entry.sequence):
                return False
        self.consumed = entry.sequence
        return True

    async def one_pass(self) -> PassResult:
        ports, owner = self._ports, self.owner
        lived = ports.decisions.is_certain
        await ports.decisions.keep_lease()
        began = time.monotonic()
        now = ports.clock.now_us()
        owner.wake(now, lived=lived)
        unread = await self.near_future.load(now)
        self.read_runs()
        if ports.snapshots.is_due(self._changes):
            await self.write_snapshot()
        owner.follow_up(now)
        more = await self._read_jobs(now) or unread
        answers = await self._decide_claims(now)
        hurry = owner.tick(now)
        decided = owner.take_pass()
        written = ports.decisions.last
        self._changes += await carry_out(ports, owner, decided)
        if ports.decisions.last == written and (answers or owner.is_to_say_alive):
            await checkpoint(ports, owner)
        for claim, reply in answers:
            await claim.answer(reply)
        ports.metrics.passed(time.monotonic() - began)
        self._recovery.add(owner.take_doubts())
        if self._recovery:
            await self._recovery.publish_chunk(owner)
            more = True
        return PassResult(began=began, decided=len(decided.events), more=more or hurry, hurry=hurry)

    def read_runs(self) -> None:
        """Raises Diverged."""
        runs, self._inbox.runs[:] = self._inbox.runs[:], []
        for entry in runs:
            if entry.data.startswith(self._own_frame):
                self.owner.observe_own_frame(entry.sequence)
            else:
                self.owner.observe_frame(read_frame(entry), entry.sequence)
            self.consumed = entry.sequence

    async def write_snapshot(self) -> None:
        """Not while own frames are on their way back: an outcome may stand before them that contradicts them. Nor while
        somebody else may own the partition. The log has our cursor first: should somebody take over while we write, it
        begins no earlier than the snapshot, which has forgotten what its cursor covers."""
        if not self.owner.is_caught_up or not self._ports.decisions.is_certain:
            return
        await checkpoint(self._ports, self.owner)
        self._changes = 0
        await self._ports.snapshots.write(
            Snapshot(
                state=self.owner.state,
                consumed=self.consumed,
                own_through=self._ports.decisions.last,
                writer=self._ports.decisions.writer,
            )
        )

    async def _read_jobs(self, now: Instant) -> bool:
        """Whether some are left for the next pass."""
        jobs = self._inbox.jobs
        taken = 0
        changes: list[tuple[JobEvent, int]] = []
        while taken < len(jobs) and len(changes) < _PASS_DEFINITIONS:
            entry = jobs[taken]
            events = read_job_frame(entry).events
            if events and now < events[-1].at <= self._ports.clock.now_us():
                break  # it is of later than this pass, which took long: what was due before it is not decided yet
            changes += [(event, entry.sequence) for event in events]
            taken += 1
            self.definitions_in_message += _WEIGHT * (len(events) - self.definitions_in_message)
        replaced = await read_replaced(self._ports, self.owner, changes)
        for number, (event, version) in enumerate(changes, 1):
            observe_job(self.owner, event, version, replaced, now)
            if number % _TURN == 0:
                await asyncio.sleep(0)
        self._changes += len(changes)
        del jobs[:taken]
        return bool(jobs)

    async def _decide_claims(self, now: Instant) -> list[tuple[Claim, ClaimReply]]:
        """Answers that may leave once the pass they belong to is in the log: an owner that was replaced unnoticed must
        not let anything run."""
        claims, self._inbox.claims = self._inbox.claims, []
        answers = []
        for claim in claims:
            more = tuple([await self._decide_claim(request, now) for request in claim.request.more])
            first = await self._decide_claim(claim.request, now)
            answers.append((claim, replace(first, more=more) if more else first))
        return answers

    async def _decide_claim(self, request: ClaimRequest, now: Instant) -> ClaimReply:
        run = self.owner.state.runs.get(request.run_id)
        alive = (
            run is not None
            and run.executor_id is not None
            and await self._ports.executors.has_run(run.executor_id, run.run_id)
        )
        return self.owner.claim(request, alive, now)
