"""What attempts say: in order, live, limited, masked, kept."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import RunningExecutor, running_executor
from support.waiting import eventually
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.runtime.settings import Settings
from waterclock.core.store.jetstream_store import JetStreamStore
from waterclock.core.store.store import log_name
from waterclock.executor import Context, Worker
from waterclock.proto import names
from waterclock.proto.events import Outcome, RunFailed, RunSucceeded
from waterclock.proto.policies import Limits
from waterclock.proto.spec import Argv, Handler, Shell
from waterclock.proto.work import WorkItem

worker = Worker()


@worker.handler("talk")
async def talk(context: Context, payload: str) -> None:
    context.log(payload)


@worker.handler("talk_in_thread")
def talk_in_thread(context: Context, payload: str) -> None:
    for line in payload.split():
        context.log(line)


@pytest.fixture
async def executor(owner: FakeOwner, settings: Settings) -> AsyncIterator[RunningExecutor]:
    async with running_executor(settings, [worker]) as executor:
        yield executor


async def log_of(owner: FakeOwner, item: WorkItem) -> bytes:
    store = JetStreamStore(owner.connection, Publisher(owner.connection), names.LOGS)
    return b"".join([piece async for piece in store.get(log_name(item.run_id, item.attempt))])


async def test_output_and_errors_are_kept_in_the_order_written(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    script = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    item = await owner.submit(Shell(command=script))
    await owner.end_of(item, RunSucceeded)
    expected = "".join(f"out {n}\nerr {n}\n" for n in range(300))
    assert (await log_of(owner, item)).decode() == expected


async def test_the_last_line_of_standard_output_is_the_output_whatever_errors_follow(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    item = await owner.submit(Shell(command="""echo working; echo '{"rows": 3}'; echo done >&2"""))
    assert (await owner.end_of(item, RunSucceeded)).output == {"rows": 3}


async def test_an_error_line_is_no_output(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Shell(command="""echo plain; echo '{"rows": 3}' >&2"""))
    assert (await owner.end_of(item, RunSucceeded)).output is None


async def test_output_over_the_limit_is_cut_with_a_mark_and_still_gives_its_last_line(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    item = await owner.submit(
        Shell(command="head -c 1000000 /dev/zero | tr '\\0' x; echo; echo 42"),
        limits=Limits(output_bytes=1000),
    )
    assert (await owner.end_of(item, RunSucceeded)).output == 42
    kept = await log_of(owner, item)
    assert kept[:1000] == b"x" * 1000
    assert kept[1000:] == b"\n[output over the limit: 999004 bytes dropped]\n"


async def test_any_bytes_are_kept(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Argv(command=("head", "-c", "300000", "/dev/zero")))
    await owner.end_of(item, RunSucceeded)
    assert await log_of(owner, item) == bytes(300_000)


async def test_nothing_said_is_nothing_kept(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Argv(command=("true",)))
    assert (await owner.end_of(item, RunSucceeded)).log_url is None


async def test_secrets_are_masked_in_the_log_the_message_and_live(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    received: list[bytes] = []
    task = Shell(command='echo "token $TOKEN"; echo "$TOKEN" >&2; exit 1', env={"TOKEN": "hunter2-secret"})
    item = owner.item(task, secrets=("TOKEN",))
    await owner.connection.nc.tap(
        names.log_filter(item.run_id), lambda _s, _r, _h, data: received.append(data)
    )
    await owner.give(item)
    end = await owner.end_of(item, RunFailed)
    kept = await log_of(owner, item)
    assert kept == b"token ***\n***\n"
    assert end.error_message == "token ***\n***"
    await eventually(lambda: b"".join(received) == kept, "the same live")


async def test_output_can_be_followed_from_the_middle(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Shell(command="echo one; read line < /dev/null; sleep 0.5; echo two"))
    await eventually(lambda: owner.said(executor.executor_id, item, b"one\n"), "its first line")
    received: dict[int, bytes] = {}
    any_received = asyncio.Event()

    def receive(subject: bytes, _reply: bytes, _headers: bytes, data: bytes) -> None:
        received[int(subject.rsplit(b".", 1)[1])] = data
        any_received.set()

    await owner.connection.nc.tap(names.log_filter(item.run_id), receive)
    await asyncio.wait_for(any_received.wait(), 10)
    assert received == {4: b"two\n"}
    await owner.end_of(item, RunSucceeded)


@pytest.mark.parametrize("handler", ["talk", "talk_in_thread"])
async def test_handlers_talk_too(owner: FakeOwner, executor: RunningExecutor, handler: str) -> None:
    item = await owner.submit(Handler(handler=handler), payload="hello")
    end = await owner.end_of(item, RunSucceeded)
    assert end.log_url is not None
    assert await log_of(owner, item) == b"hello\n"


async def test_every_attempt_has_its_own_log(owner: FakeOwner, executor: RunningExecutor) -> None:
    first = await owner.submit(Shell(command="echo $WATERCLOCK_ATTEMPT; exit 1"), max_retries=1)
    await owner.end_of(first, RunFailed)
    second = msgspec.structs.replace(first, attempt=2, queued=first.queued + 1)
    await owner.give(second)
    await owner.until(lambda: len(owner.ends_of(first)) == 2, "a second end")
    assert await log_of(owner, first) == b"1\n"
    assert await log_of(owner, second) == b"2\n"
    assert all(isinstance(end, Outcome) and end.log_url for end in owner.ends_of(first))
