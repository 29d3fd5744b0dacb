"""The options of `submit` and `update`, made from the table of a job's fields (`proto/spec.py`)."""

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from waterclock.api.cli.exits import WrongUsage
from waterclock.proto.fields import Flag, Form, Row, rows
from waterclock.proto.spec import RUNS, JobRequest

R = TypeVar("R")

_TYPES: dict[Form, Any] = {
    "text": str | None,
    "texts": list[str] | None,
    "number": int | None,
    "switch": bool | None,
    "json": str | None,
    "pairs": list[str] | None,
    "call": tuple[str, str] | None,
}
_MORE: dict[Form, str] = {
    "texts": "; may be repeated.",
    "pairs": "; may be repeated.",
    "json": "; @FILE reads it, - from stdin.",
}
_PROGRAM = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- CMD ARG…]", help="A program and its arguments.", show_default=False),
]


def with_job_options(command: Callable[..., R]) -> Callable[..., R]:
    """Gives a command an option for each field that has a flag, and `-- CMD ARG…`.

    The command gets the fields that were set as its parameter `fields`; its other parameters stay as they are.
    """
    flags = {row.name: row.flag for row in rows(JobRequest) if row.flag is not None}
    options = {row.name: _option(row, row.flag) for row in rows(JobRequest) if row.flag is not None}
    own = inspect.signature(command, eval_str=True).parameters.values()
    positional = [each for each in own if each.default is each.empty and each.name != "fields"]
    others = [each for each in own if each.default is not each.empty]

    @wraps(command)
    def wrapped(*, program: list[str] | None = None, **given: Any) -> R:
        set_fields = {name: given.pop(name) for name in options}
        return command(fields=_fields(flags, set_fields, program), **given)

    parameters = [*positional, _parameter("program", _PROGRAM), *options.values(), *others]
    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    wrapped.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def _option(row: Row, flag: Flag) -> inspect.Parameter:
    help = flag.help or row.help.removesuffix(".") + _MORE.get(flag.form, ".")
    option = typer.Option(flag.name, help=help, metavar=flag.metavar or None)
    return _parameter(row.name, Annotated[_TYPES[flag.form], option])


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _fields(flags: dict[str, Flag], given: dict[str, Any], program: list[str] | None) -> dict[str, Any]:
    """The fields of a request; only those that were set."""
    values = {name: _value(flags[name], value) for name, value in given.items() if value not in (None, [])}
    fields = {name: value for name, value in values.items() if value is not None}
    runs = [flags[name].name for name in given if name in RUNS and name in fields]
    if program and runs != ["--artifact"]:
        runs.append("-- CMD")
    if len(runs) > 1:
        raise WrongUsage(f"{' and '.join(runs)}: say one thing to run")
    if program:
        fields["args" if "artifact" in fields else "command"] = program
    if "env" in fields:
        fields["env"] = {name: _or_secret(value) for name, value in fields["env"].items()}
    return fields


def _or_secret(value: str) -> str | dict[str, str]:
    """`secret:NAME` stands for the value of a secret."""
    kind, colon, name = value.partition(":")
    return {"secret": name} if colon and kind == "secret" else value


def _value(flag: Flag, value: Any) -> Any:
    match flag.form:
        case "switch":
            return flag.values[0] if value else flag.values[1]
        case "json":
            return _json(flag.name, value)
        case "pairs":
            return _pairs(flag.name, value)
        case "call":
            return {"method": value[0], "url": value[1]}
        case _:
            return value


def _json(option: str, text: str) -> Any:
    """JSON as it stands, or from a file (`@FILE`), or from standard input (`-`)."""
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text()
        return msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{option} {text}: {error}") from None
    except msgspec.DecodeError as error:
        raise WrongUsage(
            f"{option}: {error}; quote JSON for the shell, as in {option} '{{\"a\": 1}}'"
        ) from None


def _pairs(option: str, pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise WrongUsage(f"{option} {pair}: expected key=value")
    return dict(pair.split("=", 1) for pair in pairs)
