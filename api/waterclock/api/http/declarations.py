"""Declarations as one document: a list in YAML, or in JSON for who asks for that. It is written as it is read."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from litestar.response import Stream

from waterclock.api.declaration_yaml import item
from waterclock.api.http.response import JSON, AnyRequest
from waterclock.proto.answers import Declaration

_YAML = "application/yaml"
_encode = msgspec.json.Encoder().encode


async def write(http: AnyRequest, declarations: AsyncIterator[Declaration]) -> Stream:
    """Waits for the first one, so that a refusal still has its own status."""
    first = await anext(declarations, None)
    as_json = "json" in http.headers.get("accept", "")
    body = (_json if as_json else _yaml)(first, declarations)
    return Stream(body, media_type=JSON if as_json else _YAML, headers={"Cache-Control": "no-store"})


async def _yaml(first: Declaration | None, others: AsyncIterator[Declaration]) -> AsyncIterator[bytes]:
    yield b"# Jobs and workflows of waterclock, as `waterclock apply -f` takes them.\n"
    is_empty = first is None or first.definition is None
    if first is not None:
        yield await _item(first)
    async for declaration in others:
        is_empty = is_empty and declaration.definition is None
        yield await _item(declaration)
    if is_empty:
        yield b"[]\n"


async def _item(declaration: Declaration) -> bytes:
    """Beside the loop: a workflow of thousands of nodes takes seconds to write."""
    return (await asyncio.to_thread(item, declaration)).encode()


async def _json(first: Declaration | None, others: AsyncIterator[Declaration]) -> AsyncIterator[bytes]:
    """A list of definitions. What could not be declared has no place in it."""
    before = b"["
    if first is not None and first.definition is not None:
        yield before + _encode(first.definition)
        before = b",\n"
    async for declaration in others:
        if declaration.definition is not None:
            yield before + _encode(declaration.definition)
            before = b",\n"
    yield b"[]\n" if before == b"[" else b"]\n"
