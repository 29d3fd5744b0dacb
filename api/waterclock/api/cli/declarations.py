"""Declarations in YAML or JSON files: jobs and workflows, one or many to a file."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from waterclock.api.cli.exits import Wrong

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_SUFFIXES = (".yaml", ".yml", ".json")


def read(paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every declaration with where it stands; directories are read file by file."""
    for file in _files(paths):
        for place, declared in enumerate(_documents(file), 1):
            where = f"{file}, item {place}"
            if not isinstance(declared, dict):
                raise Wrong(f"{where}: expected a job or a workflow, found {type(declared).__name__}")
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
        raise Wrong(f"{file}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Wrong(f"{file}: not YAML or JSON: {' '.join(str(error).split())}") from None
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
