"""What files declare: jobs and workflows in YAML or JSON, one or many to a file."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from waterclock.api.cli.exits import WrongUsage

Declaration = tuple[str, dict[str, Any]]
"""Where a declaration stands, and what it says."""

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_SUFFIXES = (".yaml", ".yml", ".json")


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
