"""Reads the log that an earlier version has left, and restores its streams on a server. `record.py` made it."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.streams import Layout, ensure_streams

HERE = Path(__file__).parent
VERSIONS = sorted(directory.name for directory in HERE.iterdir() if (directory / "stopped.jsonl.gz").exists())
PARTITIONS = 4
TOKEN = "the-token-of-a-recorded-history"

_GAPS = {
    "JOBS": "wc.jobs.gap",
    "RUNS": "wc.runs.gap",
    "WORK": "wc.work.gap.{}",
    "KV_timing": "$KV.timing.gap",
    "KV_control": "$KV.control.gap",
    "OBJ_artifacts": "$O.artifacts.C.gap",
}
_KEPT_HEADERS = ("Nats-TTL", "KV-Operation")


class Message(Struct, frozen=True, kw_only=True):
    subject: str
    data: bytes
    stream: str = ""
    sequence: int = 0
    headers: dict[str, str] = {}

    @property
    def is_absent(self) -> bool:
        """Says that a key was deleted, or has expired."""
        return "KV-Operation" in self.headers or "Nats-Marker-Reason" in self.headers


class StoredLog(Struct, frozen=True):
    messages: list[Message]
    last: dict[str, int]
    """The sequence at which each stream ended, be the message there or not."""

    def stream(self, name: str, subject: str = "") -> list[Message]:
        """The messages of a stream whose subject begins so."""
        return [
            message
            for message in self.messages
            if message.stream == name and message.subject.startswith(subject)
        ]

    def value(self, subject: str) -> bytes:
        """A key's value."""
        [message] = [message for message in self.messages if message.subject == subject]
        return message.data


def load(version: str, name: str) -> StoredLog:
    """`killed`: as a kill of everything left it. `stopped`: after an orderly stop."""
    messages: list[Message] = []
    last: dict[str, int] = {}
    for line in _lines(version, name):
        if "last" in line:
            last[line["stream"]] = line["last"]
        else:
            messages.append(
                Message(
                    subject=line["subject"],
                    data=_bytes(line["data"]),
                    stream=line["stream"],
                    sequence=line["sequence"],
                    headers=_headers(line.get("headers", "")),
                )
            )
    return StoredLog(messages, last)


def load_traffic(version: str) -> list[Message]:
    """Messages that no stream keeps for long: work items, heartbeats, index entries, requests among components."""
    return [
        Message(subject=line["subject"], data=_bytes(line["data"])) for line in _lines(version, "traffic")
    ]


def load_rows(version: str) -> dict[str, list[dict[str, Any]]]:
    """The read models that version made of the stopped log, by table."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for line in _lines(version, "rows"):
        tables.setdefault(line["table"], []).append(line["row"])
    return tables


async def restore(url: str, log: StoredLog) -> None:
    """Every message under its old sequence, which definitions and cursors refer to. Times of storage are new."""
    async with Connection.open(url, name="restore") as connection:
        await ensure_streams(connection, Layout(partitions=PARTITIONS))
        for stream, last in log.last.items():
            at = 0
            for message in log.stream(stream):
                if "Nats-Marker-Reason" in message.headers:
                    continue  # the server's own: nobody may publish it
                await _leave_gap(connection, stream, at, message.sequence - 1)
                headers = {key: value for key, value in message.headers.items() if key in _KEPT_HEADERS}
                await _publish(connection, message.subject, message.data, headers, message.sequence)
                at = message.sequence
            await _leave_gap(connection, stream, at, last)
            gap = _GAPS[stream].format("*")
            await connection.api(f"STREAM.PURGE.{stream}", {"filter": gap})


async def _leave_gap(connection: Connection, stream: str, after: int, through: int) -> None:
    """Sequences whose messages had left the stream."""
    for sequence in range(after + 1, through + 1):
        await _publish(connection, _GAPS[stream].format(sequence), b"", {}, sequence)


async def _publish(
    connection: Connection, subject: str, data: bytes, headers: dict[str, str], sequence: int
) -> None:
    answer = await connection.nc.request(subject, data, headers=headers or None, timeout=5)
    assert json.loads(answer.data).get("seq") == sequence, f"{subject}: {answer.data!r}"


def _lines(version: str, name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(HERE / version / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _bytes(text: str) -> bytes:
    return base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()


def _headers(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines()[1:] if line)
    return {key.strip(): value.strip() for key, _, value in pairs}
