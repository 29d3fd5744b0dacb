"""Crontabs: each line becomes a job that means the same, or is refused with the reason.

What is read is crontab(5) of Debian's cron, with what cronie adds: `CRON_TZ`, `RANDOM_DELAY` and `a~b`. A job of ours
is otherwise unlike a cron job in three ways that a line cannot say, and docs/schedules.md tells: nothing is mailed, it
has the executor's PATH, and several fires that one change of the clock leaves out become one.
"""

import getpass
import hashlib
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from waterclock.api.cli.exits import WrongUsage
from waterclock.core.domain.schedule.cron_expression import NICKNAMES

Declaration = tuple[str, dict[str, Any]]
Refused = tuple[str, str]
"""Where a line stands, and the job it is; or why it cannot be one."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 7, _WEEKDAYS),
)
_ELEMENT = re.compile(r"(?P<low>\*|\w+)(?:(?P<between>[-~])(?P<high>\w+))?(?:/(?P<step>\d+))?", re.ASCII)
_SETTING = re.compile(r"""\s*(?P<name>"[^"=]*"|'[^'=]*'|[^\s="']+)\s*=\s*(?P<value>"[^"]*"|'[^']*'|.*?)\s*""")
_NAMED = re.compile(r"\s*(?P<schedule>@\S+)[ \t]+(?P<command>\S.*)")
_TIMED = re.compile(r"\s*-?(?P<schedule>(?:[^\s]+[ \t]+){5})(?P<command>\S.*)")
_USER = re.compile(r"(?P<user>\S+)[ \t]+(?P<command>\S.*)")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_CRON_D_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_GOES_SOMEWHERE = re.compile(r"""cd\s+["']?(/|~|\$HOME|\$\{HOME\})""")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9]+")
_OPERATORS = re.compile(r"&&|\|\||[;|{}()]")
_PREPARES = frozenset(
    [
        "cd",
        "test",
        "[",
        "[[",
        "if",
        "fi",
        "while",
        "for",
        "done",
        "command",
        "sleep",
        "export",
        "set",
        ".",
        "source",
        "umask",
        "perl",
    ]
)
_WRAPPERS = frozenset(
    ["nice", "ionice", "env", "exec", "chronic", "sudo", "time", "nohup", "then", "do", "else", "!"]
)


class Reading(Struct, frozen=True, kw_only=True):
    """How crontabs are to be read."""

    zone: str
    """That of lines that name none."""
    system: bool = False
    """Lines name a user, as in /etc/crontab."""
    queues: Mapping[str, str] = {}
    """By user: the queue whose executors run as that user."""
    without_mail: bool = False
    """Lines whose output cron mails are taken without the mail."""
    me: str = ""
    """Whose lines need no queue of their own: executors are taken to run as who imports."""


class _Refusal(Exception):
    """Why a line cannot be a job."""


def read_crontabs(
    paths: Iterable[Path], reading: Reading
) -> tuple[list[Declaration], list[Refused], list[str]]:
    """The jobs, the lines that cannot be one with the reason, and what else is worth saying."""
    jobs: list[Declaration] = []
    refused: list[Refused] = []
    notes: list[str] = []
    seen: dict[str, int] = {}
    for file in _files(paths, notes):
        for number, line, env in _lines(file):
            where = f"{file}, line {number}"
            try:
                job = _job(line, env, file, reading)
            except _Refusal as refusal:
                refused.append((where, str(refusal)))
                continue
            count = seen[job["job_id"]] = seen.get(job["job_id"], 0) + 1
            if count > 1:  # cron runs a line that stands twice twice
                job["job_id"] += f"-{count}"
            jobs.append((where, job))
    users = {job["labels"]["user"] for _, job in jobs if "queue" not in job and "user" in job["labels"]}
    notes += [f"lines of {user} run as the executors do: they must run as {user}" for user in sorted(users)]
    return jobs, refused, notes


def local_zone() -> str:
    """The zone cron would use here."""
    target = Path("/etc/localtime").resolve().as_posix()
    _, found, name = target.partition("/zoneinfo/")
    return name.removeprefix("posix/") if found else "UTC"


def this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _files(paths: Iterable[Path], notes: list[str]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for file in sorted(file for file in path.iterdir() if file.is_file()):
            if path.name == "crontabs" or _CRON_D_NAME.fullmatch(file.name):
                yield file
            elif file.name != ".placeholder":
                notes.append(
                    f"{file}: left out, as cron does with a name of other than letters, digits, - and _"
                )


def _lines(file: Path) -> Iterator[tuple[int, str, dict[str, str]]]:
    """The lines that are no comments and no settings, each with the settings above it."""
    try:
        content = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror or error}") from None
    env: dict[str, str] = {}
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        setting = None if line.lstrip()[0] in "*-@" else _SETTING.fullmatch(line)
        if setting is not None:
            env[_unquoted(setting["name"])] = _unquoted(setting["value"])
        else:
            yield number, line, dict(env)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _job(line: str, env: dict[str, str], file: Path, reading: Reading) -> dict[str, Any]:
    if file.name == "anacrontab":
        raise _Refusal(
            "an anacrontab counts days and not times; say when it shall run: waterclock submit --cron"
        )
    timed = _NAMED.fullmatch(line) or _TIMED.fullmatch(line)
    if timed is None:
        raise _Refusal("not a line of a crontab: expected five fields and a command")
    schedule, command = timed["schedule"].strip(), timed["command"]
    when = _when(schedule)
    user, command = _user(command, file, reading)
    settings = {
        name: env.pop(name) for name in ("CRON_TZ", "RANDOM_DELAY", "MAILTO", "MAILFROM") if name in env
    }
    for name in env:
        if not _ENV_NAME.fullmatch(name):
            raise _Refusal(f"'{name}', which is set above, is no name of a variable that a job can have")
    if settings.get("MAILTO") and not reading.without_mail:
        raise _Refusal(
            f"MAILTO={settings['MAILTO']}: cron mails its output, waterclock keeps it in the run's log; "
            "--no-mail takes such lines without the mail"
        )
    zone, name = settings.get("CRON_TZ") or reading.zone, _name(command)
    digest = hashlib.sha256(f"{schedule}\0{command}\0{zone}".encode()).hexdigest()[:8]
    if user and re.search(r"\bLOGNAME\b", command):
        env["LOGNAME"] = user
    return {
        "job_id": f"{_NOT_IN_IDS.sub('-', name).strip('-')[:48] or 'cron'}-{digest}",
        "name": name,
        **when,
        "timezone": zone,
        "command": _command(command, env.get("SHELL", "/bin/sh")),
        "overlap": "allow",
        "catch_up": {"policy": "none"},
        "max_retries": 0,
        "timeout_seconds": 0,
        "labels": {"user": user} if user else {},
        **_delay(settings.get("RANDOM_DELAY")),
        **({"queue": reading.queues[user]} if reading.queues.get(user) else {}),
        **({"env": env} if env else {}),
    }


def _when(schedule: str) -> dict[str, Any]:
    """The same times: also where the clocks change, and where a day starts with a star."""
    if schedule.startswith("@"):
        if schedule == "@reboot":
            raise _Refusal("@reboot has no time; run it when the machine starts")
        if schedule not in NICKNAMES:
            raise _Refusal(f"{schedule} is not one of {', '.join(NICKNAMES)}")
        return {"cron_expression": schedule}
    texts = schedule.split()
    fields = [_field(text, *field) for text, field in zip(texts, _FIELDS, strict=True)]
    minute, hour, day, _, weekday = texts
    if "*" in (day[0], weekday[0]) and day not in ("*", "*/1") and weekday not in ("*", "*/1"):
        fields[-1] = f"+{fields[-1]}"
    follows_hands = minute.startswith("*") and not hour.startswith("*")
    rules = {"dst_gap": "skip", "dst_overlap": "both"} if follows_hands else {}
    return {"cron_expression": " ".join(fields), **rules}


def _field(text: str, name: str, low: int, high: int, names: tuple[str, ...]) -> str:
    return ",".join(_element(element, name, low, high, names) for element in text.split(","))


def _element(text: str, name: str, low: int, high: int, names: tuple[str, ...]) -> str:
    match = _ELEMENT.fullmatch(text)
    if match is None:
        raise _Refusal(f"'{text}' is not a {name} that cron knows")
    step = None if match["step"] is None else int(match["step"])
    if step == 0:
        raise _Refusal(f"'{text}': a step of nothing")
    if match["low"] == "*":
        if match["between"]:
            raise _Refusal(f"'{text}' is not a {name} that cron knows")
        return _short(text)
    first = _number(match["low"], text, name, low, high, names)
    if match["between"] is None:
        if step is not None:
            raise _Refusal(f"'{text}': cron takes a step after a range or a star, not after a single {name}")
        return _short(text)
    last = _number(match["high"], text, name, low, high, names)
    if first > last:
        raise _Refusal(f"'{text}' runs backwards: cron never matches it")
    if match["between"] == "~":
        if step is not None or last > (6 if name == "weekday" else high):
            raise _Refusal(f"'{text}' is not a {name} that cron knows")
        return f"H({first}-{last})"
    return _short(text)


def _short(element: str) -> str:
    """As it is written, but for `007`."""
    return re.sub(r"\d{3,}", lambda found: str(int(found[0])), element)


def _number(text: str, element: str, name: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdigit() or not low <= int(text[:9]) <= high:
        raise _Refusal(f"'{element}' is not a {name} that cron knows: {low} to {high}")
    return int(text)


def _user(command: str, file: Path, reading: Reading) -> tuple[str, str]:
    """Whose line it is, if the file tells, and the command alone."""
    if reading.system or file == Path("/etc/crontab") or file.parent.name == "cron.d":
        match = _USER.fullmatch(command)
        if match is None:
            raise _Refusal("no command after the user")
        user, command = match["user"], match["command"]
    elif file.parent.name == "crontabs":
        user = file.name
    elif command.split()[0] == "root":
        raise _Refusal("its command begins with a user: a file as /etc/crontab is read with --system")
    else:
        return "", command
    if user != reading.me and user not in reading.queues:
        raise _Refusal(
            f"runs as {user}: name a queue whose executors run as that user (setting run_as): --user {user}=QUEUE"
        )
    return user, command


def _delay(minutes: str | None) -> dict[str, Any]:
    if minutes is None:
        return {}
    if not minutes.isascii() or not minutes.isdigit():
        raise _Refusal(f"RANDOM_DELAY={minutes} is no number of minutes")
    return {"jitter_seconds": int(minutes) * 60} if int(minutes) else {}


def _command(text: str, shell: str) -> str | list[str]:
    """As cron runs it: in the home directory, by SHELL, with what follows a per cent sign as its input."""
    program, said = _split(text)
    if said is not None:
        program = f"printf %s {shlex.quote(said)} | {shlex.quote(shell)} -c {shlex.quote(program)}"
    if not _GOES_SOMEWHERE.match(program):
        program = f'cd "${{HOME:-/}}" || exit; {program}'
    return program if shell in ("/bin/sh", "sh") else [shell, "-c", program]


def _split(text: str) -> tuple[str, str | None]:
    r"""The command, and its input if there is one: an unescaped % ends the one and is a newline of the other.

    `\%` is a per cent sign, and cron makes one backslash of two in the command, but not in the input.
    """
    program = ""
    place = 0
    while place < len(text):
        char, following = text[place], text[place + 1 : place + 2]
        if char == "\\" and following and following in "%\\":
            program += following
            place += 2
        elif char == "\\":
            program += char + following
            place += 2
        elif char == "%":
            lines = re.sub(r"\\%|%", lambda found: "%" if found[0] == "\\%" else "\n", text[place + 1 :])
            return program, lines if not lines or lines.endswith("\n") else f"{lines}\n"
        else:
            program += char
            place += 1
    return program, None


def _name(command: str) -> str:
    """What the command runs, without its path and without what it does before."""
    parts = [part.split() for part in _OPERATORS.split(command) if part.strip()]
    told = [words for words in map(_unwrapped, parts) if words and words[0] not in _PREPARES]
    words = (told or parts or [[command]])[0]
    return " ".join([words[0].rsplit("/", 1)[-1], *words[1:3]])[:100].strip() or "cron"


def _unwrapped(words: list[str]) -> list[str]:
    while len(words) > 1 and ("=" in words[0] or words[0] in _WRAPPERS or words[0].startswith("-")):
        words = words[1:]
    return words
