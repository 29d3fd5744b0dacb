"""F3, F11, S9, S10: what a job tries to get at from inside. The program is as it is shipped."""

import io
import json
import os
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

from support.program import Program
from support.waiting import wait_until

AS_ROOT = os.geteuid() == 0
_numbers = iter(range(1, 10_000))


def start(shipped: Program, command: Any, **fields: Any) -> str:
    job_id = f"attack-{next(_numbers)}"
    shipped.post("/v1/jobs", {"job_id": job_id, "command": command, "max_retries": 0, **fields})
    return job_id


def said(shipped: Program, job_id: str) -> str:
    run = shipped.run_of(job_id)
    return shipped.http.get(f"/v1/runs/{run['run_id']}/log").text


def attack(shipped: Program, script: str, **fields: Any) -> str:
    """What a shell script printed, errors included, run as a job."""
    return said(shipped, start(shipped, ["sh", "-c", f"exec 2>&1; {script}"], **fields))


def secrets(shipped: Program) -> list[str]:
    connection = shipped.connection
    passwords = [connection[name].split("@")[0].rsplit(":", 1)[1] for name in ("nats", "database")]
    credentials = json.loads((shipped.data / "nats" / "credentials.json").read_text())
    return [connection["token"], *passwords, *credentials["users"].values()]


def test_a_job_does_not_see_the_data_directory(shipped: Program) -> None:
    data = shipped.data
    output = attack(
        shipped,
        f"cat {data}/connection.json {data}/nats/* {data}/nats/credentials.json; ls -A {data} | wc -l;"
        f"cat /proc/self/root{data}/connection.json /proc/$PPID/root{data}/connection.json;"
        f"ln -s {data} here && cat here/connection.json; cd {data}/.. && cat data/connection.json;"
        f"umount {data}; cat {data}/connection.json; unshare -Urm sh -c 'umount {data}; cat {data}/connection.json';"
        f"echo end",
    )
    assert output.rstrip().endswith("end")
    assert "\n0\n" in output, "it is an empty directory"
    assert not [secret for secret in secrets(shipped) if secret in output]
    assert '"token"' not in output


def test_a_job_reads_nothing_of_our_processes(shipped: Program) -> None:
    pids = [pid for of_one in shipped.processes().values() for pid in of_one]
    targets = " ".join(str(pid) for pid in pids)
    output = attack(
        shipped,
        f"for p in $PPID {targets}; do for f in environ mem maps auxv fd/0 cwd/. root/. ; do"
        " if head -c 1 /proc/$p/$f >/dev/null 2>&1 || ls /proc/$p/$f/ >/dev/null 2>&1; then echo READ $p $f; fi;"
        " done; done; echo end",
    )
    assert "READ" not in output
    assert output.rstrip().endswith("end")


def test_our_processes_hold_no_secret_in_their_environment_and_no_more_than_they_need(
    shipped: Program,
) -> None:
    for component in ("scheduler", "executor", "projector", "api"):
        for pid in shipped.processes()[component]:
            environment = Path(f"/proc/{pid}/environ").read_text() if AS_ROOT else ""
            assert not [secret for secret in secrets(shipped) if secret in environment]


@pytest.mark.skipif(not AS_ROOT, reason="only root can give jobs users of their own")
def test_each_job_has_a_user_of_its_own_and_reaches_no_other(shipped: Program) -> None:
    victim = start(shipped, ["sh", "-c", "echo precious > mine; id -u; echo $$; pwd; sleep 60"])
    text = wait_until(lambda: _three_lines(shipped, victim), "the victim to say where it is")
    user, pid, directory = text.split()[:3]
    assert int(user) >= 60_000
    output = attack(
        shipped,
        f"id -u; cat {directory}/mine /proc/{pid}/cwd/mine; ls {directory} {directory}/..; kill -9 {pid};"
        f" cat /proc/{pid}/environ; kill -9 $PPID; echo end",
    )
    assert output.split()[0] != user
    assert "precious" not in output
    assert output.count("ermitted") == 2, output
    assert output.rstrip().endswith("end")
    assert shipped.get(f"/v1/jobs/{victim}/status")["latest_run"]["status"] == "RUNNING"
    shipped.http.post(f"/v1/jobs/{victim}/cancel")


def _three_lines(shipped: Program, job_id: str) -> str | None:
    run = shipped.get(f"/v1/jobs/{job_id}/status").get("latest_run")
    if run is None or run["status"] != "RUNNING":
        return None
    text = shipped.http.get(f"/v1/runs/{run['run_id']}/log").text
    return text if len(text.split()) >= 3 else None


def test_processes_are_limited_and_others_run_on(shipped: Program) -> None:
    bomb = start(shipped, ["sh", "-c", "for i in $(seq 3000); do sleep 30 & done; echo survived; wait"])
    run = shipped.run_of(bomb, 60.0)
    assert run["status"] == "FAILED"
    assert "survived" not in said(shipped, bomb)
    assert "hello" in attack(shipped, "echo hello")


def test_the_size_of_files_is_limited(shipped: Program) -> None:
    fill = "dd if=/dev/zero of=big bs=1M count={} 2>/dev/null"
    job_id = start(shipped, ["sh", "-c", f"exec {fill.format(12)}"])
    run = shipped.run_of(job_id)
    assert (run["status"], "size of a file" in run["reason"]) == ("FAILED", True), run
    assert "ok" in attack(shipped, f"{fill.format(6)} && echo ok")
    assert "ok" in attack(shipped, f"{fill.format(12)} && echo ok", limits={"file_bytes": 100 << 20})
    more = start(shipped, ["sh", "-c", fill.format(40)], limits={"file_bytes": 100 << 20})
    assert shipped.run_of(more)["status"] == "FAILED", "no more than the maximum"


def test_there_are_no_core_dumps_and_no_way_to_privileges(shipped: Program) -> None:
    output = attack(shipped, "ulimit -c; grep -E 'NoNewPrivs|CapEff' /proc/self/status | cut -f2")
    core, *rest = output.split()
    assert core == "0"
    assert "1" in rest
    if AS_ROOT:
        assert "0000000000000000" in rest


def test_artifacts_run_and_can_be_unpacked_and_cannot_be_changed(shipped: Program) -> None:
    script = (
        b'#!/bin/sh\necho ran; echo evil > "$0"; chmod 777 "$0"; rm -f "$0"; ls "$(dirname "$0")" | wc -l\n'
    )
    plain = shipped.http.post("/v1/artifacts", content=script).json()["artifact"]
    for _ in range(2):
        job_id = start(shipped, None, artifact=plain)
        assert shipped.run_of(job_id)["status"] == "SUCCESS"
        assert said(shipped, job_id).startswith("ran")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in {
            "bin/run": b"#!/bin/sh\ncat data\ntouch here && echo wrote\n",
            "data": b"read\n",
        }.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            archive.addfile(info, io.BytesIO(content))
    artifact = shipped.http.post("/v1/artifacts", content=packed.getvalue()).json()["artifact"]
    job_id = start(shipped, None, artifact=artifact, entry="bin/run")
    assert said(shipped, job_id).split() == ["read", "wrote"]


def test_doctor_and_status_say_what_protects_this_machine(shipped: Program) -> None:
    [executor] = shipped.get("/v1/executors")["items"]
    assert executor["protections"]["data_directory"] == ""
    assert executor["protections"]["inspection"] == ""
    assert (executor["protections"]["job_users"] == "") == AS_ROOT
    checks = {check["name"]: check for check in shipped.get("/v1/status")["checks"]}
    assert "data directory" in checks["confinement"]["detail"]
    shown = shipped.cli("doctor")
    assert shown.returncode == 0, shown.stdout
    assert "data directory on" in shown.stdout


_AS_ORDINARY_USER = """
import ctypes, json, os, subprocess, sys
from waterclock.executor.warden.confinement import Confinement, close_to_inspection, confine
data, forbidden = sys.argv[1:]
libc = ctypes.CDLL(None)
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    libc.prctl(4, 1, 0, 0, 0)  # as it is for whoever began as that user
libc.prctl(38, 1, 0, 0, 0)
if forbidden == "yes":
    libc.unshare = lambda flags: -1
    import waterclock.executor.warden.confinement as confinement
    class Refusing:
        def __getattr__(self, name): return (lambda *a: -1) if name == "unshare" else getattr(libc, name)
    confinement._libc = Refusing()
outside = os.getppid()
found = confine(Confinement(hidden=[data], processes=50, processes_max=50, file_bytes=1 << 20))
close_to_inspection()
look = f"head -c1 /proc/{os.getpid()}/environ; head -c1 /proc/{outside}/environ;"
job = subprocess.run(["/bin/sh", "-c", f"ls -A {data}; {look}"
    f"umount {data}; ls -A {data}; grep CapEff /proc/self/status"], capture_output=True, text=True)
print(json.dumps([found, job.stdout, job.stderr]))
"""


@pytest.mark.parametrize("forbidden", ["no", "yes"])
def test_an_ordinary_user_has_it_by_a_user_namespace_or_is_told_that_it_cannot(forbidden: str) -> None:
    """In a directory that everybody can read, so that only what is tried here stands in the way."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        (Path(directory) / "connection.json").write_text("token")
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(_AS_ORDINARY_USER), directory, forbidden],
            capture_output=True,
            text=True,
            check=True,
        )
    found, stdout, stderr = json.loads(ended.stdout)
    if forbidden == "yes":
        assert "no mount namespace" in found["data_directory"]
        assert "connection.json" in stdout
        return
    if found["data_directory"]:
        pytest.skip(f"this machine allows no user namespaces: {found['data_directory']}")
    assert "connection.json" not in stdout
    assert "CapEff:\t0000000000000000" in stdout
    assert stderr.count("ermission denied") + stderr.count("must be superuser") >= 2, stderr
