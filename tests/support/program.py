"""The real program, as a user has it: `waterclock up` in a directory, spoken to from outside only."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from support.waiting import wait_until

COMPONENTS = ("scheduler", "executor", "projector", "api", "nats", "postgres")


class Program:
    """One `waterclock up`, its REST interface, its command line and its processes."""

    def __init__(self, data: Path, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        self.data = data
        self._flags = flags
        self._environment = {**os.environ, **(environment or {}), "WATERCLOCK_DATA": str(data)}
        self._process: subprocess.Popen[bytes] | None = None
        self._http: httpx.Client | None = None

    # -- its life -----------------------------------------------------------------------------------------

    def start(self, deadline: float = 60.0) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        with (self.data.parent / f"{self.data.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "waterclock.api.cli", "up", "--port", "0", *self._flags],
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,
            )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        said = b""

        def ready() -> bool:
            nonlocal said
            assert self._process is not None
            assert self._process.stdout is not None
            said += self._process.stdout.read() or b""
            if self._process.poll() is not None:
                raise AssertionError(f"up ended with {self._process.returncode}: {self.log()[-3000:]}")
            return b"ready: http" in said

        wait_until(ready, "the program to be ready", deadline)
        self._http = httpx.Client(
            base_url=self.connection["http"],
            headers={"Authorization": f"Bearer {self.connection['token']}"},
            timeout=20,
        )

    def stop(self) -> int:
        """Ask it to end, as Ctrl-C does; answers its exit code."""
        assert self._process is not None
        if self._http is not None:
            self._http.close()
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(60)
        finally:
            self._process = None

    def kill_everything(self) -> None:
        """SIGKILL of the supervisor and of every process it has, at once."""
        assert self._process is not None
        pids = [pid for of_one in self.processes().values() for pid in of_one]
        self._process.kill()
        for pid in pids:
            _kill(pid)
        self._process.wait(20)
        self._process = None

    def processes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = json.loads((self.data / "processes.json").read_text())
        return found

    def kill(self, component: str, how: signal.Signals = signal.SIGKILL) -> int:
        """Signal one process of a component; answers its pid."""
        [pid, *_] = wait_until(lambda: self.processes()[component], f"a {component}")
        os.kill(pid, how)
        return pid

    def log(self) -> str:
        return (self.data.parent / f"{self.data.name}.log").read_text(errors="replace")

    def violations(self) -> list[str]:
        """What components tried on NATS and have no right to."""
        log = (self.data / "logs" / "nats.log").read_text(errors="replace")
        return [line for line in log.splitlines() if "Violation" in line]

    @property
    def connection(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.data / "connection.json").read_text())
        return found

    # -- speaking to it -----------------------------------------------------------------------------------

    @property
    def http(self) -> httpx.Client:
        assert self._http is not None
        return self._http

    def get(self, path: str, **parameters: Any) -> Any:
        answer = self.http.get(path, params=parameters)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        return answer.json()

    def post(self, path: str, body: Any = None, *, status: int = 201, **options: Any) -> Any:
        answer = self.http.post(path, json=body, **options)
        assert answer.status_code == status, f"{answer.status_code} {answer.text}"
        return answer.json()

    def cli(
        self, *words: str, stdin: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "waterclock.api.cli", *words],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def disagreements(self) -> list[str]:
        """Where REST, SQL, why, the queues and the log do not say the same, of all jobs and runs there are."""
        answer = self.http.get(
            "/v1/consistency",
            params={"all": "true"},
            headers={"Authorization": f"Bearer {self.connection['token']}"},  # it may have been replaced
            timeout=150,
        )
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        result = json.loads(answer.text.strip().splitlines()[-1])
        return [] if result["ok"] else [result["note"], *map(str, result["disagreements"])]

    def run_of(self, job_id: str, deadline: float = 30.0) -> dict[str, Any]:
        """The job's latest run once it has ended."""

        def ended() -> dict[str, Any] | None:
            answer = self.http.get(f"/v1/jobs/{job_id}/status")
            run = answer.json().get("latest_run") if answer.status_code == 200 else None
            return run if run is not None and run["status"] in ENDED else None

        return wait_until(ended, f"{job_id} to end", deadline)


ENDED = ("SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "MISSED")


@contextmanager
def program(
    data: Path, *flags: str, environment: Mapping[str, str] | None = None, compare: bool = True
) -> Iterator[Program]:
    """`compare`: in the end all its doors must say the same."""
    started = Program(data, *flags, environment=environment)
    try:
        started.start()
        yield started
        if compare and started._process is not None:
            assert (found := started.disagreements()) == [], "\n".join(found)
    finally:
        if started._process is not None:
            assert started.stop() == 0, started.log()[-3000:]
            assert (seen := started.violations()) == [], seen


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A whole process tree stopped as it stands, and let go again."""
    tree = [pid, *_descendants(pid)]
    for each in tree:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in reversed(tree):
            os.kill(each, signal.SIGCONT)


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found
