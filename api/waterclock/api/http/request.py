"""An HTTP request as a method's request struct: from path, query or body, and two headers that stand for fields."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

import msgspec
from litestar import Request
from msgspec import Struct, structs

from waterclock.api import decoding, request_bodies
from waterclock.api.errors import Invalid, VersionMismatch
from waterclock.proto.commands import JobBatch
from waterclock.proto.methods import Method, Rest

Q = TypeVar("Q", bound=Struct)

AnyRequest = Request[Any, Any, Any]

_WITH_BODY = ("POST", "PUT", "PATCH")


async def read_request(http: AnyRequest, method: Method[Q, Any], rest: Rest) -> Q:
    if rest.body == "lines":
        request = cast(Q, JobBatch(jobs=_lines(await http.body())))
    elif http.method in _WITH_BODY and not http.path_params:
        request = request_bodies.read(await http.body(), method.request)
    elif http.method in _WITH_BODY:
        request = _merged(method.request, http.path_params, await http.body())
    else:
        fields = _query_fields(method.request, http.query_params.multi_items())
        request = decoding.convert({**fields, **http.path_params}, method.request, text=True)
    return with_headers(request, http.headers)


def _merged(kind: type[Q], path: dict[str, str], body: bytes) -> Q:
    fields = decoding.decode(body, dict[str, Any])
    for name, value in path.items():
        if fields.get(name, value) != value:
            raise Invalid.field(name, f"the path says {value}")
    return request_bodies.read({**fields, **path}, kind)


def _query_fields(kind: type[Struct], items: Iterable[tuple[str, str]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    many, listed = _many_valued(kind)
    for name, value in items:
        if not value:  # `?cursor=&status=`: a form or a client's null, and nothing that could be meant
            continue
        if name in many:
            fields.setdefault(name, []).extend(value.split(",") if name in listed else [value])
        elif name in fields:
            raise Invalid.field(name, "given twice")
        else:
            fields[name] = value
    return fields


@cache
def _many_valued(kind: type[Struct]) -> tuple[frozenset[str], frozenset[str]]:
    """The fields that may be given several times; and those whose values, being of a fixed set or ids, may also stand
    in one, with commas between them."""
    many = {field.name: _element(field.type) for field in structs.fields(kind)}
    fixed = [name for name, element in many.items() if get_origin(element) is Literal]
    return (
        frozenset(name for name, element in many.items() if element is not None),
        frozenset((*fixed, *({"ids"} & many.keys()))),
    )


def _element(kind: Any) -> Any:
    """What a tuple is of; None for anything else."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_args(kind)[0] if get_origin(kind) is tuple else None


def with_headers(request: Q, headers: Mapping[str, str]) -> Q:
    """The headers that stand for a field. Their names are in lower case."""
    if (key := headers.get("idempotency-key")) and hasattr(request, "idempotency_key"):
        if request.idempotency_key not in (None, msgspec.UNSET, key):
            raise Invalid.field("idempotency_key", "the header Idempotency-Key says something else")
        request = structs.replace(request, idempotency_key=key)
    if (seen := headers.get("last-event-id")) and getattr(request, "after", "") is None:
        request = structs.replace(request, after=seen)
    if (tag := headers.get("if-match")) and hasattr(request, "if_match"):
        request = structs.replace(request, if_match=_version(tag))
    return request


def _version(tag: str) -> int | None:
    if tag.strip() == "*":
        return None
    digits, _, _ = tag.strip().removeprefix("W/").strip('"').partition("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise VersionMismatch.because(
            f"If-Match: {tag} is no version of anything; versions are whole numbers"
        )
    return int(digits)


def _lines(body: bytes) -> list[msgspec.Raw]:
    """The documents of an array or of NDJSON, undecoded."""
    if body.lstrip()[:1] == b"[":
        return decoding.decode_envelope(body, list[msgspec.Raw])
    return [msgspec.Raw(line) for line in body.splitlines() if line.strip()]
