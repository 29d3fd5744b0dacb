"""What files declare: jobs and workflows in YAML or JSON, one or many to a file; and crontabs, each line a job that
means the same.
"""

import hashlib
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from waterclock.api.cli.exits import WrongUsage

Declaration = tuple[str, dict[str, Any]]
Skipped = tuple[str, str]
"""Where a declaration stands, and what it says; or why it cannot be one."""

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_SUFFIXES = (".yaml", ".yml", ".json")

_SETTING = re.compile(r"^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$")
_NAMED = re.compile(r"^\s*(@\w+)\s+(.+)$")
_FIELDS = re.compile(r"^\s*((?:\S+\s+){5})(.+)$")
_SPLIT = re.compile(r"(?<!\\)%")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9]+")


def read_declarations(paths: Iterable[Path]) -> Iterator[Declaration]:
    """Every declaration with where it stands; directories are read file by file."""
    for file in _files(paths):
        for place, declared in enumerate(_documents(file), 1):
            where = f"{file}, item {place}"
            if not isinstance(declared, dict):
                raise WrongUsage(f"{where}: expected a job or a workflow, found {type(declared).__name__}")
            yield where, declared


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        else:
            yield path


def _documents(file: Path) -> Iterator[Any]:
    """Documents of a file; a list is many, and so is a mapping with `jobs` or `workflows`."""
    import yaml

    try:
        with file.open(encoding="utf-8") as text:
            documents = list(yaml.load_all(text, _loader()))
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{file}: not YAML or JSON: {' '.join(str(error).split())}") from None
    for document in documents:
        match document:
            case None:
                continue
            case list():
                yield from document
            case dict() if document.keys() <= {"jobs", "workflows"}:
                yield from document.get("jobs") or ()
                yield from document.get("workflows") or ()
            case _:
                yield document


def _loader() -> Any:
    """Times stay text, as they are in JSON: YAML would take an offset off."""
    import yaml

    resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != _TIMESTAMP]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return type("TextTimes", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers})


def read_lines(file: Path) -> list[msgspec.Raw]:
    """Definitions as JSON, one a line or in one array; `-` is standard input. Only their form is looked at."""
    try:
        content = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror or error}") from None
    if content.lstrip().startswith(b"["):
        try:
            return msgspec.json.decode(content, type=list[msgspec.Raw])
        except msgspec.DecodeError as error:
            raise WrongUsage(f"{file}: not JSON: {error}") from None
    lines: list[msgspec.Raw] = []
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise WrongUsage(f"{file}, line {number}: not JSON: {error}") from None
            lines.append(msgspec.Raw(line))
    return lines


def read_crontabs(
    paths: Iterable[Path], *, zone: str, system: bool
) -> tuple[list[Declaration], list[Skipped]]:
    """The jobs, and the lines that cannot be one, with the reason."""
    jobs: list[Declaration] = []
    skipped: list[Skipped] = []
    for file in _crontabs(paths):
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise WrongUsage(f"{file}: {error.strerror or error}") from None
        env: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            where = f"{file}, line {number}"
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if setting := _SETTING.match(line):
                env[setting[1]] = setting[2].strip().strip("\"'")
                continue
            job = _job(line, dict(env), zone, system)
            jobs.append((where, job)) if isinstance(job, dict) else skipped.append((where, job))
    return jobs, skipped


def local_zone() -> str:
    """The zone cron would use here."""
    target = Path("/etc/localtime").resolve().as_posix()
    _, found, name = target.partition("/zoneinfo/")
    return name.removeprefix("posix/") if found else "UTC"


def _job(line: str, env: dict[str, str], zone: str, system: bool) -> dict[str, Any] | str:
    timed = _NAMED.match(line) or _FIELDS.match(line)
    if timed is None:
        return "not a line of a crontab: expected five fields and a command"
    schedule, command = timed[1].strip(), timed[2].strip()
    if schedule == "@reboot":
        return "@reboot has no time; run it when the machine starts"
    if system:
        _, _, command = command.partition(" ")
        if not command.strip():
            return "no command after the user"
    zone = env.pop("CRON_TZ", env.pop("TZ", zone))
    shell = env.pop("SHELL", "/bin/sh")
    env.pop("MAILTO", None)
    text, name = _with_stdin(command.strip(), shell), _name(command)
    digest = hashlib.sha256(f"{schedule}\0{command}\0{zone}".encode()).hexdigest()[:8]
    job: dict[str, Any] = {
        "job_id": f"{_NOT_IN_IDS.sub('-', name).strip('-')[:48] or 'cron'}-{digest}",
        "name": name,
        "cron_expression": schedule,
        "timezone": zone,
        "command": text,
        "overlap": "allow",
        "catch_up": {"policy": "none"},
    }
    return {**job, "env": env} if env else job


def _with_stdin(command: str, shell: str) -> str:
    """A per cent sign ends the command; what follows is its input, line by line. With a backslash it is just that."""
    program, *lines = (part.replace("\\%", "%") for part in _SPLIT.split(command))
    if shell not in ("/bin/sh", "sh"):
        program = f"{shlex.quote(shell)} -c {shlex.quote(program)}"
    if not lines:
        return program
    said = " ".join(shlex.quote(line) for line in lines)
    return f"printf '%s\\n' {said} | {{ {program}; }}"


def _name(command: str) -> str:
    """What the command runs, without its path."""
    words = command.split()
    while len(words) > 1 and ("=" in words[0] or words[0] in ("cd", "nice", "env", "exec")):
        words.pop(0)
    return " ".join([words[0].rsplit("/", 1)[-1], *words[1:3]])[:100]


def _crontabs(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(
                file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")
            )
        else:
            yield path
