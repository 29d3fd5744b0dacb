"""A line of a crontab is imported with its meaning, or refused with the reason."""

import os
import subprocess
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from unit.api import crontab_oracle as oracle
from waterclock.api.cli.crontab import Reading, read_crontabs
from waterclock.core.domain.instants import datetime_of, instant_of
from waterclock.core.domain.job.parse import define_body
from waterclock.core.domain.schedule.fires import compile
from waterclock.proto.spec import Argv, JobSpec, Shell

HERE = Path(__file__).parent / "crontabs"
DEBIAN = sorted((HERE / "debian").iterdir())
LINES = [line for line in (HERE / "lines.txt").read_text().splitlines() if not line.startswith("#")]
STARTS = (datetime(2026, 1, 1), datetime(2027, 12, 30, 23, 58), datetime(2028, 2, 27, 12, 1))
NOW = instant_of(datetime(2025, 1, 1, tzinfo=UTC))
UTC_READING = Reading(zone="UTC", me="me")
Job = dict[str, Any]


def imported(text: str, tmp_path: Path, reading: Reading = UTC_READING, name: str = "crontab") -> list[Job]:
    file = tmp_path / name
    file.write_text(text)
    jobs, refused, _ = read_crontabs([file], reading)
    assert refused == []
    return [job for _, job in jobs]


def refusals(text: str, tmp_path: Path, reading: Reading = UTC_READING, name: str = "crontab") -> list[str]:
    file = tmp_path / name
    file.write_text(text)
    return [reason for _, reason in read_crontabs([file], reading)[1]]


def spec_of(job: Job) -> JobSpec:
    return define_body(dict(job), NOW)


def fires(job: Job, start: datetime, n: int) -> list[datetime]:
    spec = spec_of(job)
    compiled, at, found = (
        compile(spec.schedule, spec.name),
        instant_of(start.replace(tzinfo=UTC)),
        list[datetime](),
    )
    while len(found) < n and (fire := compiled.at_or_after(at)) is not None:
        found.append(datetime_of(fire.scheduled).replace(tzinfo=None))
        at = fire.scheduled + 1
    return found


def test_there_are_enough_lines() -> None:
    assert len(LINES) >= 200
    assert len(set(LINES)) == len(LINES)


@pytest.mark.parametrize("line", LINES)
def test_a_line_runs_when_cron_would_run_it(line: str, tmp_path: Path) -> None:
    (job,) = imported(line + "\n", tmp_path)
    for start in STARTS:
        assert fires(job, start, 40) == list(islice(oracle.read(line).times(start), 40))


@pytest.mark.parametrize("line", LINES)
def test_a_line_runs_what_cron_would_run(line: str, tmp_path: Path) -> None:
    (job,) = imported(line + "\n", tmp_path)
    program, said = oracle.program_and_input(oracle.read(line).rest)
    task = spec_of(job).task
    assert isinstance(task, Shell)
    if "%" in oracle.read(line).rest.replace("\\%", ""):
        assert f"{said}" in task.command
    else:
        assert task.command in (program, f'cd "${{HOME:-/}}" || exit; {program}')


@pytest.mark.parametrize(
    "command",
    [
        "echo a\\\\b",
        'echo "a \\% b" "c d"',
        "cat%one line",
        "cat%%two",
        "cat%100\\% sure%second line\\n",
        'cat%it\'s "quoted" $HOME%%last%',
        "pwd; ls",
        "cd /tmp && pwd",
        "false || echo 'x' # not a comment",
        "echo one & wait",
        "wc -c",
        "read a; echo $a; exit 3%first%second",
    ],
)
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_it_does_what_cron_would_do(command: str, shell: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "file").touch()
    program, said = oracle.program_and_input(command)
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    theirs = subprocess.run(
        [shell, "-c", program], input=said.encode(), cwd=home, env=env, capture_output=True, check=False
    )
    (job,) = imported(f"SHELL={shell}\n* * * * * {command}\n", tmp_path)
    task = spec_of(job).task
    assert isinstance(task, Shell | Argv)
    argv = ["/bin/sh", "-c", task.command] if isinstance(task, Shell) else list(task.command)
    ours = subprocess.run(argv, input=b"", cwd="/", env=env, capture_output=True, check=False)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)


@pytest.mark.parametrize("file", DEBIAN, ids=lambda file: file.name)
def test_debians_own_files_keep_their_times_users_and_commands(file: Path) -> None:
    users = ("amavis", "www-data", "clamav", "logcheck", "list", "munin")
    queues = {user: f"as-{user}" for user in users}
    reading = Reading(zone="UTC", system=True, me="root", queues=queues, without_mail=True)
    jobs, refused, notes = read_crontabs([file], reading)
    lines = [line for line in file.read_text().splitlines() if line and line[0] in "*0123456789"]
    assert len(jobs) == len(lines) > 0
    assert all("@reboot" in reason for _, reason in refused)
    for line, (_, job) in zip(lines, jobs, strict=True):
        expected = oracle.read(line)
        user, command = expected.rest.split(None, 1)
        program, _ = oracle.program_and_input(command)
        assert job["command"].removeprefix('cd "${HOME:-/}" || exit; ') == program
        assert job["labels"]["user"] == user
        assert job.get("queue") == (None if user == "root" else f"as-{user}")
        assert (job["overlap"], job["max_retries"]) == ("allow", 0)
        assert fires(job, STARTS[0], 40) == list(islice(expected.times(STARTS[0]), 40))
    if any(job["labels"]["user"] == "root" for _, job in jobs):
        assert notes == ["lines of root run as the executors do: they must run as root"]


def test_the_first_command_of_etc_crontab_is_whole() -> None:
    reading = Reading(zone="UTC", system=True, me="root")
    (_, first), *others = read_crontabs([HERE / "debian" / "crontab"], reading)[0]
    assert first["command"] == "cd / && run-parts --report /etc/cron.hourly"
    assert first["name"] == "run-parts --report /etc/cron.hourly"
    assert first["env"]["PATH"].startswith("/usr/local/sbin:")
    assert len(others) == 3


@pytest.mark.parametrize("line", [*(HERE / "refused.txt").read_text().splitlines()[1:]])
def test_what_cannot_mean_the_same_is_refused_with_the_reason(line: str, tmp_path: Path) -> None:
    text, _, reason = line.rpartition("|")
    found = refusals(text + "\n", tmp_path)
    assert len(found) == 1
    assert reason in found[0]


def test_a_star_in_a_day_field_is_an_and(tmp_path: Path) -> None:
    (job,) = imported("0 */2 */2 * 1 x\n", tmp_path)
    assert job["cron_expression"] == "0 */2 */2 * +1"


def test_somebody_elses_line_needs_a_queue(tmp_path: Path) -> None:
    text = "0 3 * * * www-data php x.php\n0 4 * * * me run\n"
    system = Reading(zone="UTC", me="me", system=True)
    (reason,) = refusals(text, tmp_path, system)
    assert "runs as www-data" in reason
    assert "--user www-data=QUEUE" in reason
    jobs = imported(text, tmp_path, Reading(zone="UTC", me="me", system=True, queues={"www-data": "web"}))
    assert [job.get("queue") for job in jobs] == ["web", None]
    assert [job["labels"]["user"] for job in jobs] == ["www-data", "me"]
    assert "no command after the user" in refusals("0 3 * * * root\n", tmp_path, system)[0]


def test_a_file_of_cron_d_and_a_spooled_one_tell_the_user_themselves(tmp_path: Path) -> None:
    for folder in ("cron.d", "crontabs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cron.d" / "php").write_text("0 3 * * * me run\n")
    (tmp_path / "cron.d" / "php.dpkg-old").write_text("0 3 * * * me run\n")
    (tmp_path / "crontabs" / "al.ice").write_text("0 3 * * * run\n")
    jobs, refused, notes = read_crontabs([tmp_path / "cron.d", tmp_path / "crontabs"], UTC_READING)
    assert [job["command"].rpartition(" ")[2] for _, job in jobs] == ["run"]
    assert [reason.partition(":")[0] for _, reason in refused] == ["runs as al.ice"]
    assert "php.dpkg-old" in notes[0]


def test_mail_is_refused_unless_it_may_be_left_out(tmp_path: Path) -> None:
    text = "MAILTO=ops@example.org\n0 3 * * * report\nMAILTO=\n0 4 * * * quiet\n"
    (reason,) = refusals(text, tmp_path)
    assert "MAILTO=ops@example.org" in reason
    jobs = imported(text, tmp_path, Reading(zone="UTC", me="me", without_mail=True))
    assert len(jobs) == 2
    assert all("MAILTO" not in job.get("env", {}) for job in jobs)


def test_settings_hold_for_the_lines_below_them(tmp_path: Path) -> None:
    text = (
        '0 1 * * * one\nA=1\nB = \'two words\' \n"C"="it\'s"\nD=a=b  c \nTZ=Asia/Tokyo\n'
        "0 2 * * * two\nCRON_TZ=Europe/Paris\nRANDOM_DELAY=45\nA=\n0 3 * * * three\n"
    )
    one, two, three = imported(text, tmp_path)
    assert "env" not in one
    assert two["env"] == {"A": "1", "B": "two words", "C": "it's", "D": "a=b  c", "TZ": "Asia/Tokyo"}
    assert two["timezone"] == "UTC"  # cron goes by the machine's clock; TZ is for the command
    assert (three["timezone"], three["jitter_seconds"], three["env"]["A"]) == ("Europe/Paris", 2700, "")
    assert "RANDOM_DELAY=x is no number" in refusals("RANDOM_DELAY=x\n0 1 * * * y\n", tmp_path)[0]
    assert "'A-B'" in refusals("A-B=1\n0 1 * * * y\n", tmp_path)[0]


def test_a_random_minute_is_drawn_from_the_name(tmp_path: Path) -> None:
    (job,) = imported("0~30 3 * * * x\n", tmp_path)
    assert job["cron_expression"] == "H(0-30) 3 * * *"
    assert refusals("30~10 3 * * * x\n", tmp_path)


def test_minutes_that_follow_the_hands_do_so_when_the_clocks_change(tmp_path: Path) -> None:
    hands, fixed, elapsed = imported("*/30 2 * * * x\n30 2 * * * y\n*/30 * * * * z\n", tmp_path)
    assert (hands["dst_gap"], hands["dst_overlap"]) == ("skip", "both")
    assert "dst_gap" not in fixed
    assert "dst_gap" not in elapsed


def test_a_line_that_stands_twice_runs_twice(tmp_path: Path) -> None:
    first, second = imported("0 3 * * * x\n0 3 * * * x\n", tmp_path)
    assert second["job_id"] == f"{first['job_id']}-2"


def test_an_anacrontab_is_not_taken_for_a_crontab(tmp_path: Path) -> None:
    found = refusals(
        "1\t5\tcron.daily\trun-parts /etc/cron.daily\n@monthly\t15\tcron.monthly\trun-parts x\n",
        tmp_path,
        name="anacrontab",
    )
    assert len(found) == 2


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup.sh full", "backup.sh full"),
        ("cd / && run-parts --report /etc/cron.hourly", "run-parts --report /etc/cron.hourly"),
        ("[ -x /a ] && if [ ! -d /b ]; then /usr/lib/php/sessionclean; fi", "sessionclean"),
        ("command -v debian-sa1 > /dev/null && debian-sa1 1 1", "debian-sa1 1 1"),
        ("LANG=C nice -n19 /usr/bin/heavy", "heavy"),
        ("cd /tmp", "cd /tmp"),
    ],
)
def test_a_job_is_called_what_it_runs(command: str, name: str, tmp_path: Path) -> None:
    (job,) = imported(f"* * * * * {command}\n", tmp_path)
    assert job["name"] == name
