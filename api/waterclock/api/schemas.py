"""JSON Schemas of requests and answers, for the OpenAPI and the AsyncAPI document, as generators of clients like them.

msgspec makes them from the structs. What it leaves open is filled in here: names without dots, choices that have a
name, times that are said to be times, a sentence for every property.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, inspect

from waterclock.proto import answers, events, policies, spec, verdicts
from waterclock.proto.field_docs import doc_of

Json = dict[str, Any]

REF = "#/components/schemas/{name}"
_CHOICES: tuple[ModuleType, ...] = (policies, verdicts)
_TASKS = tuple(get_args(spec.Task))


def schemas_of(kinds: Iterable[Any]) -> tuple[dict[str, Json], dict[str, Json]]:
    """The schema of each kind by its `repr`, and the components that they refer to.

    An answer holds all its fields also where one has a default, so all of them are required.
    """
    listed = list(kinds)
    schemas, components = msgspec.json.schema_components(listed, ref_template=REF)
    structs = _structs(listed, components)
    names = {key: _name(kind) for key, kind in structs.items()}
    for key, kind in structs.items():
        _complete(components[key], kind)
        components[key]["title"] = names[key]
    named = {names[key]: _tidy(schema, names) for key, schema in components.items()}
    tidied = [_tidy(schema, names) for schema in schemas]
    all_of_them = reachable([tidied, named], {**_choices(), **named})
    return dict(zip(map(repr, listed), tidied, strict=True)), {**dict(sorted(named.items())), **all_of_them}


def reachable(document: Any, components: dict[str, Json]) -> dict[str, Json]:
    """The components that a document refers to, itself or through others."""
    found: dict[str, Json] = {}
    waiting = [document]
    while waiting:
        for name in _references(waiting.pop()):
            if name not in found and name in components:
                found[name] = components[name]
                waiting.append(components[name])
    return dict(sorted(found.items()))


# --- which struct a component is -------------------------------------------------------------------------


def _structs(kinds: list[Any], components: dict[str, Json]) -> dict[str, type[Struct]]:
    """By the name that msgspec gave it: that of the class, or the full one where two have the same."""
    found: dict[str, type[Struct]] = {}
    for kind in dict.fromkeys(kind for root in kinds for kind in _within(inspect.type_info(root), set())):
        short, full = _plain(_class_name(kind)), _plain(f"{kind.__module__}.{kind.__qualname__}")
        found[full if full in components else short] = kind
    assert found.keys() == components.keys(), found.keys() ^ components.keys()
    return found


def _within(info: Any, seen: set[Any]) -> Iterator[type[Struct]]:
    match info:
        case inspect.StructType():
            if info.cls not in seen:
                seen.add(info.cls)
                yield info.cls
                for field in info.fields:
                    yield from _within(field.type, seen)
        case inspect.Metadata():
            yield from _within(info.type, seen)
        case inspect.UnionType():
            for part in info.types:
                yield from _within(part, seen)
        case inspect.TupleType():
            for part in info.item_types:
                yield from _within(part, seen)
        case inspect.DictType():
            yield from _within(info.value_type, seen)
        case inspect.CollectionType():
            yield from _within(info.item_type, seen)


def _class_name(kind: Any) -> str:
    return (
        str(kind) if get_origin(kind) is not None and not hasattr(kind, "__name__") else _generic_name(kind)
    )


def _generic_name(kind: Any) -> str:
    arguments = get_args(kind)
    name = getattr(kind, "__origin__", kind).__name__
    return f"{name}[{', '.join(map(_class_name, arguments))}]" if arguments else name


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9.\-_]", "_", name)


def _name(kind: Any) -> str:
    """`JobPage` for a page of jobs, `ShellTask` for what runs, and the class's own otherwise."""
    if arguments := get_args(kind):
        return f"{_name(arguments[0])}{kind.__origin__.__name__}"
    if kind in _TASKS:
        return f"{kind.__name__}Task"
    if kind.__module__ == events.__name__ and hasattr(answers, kind.__name__):
        return f"{kind.__name__}Event"
    name: str = kind.__name__
    return name


# --- what msgspec leaves open ----------------------------------------------------------------------------


def _complete(schema: Json, kind: Any) -> None:
    """Descriptions, times, and what is always there."""
    struct: type[Struct] = getattr(kind, "__origin__", kind)
    shown = struct.__module__ == answers.__name__ and not struct.__struct_config__.omit_defaults
    for field in msgspec.structs.fields(struct):
        schema_of = schema["properties"].get(field.encode_name)
        if schema_of is None:
            continue
        if _is_time(field.type):
            _mark_times(schema_of)
        if shown or not isinstance(schema_of.get("default"), bool | int | float | str):
            schema_of.pop("default", None)
        if about := doc_of(struct, field.name):
            schema_of["description"] = about
    tag = struct.__struct_config__.tag_field
    if tag is not None and tag in schema["properties"]:
        schema["properties"][tag]["description"] = "What kind it is."
    if shown:
        schema["required"] = [
            field.encode_name for field in msgspec.structs.fields(struct) if field.default is not UNSET
        ]


def _is_time(kind: Any) -> bool:
    return kind is datetime or any(map(_is_time, get_args(kind)))


def _mark_times(schema: Json) -> None:
    if schema.get("type") == "string":
        schema.setdefault("format", "date-time")
    for part in (*schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        _mark_times(part)


def _choices() -> dict[str, Json]:
    """The choices that have a name in `proto`, by it."""
    return {
        name: {"type": "string", "enum": list(get_args(alias)), "title": name}
        for module in _CHOICES
        for name, alias in vars(module).items()
        if get_origin(alias) is Literal and not name.startswith("_")
    }


_NAMED_CHOICES = {frozenset(schema["enum"]): name for name, schema in _choices().items()}


def _tidy(schema: Any, names: dict[str, str]) -> Any:
    """A schema with our names, in forms that generators understand."""
    if isinstance(schema, list | tuple):
        return [_tidy(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidied = {key: _tidy(value, names) for key, value in schema.items()}
    if isinstance(tidied.get("$ref"), str):
        return _beside_reference(tidied, names)
    if "enum" in tidied and isinstance(tidied["enum"], list):
        return _choice(tidied)
    if "prefixItems" in tidied:  # pairs of the same
        del tidied["prefixItems"]
        tidied["items"] = {"type": "string"}
    if tidied.get("type") == "object" and not {"properties", "additionalProperties"} & tidied.keys():
        tidied["additionalProperties"] = True
    if isinstance(tidied.get("discriminator"), dict):
        mapping = tidied["discriminator"].get("mapping", {})
        renamed = {tag: _renamed(reference, names) for tag, reference in mapping.items()}
        tidied["discriminator"] = {**tidied["discriminator"], "mapping": renamed}
        tidied["oneOf"] = tidied.pop("anyOf", tidied.get("oneOf"))
    return tidied


def _renamed(reference: str, names: dict[str, str]) -> str:
    name = reference.rpartition("/")[2]
    return REF.format(name=names.get(name, name))


def _beside_reference(schema: Json, names: dict[str, str]) -> Json:
    """Not every tool reads what stands beside a `$ref`."""
    reference = {"$ref": _renamed(schema.pop("$ref"), names)}
    return {"allOf": [reference], **schema} if schema else reference


def _choice(schema: Json) -> Json:
    values = schema.pop("enum")
    name = _NAMED_CHOICES.get(frozenset(values))
    if name is not None:
        return _beside_reference({"$ref": REF.format(name=name), **schema}, {})
    kinds = {bool: "boolean", int: "integer", str: "string"}
    kind = {kinds[type(value)] for value in values}
    typed: Json = {"type": kind.pop()} if len(kind) == 1 else {}
    return {**typed, **({"const": values[0]} if len(values) == 1 else {"enum": values}), **schema}


def _references(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(document, list | tuple):
        for part in document:
            yield from _references(part)
