"""Executors that die, hang or are told to go: nothing is lost, nothing left behind, nothing doubled."""

import signal
import time
from pathlib import Path

import msgspec

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import running_executor
from executor_rig.process import executor_process
from executor_rig.token_store import TokenStore
from support.waiting import eventually, is_alive
from waterclock.core.runtime.settings import Settings
from waterclock.proto.events import Outcome, OutcomeRejected, RunReturned, RunStarted, RunSucceeded
from waterclock.proto.spec import Argv, Handler, Shell
from waterclock.proto.verdicts import ClaimVerdict
from waterclock.proto.work import ClaimReply, ClaimRequest


async def test_a_killed_executor_takes_its_processes_with_it_and_another_reruns_them(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    script = f"echo $$ >> {pids}; (setsid sleep 300 & echo $! >> {pids}); [ -e {tmp_path}/go ] || sleep 300"
    async with executor_process(settings) as doomed:
        item = await owner.submit(Shell(command=script))
        await owner.start_of(item)
        await eventually(lambda: len(_numbers(pids)) == 2, "two processes")
        doomed.send(signal.SIGKILL)
        died = time.monotonic()
        await eventually(lambda: not any(map(is_alive, _numbers(pids))), "no orphans", within=3)
    (tmp_path / "go").touch()
    owner.verdict = lambda _: ClaimReply(verdict="run", crash_count=1)
    async with running_executor(settings) as executor:
        end = await owner.end_of(item, RunSucceeded)
        assert time.monotonic() - died < 10
        assert end.executor_id == executor.executor_id
        assert [claim.delivered for claim in owner.claims] == [2]
        await owner.nothing_left()


async def test_a_redelivery_is_run_only_if_the_owner_says_so(owner: FakeOwner, settings: Settings) -> None:
    verdicts: list[ClaimVerdict] = ["wait", "drop"]

    def answer(_: ClaimRequest) -> ClaimReply:
        return ClaimReply(verdict=verdicts[min(len(owner.claims) - 1, 1)])

    owner.verdict = answer
    async with running_executor(settings):
        item = await owner.submit(Argv(command=("true",)), run={"recovered": True})
        await owner.nothing_left()
        assert len(owner.claims) == 2
        assert owner.of(item) == []


async def test_a_claim_nobody_answers_is_asked_again(owner: FakeOwner, settings: Settings) -> None:
    asked = 0

    def answer(_: ClaimRequest) -> ClaimReply:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RuntimeError("the owner is changing")
        return ClaimReply(verdict="run")

    owner.verdict = answer
    async with running_executor(settings):
        item = await owner.submit(Argv(command=("true",)), run={"recovered": True})
        await owner.end_of(item, RunSucceeded)


async def test_a_drained_executor_finishes_what_it_can_and_hands_back_the_rest(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    async with executor_process(msgspec.structs.replace(settings, grace_seconds=1.0)) as leaving:
        short = await owner.submit(Argv(command=("sleep", "0.6")))
        long = await owner.submit(Argv(command=("sleep", "300")))
        await owner.start_of(short)
        await owner.start_of(long)
        leaving.send(signal.SIGTERM)
        assert await leaving.ended() == 0
    await owner.end_of(short, RunSucceeded)
    returned = await owner.end_of(long, RunReturned)
    assert returned.attempt == 1
    await owner.nothing_left()


async def test_a_paused_executor_adopts_its_own_redelivery(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    """Back after the ack deadline, it is handed again what it still runs: it goes on, and asks nobody."""
    count = tmp_path / "count"
    async with executor_process(settings) as paused:
        item = await owner.submit(
            Shell(command=f"echo x >> {count}; until [ -e {tmp_path}/go ]; do sleep 0.1; done")
        )
        await owner.start_of(item)
        paused.send(signal.SIGSTOP)
        stopped = time.monotonic()
        await eventually(
            lambda: time.monotonic() - stopped > settings.ack_wait_seconds + 0.5, "past the deadline"
        )
        paused.send(signal.SIGCONT)
        await eventually(lambda: owner.deliveries(item, 2), "a second delivery")
        (tmp_path / "go").touch()
        await owner.end_of(item, RunSucceeded)
        await owner.nothing_left()
    assert count.read_text() == "x\n"
    assert owner.claims == []


async def test_exactly_once_survives_a_stopped_executor(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    """The late attempt cannot write to a store that checks the token, and its outcome is kept as rejected."""
    effects = tmp_path / "effects"
    script = f"""
    echo "start $WATERCLOCK_FENCING_TOKEN $(date +%s.%N)" >> {effects}
    sleep 8
    echo "end $WATERCLOCK_FENCING_TOKEN $(date +%s.%N)" >> {effects}
    """
    owner.verdict = lambda _: ClaimReply(verdict="run", crash_count=1)
    async with executor_process(settings) as first, executor_process(settings) as second:
        item = await owner.submit(Shell(command=script), delivery="exactly_once")
        start = await owner.start_of(item)
        holder = first if await owner.pid_of(start.executor_id) == first.pid else second
        await eventually(lambda: effects.exists() and effects.read_text().endswith("\n"), "its first line")
        holder.send(signal.SIGSTOP)
        await owner.until(lambda: len(_starts(owner, item.run_id)) == 2, "a second start", within=30)
        holder.send(signal.SIGCONT)
        await owner.until(
            lambda: any(isinstance(e, OutcomeRejected) for e in owner.of(item)), "a rejected outcome"
        )
        await owner.until(lambda: any(isinstance(e, RunSucceeded) for e in owner.of(item)), "a success")
        await owner.nothing_left()
    rejected = next(e for e in owner.of(item) if isinstance(e, OutcomeRejected))
    outcomes = [e for e in owner.of(item) if isinstance(e, Outcome)]
    assert len(outcomes) == 1
    assert rejected.fencing_token < (outcomes[0].fencing_token or 0)
    lines = [line.split() for line in effects.read_text().splitlines()]
    assert [(what, token) for what, token, _ in lines] == [
        ("start", str(rejected.fencing_token)),
        ("start", str(outcomes[0].fencing_token)),
        ("end", str(outcomes[0].fencing_token)),
    ]


async def test_a_handler_that_wakes_up_late_cannot_write_to_a_store_that_checks_the_token(
    owner: FakeOwner, settings: Settings, tmp_path: Path
) -> None:
    store = TokenStore(tmp_path / "effects")
    owner.verdict = lambda _: ClaimReply(verdict="run", crash_count=1)
    with_worker = msgspec.structs.replace(settings, worker=("executor_rig.token_store:worker",))
    async with executor_process(with_worker) as first, executor_process(with_worker) as second:
        item = await owner.submit(
            Handler(handler="effect"), payload=str(tmp_path / "effects"), delivery="exactly_once"
        )
        start = await owner.start_of(item)
        holder = first if await owner.pid_of(start.executor_id) == first.pid else second
        holder.send(signal.SIGSTOP)
        await owner.until(
            lambda: any(isinstance(e, RunSucceeded) for e in owner.of(item)), "a success", within=30
        )
        holder.send(signal.SIGCONT)
        await owner.until(
            lambda: any(isinstance(e, OutcomeRejected) for e in owner.of(item)), "a rejected outcome"
        )
        await owner.nothing_left()
    late, current = [token for token, what in store.read() if what == "begin"]
    assert late < current
    assert [token for token, what in store.read() if what == "effect"] == [current]


def _starts(owner: FakeOwner, run_id: str) -> list[RunStarted]:
    return [e for e in owner.events if isinstance(e, RunStarted) and e.run_id == run_id]


def _numbers(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []
