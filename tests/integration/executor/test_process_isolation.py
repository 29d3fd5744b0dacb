"""What a process sees, what it may use, and what it leaves behind."""

import asyncio
import os
import pwd
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import RunningExecutor, running_executor
from support.waiting import is_alive
from waterclock.core.runtime.settings import Settings
from waterclock.proto.events import RunFailed, RunSucceeded
from waterclock.proto.policies import Limits
from waterclock.proto.spec import Argv, Shell


@pytest.fixture
async def executor(
    owner: FakeOwner, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningExecutor]:
    monkeypatch.setenv("CANARY", "must not be seen")
    async with running_executor(settings) as executor:
        yield executor


PRINT_ENVIRONMENT = "import os, json; print(json.dumps(dict(os.environ)))"


async def test_the_environment_is_scrubbed_and_says_who_it_is(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    task = Argv(command=(sys.executable, "-c", PRINT_ENVIRONMENT), env={"COLOUR": "blue"})
    item = await owner.submit(task, payload={"user": 1}, run={"attempt": 2, "index": 7})
    env = (await owner.end_of(item, RunSucceeded)).output
    assert {name: value for name, value in env.items() if name.startswith("WATERCLOCK_")} == {
        "WATERCLOCK_ATTEMPT": "2",
        "WATERCLOCK_FENCING_TOKEN": "",
        "WATERCLOCK_IDEMPOTENCY_KEY": item.run_id,
        "WATERCLOCK_INDEX": "7",
        "WATERCLOCK_JOB_ID": item.job_id,
        "WATERCLOCK_PAYLOAD": '{"user":1}',
        "WATERCLOCK_RUN_ID": item.run_id,
        "WATERCLOCK_SCHEDULED_TIME": env["WATERCLOCK_SCHEDULED_TIME"],
        "WATERCLOCK_WARD": env["WATERCLOCK_WARD"],
    }
    assert env["COLOUR"] == "blue"
    others = {name for name in env if not name.startswith("WATERCLOCK_")}
    assert others <= {"PATH", "HOME", "LANG", "TZ", "COLOUR", "PWD", "LC_CTYPE", "_"}


async def test_the_payload_is_on_stdin_however_large(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(
        Shell(command='cat | wc -c; [ -z "$WATERCLOCK_PAYLOAD" ] && echo true'), payload="x" * 500_000
    )
    assert (await owner.end_of(item, RunSucceeded)).output is True


async def test_without_a_payload_stdin_is_empty(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Shell(command='set -u; cat; echo "\\"no input$WATERCLOCK_PAYLOAD\\""'))
    assert (await owner.end_of(item, RunSucceeded)).output == "no input"


async def test_it_has_a_directory_of_its_own_that_is_removed(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    item = await owner.submit(Shell(command='mkdir -p deep/er; touch deep/er/file; echo "\\"$PWD\\""'))
    directory = Path((await owner.end_of(item, RunSucceeded)).output)
    assert directory.is_absolute()
    assert await asyncio.to_thread(directory.exists) is False


async def test_what_it_leaves_running_is_killed(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(
        Shell(command="sleep 300 & echo $!; setsid sleep 300 >/dev/null 2>&1 & echo [$!]")
    )
    end = await owner.end_of(item, RunSucceeded)
    assert not is_alive(end.output[0])


async def test_a_job_that_holds_its_output_open_does_not_hang(
    owner: FakeOwner, executor: RunningExecutor
) -> None:
    item = await owner.submit(Shell(command="(setsid sleep 300 &); echo 1"))
    assert (await owner.end_of(item, RunSucceeded)).output == 1


async def test_it_leads_a_session_of_its_own(owner: FakeOwner, executor: RunningExecutor) -> None:
    script = "import os, json; print(json.dumps([os.getpid(), os.getpgid(0), os.getsid(0)]))"
    item = await owner.submit(Argv(command=(sys.executable, "-c", script)))
    pid, group, session = (await owner.end_of(item, RunSucceeded)).output
    assert pid == group == session


@pytest.mark.parametrize(
    ("limits", "script", "sign"),
    [
        (Limits(cpu_seconds=1), "while True: pass", "killed by SIG"),
        (Limits(memory_bytes=200 * 1024 * 1024), "bytearray(2**30)", "exit code 1"),
        (Limits(open_files=20), "x = [open('/dev/null') for _ in range(50)]", "exit code 1"),
    ],
    ids=["cpu", "memory", "files"],
)
async def test_limits_hold(
    owner: FakeOwner, executor: RunningExecutor, limits: Limits, script: str, sign: str
) -> None:
    item = await owner.submit(Argv(command=(sys.executable, "-c", script)), limits=limits)
    assert (await owner.end_of(item, RunFailed)).reason.startswith(sign)


async def test_limits_cannot_be_raised_again(owner: FakeOwner, settings: Settings) -> None:
    """By root they could, so as root we ask as somebody else."""
    somebody = "nobody" if os.geteuid() == 0 else None
    async with running_executor(msgspec.structs.replace(settings, run_as=somebody)):
        item = await owner.submit(
            Shell(command="ulimit -n 1000 2>/dev/null && echo true || echo false"),
            limits=Limits(open_files=20),
        )
        assert (await owner.end_of(item, RunSucceeded)).output is False


async def test_usage_is_recorded(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(
        Argv(command=(sys.executable, "-c", "x = bytearray(100_000_000); sum(range(10**6))"))
    )
    end = await owner.end_of(item, RunSucceeded)
    assert end.cpu_seconds is not None
    assert 0.01 < end.cpu_seconds < 10
    assert end.memory_bytes is not None
    assert 100_000_000 < end.memory_bytes < 300_000_000


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("no-such-program",), "cannot start no-such-program: no such program on PATH"),
        (("/etc/passwd",), "cannot start /etc/passwd: Permission denied"),
        (("/no/such/file",), "cannot start /no/such/file: No such file or directory"),
        (("true", "a\0b"), "cannot start true: embedded null byte"),
    ],
)
async def test_a_program_that_cannot_be_started_says_why(
    owner: FakeOwner, executor: RunningExecutor, command: tuple[str, ...], reason: str
) -> None:
    item = await owner.submit(Argv(command=command))
    assert (await owner.end_of(item, RunFailed)).reason == reason


async def test_a_signal_is_named(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Shell(command="kill -SEGV $$"))
    end = await owner.end_of(item, RunFailed)
    assert (end.reason, end.exit_code) == ("killed by SIGSEGV", 128 + 11)


async def test_arguments_arrive_as_they_are(owner: FakeOwner, executor: RunningExecutor) -> None:
    hostile = ("; echo no", "$(id)", "`id`", "a\nb", "-rf", "", "ü ☃")
    script = "import sys, json; print(json.dumps(sys.argv[1:]))"
    item = await owner.submit(Argv(command=(sys.executable, "-c", script, *hostile)))
    assert (await owner.end_of(item, RunSucceeded)).output == list(hostile)


async def test_it_may_run_as_somebody_else(owner: FakeOwner, settings: Settings) -> None:
    """Only root can choose; others run as themselves, which is a choice too."""
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    async with running_executor(msgspec.structs.replace(settings, run_as=user.pw_name)):
        item = await owner.submit(Shell(command='touch here && echo "[$(id -u), $(id -g)]"'))
        assert (await owner.end_of(item, RunSucceeded)).output == [user.pw_uid, user.pw_gid]


async def test_privileges_cannot_be_gained(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Shell(command="grep NoNewPrivs /proc/self/status | cut -f2"))
    assert (await owner.end_of(item, RunSucceeded)).output == 1
