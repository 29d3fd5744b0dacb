"""Commands made from rows of the method table, for methods without a command written by hand.

What stands in the row's REST path is an argument, every other field of the request an option. Ids may be shortened.
The answer is shown as facts, a page as a table, and as it is with `--json`.
"""

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import typer
from msgspec import UNSET, Struct, UnsetType, structs

from waterclock.api.cli import output
from waterclock.api.cli.exits import WrongUsage
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, JobId, Json, Note, RunId, Version, Watch, WaveId, WorkflowId
from waterclock.api.cli.session import connected, with_job, with_run
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.api.client.messages import request_of
from waterclock.proto.answers import Page
from waterclock.proto.methods import METHODS, Method

_KNOWN = {
    "job_id": JobId,
    "run_id": RunId,
    "workflow_id": WorkflowId,
    "workflow_run_id": WaveId,
    "note": Note,
    "if_match": Version,
}
_BY_PREFIX = {"job_id": with_job, "workflow_id": with_job, "run_id": with_run, "workflow_run_id": with_run}


def rows(group: str = "") -> dict[str, Method[Any, Any]]:
    """The rows by the last word of their command: of a group, or of the top level."""
    found: dict[str, Method[Any, Any]] = {}
    for row in METHODS:
        before, _, name = row.command.rpartition(" ")
        if before == group and not row.streaming:
            found.setdefault(name, row)
    return found


def command_of(row: Method[Any, Any]) -> Callable[..., None]:
    """A function as typer takes it."""
    fields = {field.name: field for field in structs.fields(row.request)}
    arguments = re.findall(r"{(\w+)}", row.rest.path) if row.rest else []
    is_page = get_origin(row.answer) is Page

    def command(**given: Any) -> None:
        json, data, watch = given.pop("json"), given.pop("data"), given.pop("watch", False)
        said = {fields[name].encode_name: _value(fields[name], value) for name, value in given.items()}
        with connected(data) as wire:
            if is_page:
                listing = Listing[Any](key=_key, text=_table)
                listing.show(lambda: _call(wire, row, said, arguments), json=json, watch=watch)
                return
            answer = _call(wire, row, said, arguments)
        output.print_json(answer) if json else print(output.facts(list(_facts(answer))))

    ordered = sorted(fields.values(), key=lambda field: (field.name not in arguments, not field.required))
    parameters = [_parameter(field, field.name in arguments) for field in ordered]
    shared = {"json": Json, **({"watch": Watch} if is_page else {}), "data": Data}
    defaults = {"json": False, "watch": False, "data": None}
    parameters += [_keyword(name, kind, defaults[name]) for name, kind in shared.items()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = f"{row.summary}."
    return command


def _call(wire: BlockingWire, row: Method[Any, Any], said: dict[str, Any], arguments: Sequence[str]) -> Any:
    first = arguments[0] if arguments else ""
    if first not in _BY_PREFIX:
        return wire.call(row, request_of(row, said))
    return _BY_PREFIX[first](
        wire, said[first], lambda id: wire.call(row, request_of(row, {**said, first: id}))
    )


def _parameter(field: structs.FieldInfo, is_argument: bool) -> inspect.Parameter:
    if field.name in _KNOWN:
        kind = _KNOWN[field.name]
    elif is_argument:
        plain = int if int in _members(field.type) else str
        kind = Annotated[plain, typer.Argument(metavar=field.name.upper(), show_default=False)]
    else:
        flag = f"--{field.encode_name.replace('_', '-')}"
        kind = Annotated[
            _kind(field.type), typer.Option(flag, metavar=_metavar(field.type), help=_help(field.type))
        ]
    default = inspect.Parameter.empty if is_argument or field.required else _default(field)
    return _keyword(field.name, kind, default)


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _default(field: structs.FieldInfo) -> Any:
    return field.default if isinstance(field.default, str | int | float) else None


def _members(kind: Any) -> Iterator[Any]:
    """The types of a union, without what says that nothing was said."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _members(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for member in get_args(kind):
            if member not in (type(None), UnsetType):
                yield from _members(member)
    else:
        yield kind


def _kind(kind: Any) -> Any:
    """What typer reads for a field: times and choices are checked by the request itself, the rest is JSON."""
    (member, *others) = _members(kind)
    if others:
        return str | None
    if member is bool:
        return bool
    if member in (int, float):
        return member | None
    if get_origin(member) in (list, tuple) and get_args(member)[0] is str:
        return list[str] | None
    return str | None


def _metavar(kind: Any) -> str | None:
    (member, *others) = _members(kind)
    if member is bool:
        return None
    if member in (int, float):
        return "N"
    if member is datetime:
        return "T"
    return "TEXT" if not others and _is_text(member) else "JSON"


def _help(kind: Any) -> str:
    (member, *_) = _members(kind)
    if get_origin(member) is Literal:
        return ", ".join(map(str, get_args(member))) + "."
    return "May be repeated." if get_origin(member) in (list, tuple) else ""


def _is_text(member: Any) -> bool:
    inner = get_args(member)[0] if get_origin(member) in (list, tuple) else member
    return inner is str or get_origin(inner) is Literal


def _value(field: structs.FieldInfo, given: Any) -> Any:
    """As the request takes it; what was not said is left to its default."""
    if given is None or given == []:
        return UNSET
    if isinstance(given, str) and _metavar(field.type) == "JSON":
        try:
            return msgspec.json.decode(given)
        except msgspec.DecodeError as error:
            raise WrongUsage(f"--{field.encode_name}: {error}; expected JSON") from None
    return given


def _facts(answer: Struct) -> Iterator[tuple[str, str]]:
    for field in structs.fields(answer):
        text = _text(getattr(answer, field.name))
        if text:
            yield field.encode_name.replace("_", " "), text


def _text(value: Any) -> str:
    match value:
        case None | UnsetType() | "" | () | []:
            return ""
        case dict() if not value:  # the pattern {} would match every dict
            return ""
        case datetime():
            return output.stamp(value)
        case bool():
            return "yes" if value else "no"
        case str() | int() | float():
            return str(value)
        case Struct():
            return " ".join(filter(None, (_text(_first(value)), _text(getattr(value, "status", None)))))
        case list() | tuple():
            return ", ".join(map(_text, value))
        case _:
            return msgspec.json.encode(value).decode()


def _first(item: Struct) -> Any:
    """The field that names a thing stands first."""
    return getattr(item, item.__struct_fields__[0])


def _key(item: Struct) -> Hashable:
    return _first(item) if item.__struct_fields__[0].endswith("_id") else msgspec.json.encode(item)


def _table(items: Sequence[Struct]) -> str:
    """Without columns that are empty everywhere."""
    if not items:
        return "nothing"
    names = items[0].__struct_fields__
    columns = [(name, [_text(getattr(item, name)) for item in items]) for name in names]
    filled = [(name, cells) for name, cells in columns if any(cells)]
    heads = [name.replace("_", " ").upper() for name, _ in filled]
    return output.table(heads, list(zip(*(cells for _, cells in filled), strict=True)))
