"""A command's conversation with the service."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from waterclock.api.client.blocking import BlockingWire
from waterclock.api.errors import NotFound, Unreachable
from waterclock.core.runtime.connection_file import read_connection
from waterclock.proto import methods, queries

T = TypeVar("T")


@contextmanager
def connected(data: str | None) -> Iterator[BlockingWire]:
    """The service that `WATERCLOCK_NATS_URL` names, else the one in the data directory."""
    url, token = os.environ.get("WATERCLOCK_NATS_URL"), os.environ.get("WATERCLOCK_TOKEN")
    if not url or data:
        directory = Path(data or os.environ.get("WATERCLOCK_DATA") or ".waterclock")
        found = read_connection(directory)
        if found is None:
            raise Unreachable(f"no {directory / 'connection.json'}: start `waterclock up`, or say --data DIR")
        url, token = found.nats, token or found.token
    wire = BlockingWire(url, token=token)
    try:
        yield wire
    finally:
        wire.close()


def with_job(wire: BlockingWire, text: str, action: Callable[[str], T]) -> T:
    """Does something with a job named by its id, or by a prefix that only one job's id has."""
    return _with(wire, "job", text, action)


def with_run(wire: BlockingWire, text: str, action: Callable[[str], T]) -> T:
    return _with(wire, "run", text, action)


def _with(wire: BlockingWire, kind: queries.Kind, text: str, action: Callable[[str], T]) -> T:
    try:
        return action(text)
    except NotFound:
        found = wire.call(methods.IDS_FIND, queries.IdQuery(kind=kind, prefix=text)).ids
        if not found or found == [text]:
            raise
    if len(found) > 1:
        raise NotFound.because(f"{text} is short for several {kind}s: {', '.join(found[:3])}, …")
    return action(found[0])
