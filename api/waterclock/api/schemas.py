"""JSON Schemas of requests and answers, for the OpenAPI and the AsyncAPI document."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from waterclock.proto import answers

Json = dict[str, Any]

REF = "#/components/schemas/{name}"


def schemas_of(kinds: Iterable[Any]) -> tuple[dict[str, Json], dict[str, Json]]:
    """The schema of each kind by its `repr`, and the components that they refer to.

    An answer holds all its fields also where one has a default, so all of them are required.
    """
    listed = list(kinds)
    schemas, components = msgspec.json.schema_components(listed, ref_template=REF)
    for kind in vars(answers).values():
        name = _component(kind, components)
        if name is not None:
            components[name]["required"] = _always_there(kind)
    return dict(zip(map(repr, listed), schemas, strict=True)), components


def _component(kind: Any, components: dict[str, Json]) -> str | None:
    """The component of an answer that leaves no default out."""
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return None
    if kind.__module__ != answers.__name__ or kind.__struct_config__.omit_defaults:
        return None
    return next(
        (name for name in (kind.__name__, f"{kind.__module__}.{kind.__name__}") if name in components), None
    )


def _always_there(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind) if field.default is not UNSET]
