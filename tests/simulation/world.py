"""A partition's whole world in memory: log, index, queue, clock; and an owner that may die between any two steps.

The owner is the real one (waterclock.core.domain.partition). What this file repeats of the scheduler is only the order
in which a pass is carried out and a partition is taken over; with a crash possible after every step of both.
"""

import random
from dataclasses import dataclass, field

import msgspec

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.partition.decisions import Pass
from waterclock.core.domain.partition.divergence import Diverged
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.partition.timing_index import HORIZON, IndexEntry, decode_entry
from waterclock.proto.events import Frame, JobCreated, JobEvent, RunEvent, RunQueued
from waterclock.proto.spec import JobSpec
from waterclock.proto.work import ClaimRequest, StopRequest

PARTITION = 3
EPOCH = 1_790_000_000_000_000
LAG = 1_000_000
"""How long a definition may be in the log before the owner that lives has read it."""


class Crash(Exception):
    """The owner's process died here."""


@dataclass
class Work:
    run_id: str
    attempt: int
    queued: int
    recovered: bool = False
    delivered: int = 0
    holder: str | None = None


@dataclass
class World:
    rng: random.Random
    crash_chance: float = 0.02
    now: int = EPOCH
    jobs: list[JobEvent] = field(default_factory=list)
    runs: list[Frame] = field(default_factory=list)
    index: dict[str, bytes] = field(default_factory=dict)
    work: dict[tuple[str, int], Work] = field(default_factory=dict)
    seen: set[tuple[str, int]] = field(default_factory=set)
    """Message ids: the queue refuses them for a while."""
    stops: list[tuple[str | None, StopRequest]] = field(default_factory=list)
    snapshot: tuple[bytes, int, int, str] | None = None
    owner: Owner | None = None
    term: int = 0
    jobs_read: int = 0
    jobs_read_at: int = 0
    runs_read: int = 0
    own_through: int = 0
    crashes: int = 0
    rebuilds: int = 0
    fuse: int | None = None
    """Steps until the next crash that is bound to happen."""
    files: dict[str, list[str]] = field(default_factory=dict)
    """Artifacts, by line."""

    # -- the log, as others write it ----------------------------------------------------------------------

    def define(self, event: JobEvent) -> int:
        self.jobs.append(event)
        return len(self.jobs)

    def report(self, event: RunEvent) -> None:
        self.runs.append(Frame(writer="others", events=(event,)))

    # -- the owner ----------------------------------------------------------------------------------------

    @property
    def writer(self) -> str:
        return f"owner/{self.term}"

    def step(self, everything: bool = False) -> None:
        """One turn of the owner's loop; reads all that is in the log, or as much as happened to arrive."""
        try:
            if self.owner is None:
                self._take_over()
            owner = self.owner
            assert owner is not None
            self._maybe_crash()
            self._load(owner)
            self._read(owner, everything)
            owner.tick(self.now)
            self._carry_out(owner, owner.take_pass())
        except Crash:
            self.crashes += 1
            self.owner = None
        except Diverged:
            self.rebuilds += 1
            self.owner = None

    def claim(self, request: ClaimRequest, alive: bool) -> str | None:
        """Ask the owner; no answer when it dies before its decision is in the log."""
        owner = self.owner
        assert owner is not None
        verdict = owner.claim(request, alive, self.now).verdict
        self._load(owner)
        try:
            self._carry_out(owner, owner.take_pass())
        except Crash:
            self.crashes += 1
            self.owner = None
            return None
        return verdict

    def _read(self, owner: Owner, everything: bool) -> None:
        end = len(self.runs) if everything else self.rng.randint(self.runs_read, len(self.runs))
        for sequence in range(self.runs_read + 1, end + 1):
            frame = self.runs[sequence - 1]
            if frame.writer == self.writer:
                owner.observe_own_frame(sequence)
            else:
                owner.observe_frame(frame, sequence)
            self.runs_read = sequence
        self._maybe_snapshot(owner)
        owner.follow_up(self.now)
        if everything or self.now - self.jobs_read_at > LAG:
            end, self.jobs_read_at = len(self.jobs), self.now
        else:
            end = self.rng.randint(self.jobs_read, len(self.jobs))
        for sequence in range(self.jobs_read + 1, end + 1):
            owner.observe_job(self.jobs[sequence - 1], sequence, self.now)
            self.jobs_read = sequence

    def _carry_out(self, owner: Owner, decided: Pass) -> None:
        while decided:
            for key, change in decided.index_changes().items():
                if change is None:
                    self.index.pop(key, None)
                else:
                    self.index[key] = change
            self._maybe_crash()
            if decided.events:
                events = tuple(_as_stored(event) for event in decided.events)
                self.runs.append(Frame(writer=self.writer, events=events, cursor=owner.state.cursor))
                self.own_through = len(self.runs)
                owner.appended(self.own_through, events)
                self._maybe_crash()
            for job_id, version in decided.void_entries.items():
                self._forget(job_id, version)
                self._maybe_crash()
            owner.cleaned(owner.state.cursor.jobs)
            for queued, _ in decided.queued:
                self.publish(queued.run_id, queued.attempt, queued.at)
                self._maybe_crash(0.1)
            if decided.queued:
                owner.published(self.own_through)
            self.stops.extend(decided.stops)
            for run_id in decided.withdrawn:
                self.work = {key: work for key, work in self.work.items() if key[0] != run_id}
            for job_id, version in decided.definitions_needed:
                owner.provide_definition(job_id, version, self._definition(job_id, version), self.now)
            for run_id, lacking in decided.lines_needed.items():
                lines = self.files[lacking.artifact]
                read = lines[lacking.start : lacking.start + self.rng.randint(1, 4)]
                owner.supply_lines(run_id, lacking.start, read, len(lines), self.now)
            for letter in decided.notices:
                self.runs.append(Frame(writer="post", events=(_as_stored(letter.event),)))
                self._maybe_crash()
            if decided.notices:
                owner.delivered(decided.notices, self.now)
            decided = owner.take_pass()

    def _forget(self, job_id: str, version: int) -> None:
        def void(key: str) -> bool:
            *_, of_job, of_version = key.split(".")
            return of_job == job_id and int(of_version) <= version

        self.index = {key: value for key, value in self.index.items() if not void(key)}

    def publish(self, run_id: str, attempt: int, queued: int, recovered: bool = False) -> None:
        if (run_id, queued) not in self.work and (run_id, queued) not in self.seen:
            self.work[run_id, queued] = Work(run_id, attempt, queued, recovered)
            self.seen.add((run_id, queued))

    def lose_work(self) -> None:
        """The server died: it forgets message ids, and what it had not yet written of the queue."""
        self.seen.clear()
        for key in [key for key, work in self.work.items() if work.holder is None]:
            if self.rng.random() < 0.5:
                del self.work[key]
        if self.owner is not None:
            self._recover(self.owner)

    def _recover(self, owner: Owner) -> None:
        for run in owner.state.runs.values():
            if run.has_work:
                self.publish(run.run_id, run.attempt, run.queued_at, recovered=True)

    def _load(self, owner: Owner) -> None:
        if owner.schedules.loaded_until - self.now <= HORIZON:
            first, last = owner.schedules.loaded_until // MINUTE, (self.now + HORIZON) // MINUTE
            owner.load(self._minutes(first, last), (last + 1) * MINUTE, self.now)
            self._purge(owner.state.cursor.time - MINUTE)

    def _maybe_snapshot(self, owner: Owner) -> None:
        if self.rng.random() < 0.05 and owner.is_caught_up:
            data = msgspec.json.encode(owner.state)
            self.snapshot = (data, self.runs_read, self.own_through, self.writer)

    def _take_over(self) -> None:
        self.term += 1
        state, consumed, own_through, writer = PartitionState(), 0, 0, ""
        if self.snapshot is not None:
            data, consumed, own_through, writer = self.snapshot
            state = msgspec.json.decode(data, type=PartitionState)
        owner = Owner(PARTITION, state, self.now)
        for sequence in range(consumed + 1, len(self.runs) + 1):
            frame = self.runs[sequence - 1]
            if not (frame.writer == writer and sequence <= own_through):
                owner.replay(frame, sequence)
        self._maybe_crash()
        for sequence in range(state.cursor.index + 1, state.cursor.jobs + 1):
            event = self.jobs[sequence - 1]
            if not isinstance(event, JobCreated):
                self._forget(event.job_id, sequence - 1)
        owner.cleaned(state.cursor.jobs)
        first = (state.cursor.time or self.now) // MINUTE
        last = (self.now + HORIZON) // MINUTE
        hot = [decode_entry(value) for key, value in self.index.items() if key.split(".")[1] == "hot"]
        owner.load(hot + self._minutes(first, last), (last + 1) * MINUTE, self.now)
        for sequence in range(state.cursor.jobs + 1, len(self.jobs) + 1):
            owner.observe_job(self.jobs[sequence - 1], sequence, self.now)
        suspects = owner.resume(self.now)
        self.owner, self.runs_read, self.own_through = owner, len(self.runs), len(self.runs)
        self.jobs_read, self.jobs_read_at = owner.state.cursor.jobs, self.now
        for run in suspects:
            self.publish(run.run_id, run.attempt, run.queued_at, recovered=True)
        self._recover(owner)

    def _minutes(self, first: int, last: int) -> list[IndexEntry]:
        found = []
        for key, value in self.index.items():
            _, group, rest = key.split(".", 2)
            if group != "hot" and first <= int(group) * 60 + int(rest.split(".")[0]) <= last:
                found.append(decode_entry(value))
        self.rng.shuffle(found)
        return found

    def _purge(self, before: int) -> None:
        def passed(key: str) -> bool:
            _, group, rest = key.split(".", 2)
            return group != "hot" and (int(group) * 60 + int(rest.split(".")[0]) + 1) * MINUTE <= before

        self.index = {key: value for key, value in self.index.items() if not passed(key)}

    def _definition(self, job_id: str, version: int) -> JobSpec:
        event = self.jobs[version - 1]
        assert event.job_id == job_id
        return event.spec

    def _maybe_crash(self, scale: float = 1.0) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse == 0:
                raise Crash
        if self.rng.random() < self.crash_chance * scale:
            raise Crash


def _as_stored(event: RunEvent) -> RunEvent:
    """What comes back is what was written, not what was in memory."""
    stored: RunEvent = _decode_event(msgspec.json.encode(event))
    return stored


_decode_event = msgspec.json.Decoder(RunEvent).decode


def queued_runs(world: World) -> list[RunQueued]:
    return [event for frame in world.runs for event in frame.events if isinstance(event, RunQueued)]
