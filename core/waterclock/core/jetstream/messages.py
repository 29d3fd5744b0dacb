"""Messages as a stream holds them and as a consumer delivers them.

Single messages are read from the leader, so that a compare-and-set can build on them.
"""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from waterclock.core.domain.instants import instant_of
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import NotFound
from waterclock.core.jetstream.protocol import is_absent, parse_headers


class Stored(Struct, frozen=True, kw_only=True):
    subject: str
    data: bytes
    sequence: int
    headers: dict[str, str]
    timestamp: datetime

    @property
    def is_absent(self) -> bool:
        """Whether it only says that there is nothing."""
        return is_absent(self.headers, instant_of(self.timestamp) * 1000)


class Delivery(Struct, frozen=True, gc=False):
    """A message as a consumer hands it out. All that is known about it is in its reply subject."""

    subject: str
    data: bytes
    reply: str
    sequence: int
    """In the stream."""
    delivered: int
    """How often it was handed out, this time included."""
    pending: int
    """How many more the consumer had for us at that moment."""
    timestamp_ns: int
    header_block: bytes = b""
    consumer_sequence: int = 0
    consumer: str = ""

    @property
    def headers(self) -> dict[str, str] | None:
        """Parsed at every access: few readers need them."""
        return parse_headers(self.header_block) if self.header_block else None

    @property
    def is_absent(self) -> bool:
        """Whether it only says that there is nothing."""
        return bool(self.header_block) and is_absent(parse_headers(self.header_block), self.timestamp_ns)


def delivery_of(subject: bytes, reply: bytes, header: bytes, payload: bytes) -> Delivery:
    """Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`.

    The newer form has domain and account before the stream, and may have a token at the end.
    """
    text = reply.decode()
    fields = text.split(".")
    first = 4 if len(fields) == 9 else 6
    delivered, sequence, consumer_sequence, timestamp, pending = fields[first : first + 5]
    return Delivery(
        subject.decode(),
        payload,
        text,
        int(sequence),
        int(delivered),
        int(pending),
        int(timestamp),
        header,
        int(consumer_sequence),
        fields[first - 1],
    )


class StreamState(Struct, frozen=True, kw_only=True):
    created: datetime
    first_seq: int
    last_seq: int
    messages: int
    replicated: bool = False
    filled: float = 0.0
    """How much of the bytes that it may hold it does; 0 without a limit."""
    server_time: datetime | None = None


async def last_message(connection: Connection, stream: str, subject: str) -> Stored | None:
    return await _get(connection, stream, {"last_by_subj": subject})


async def next_message(connection: Connection, stream: str, subject: str, after: int) -> Stored | None:
    """The first message on the subject with a sequence greater than `after`."""
    return await _get(connection, stream, {"seq": after + 1, "next_by_subj": subject})


async def message_at(connection: Connection, stream: str, sequence: int) -> Stored | None:
    return await _get(connection, stream, {"seq": sequence})


async def stream_state(connection: Connection, stream: str) -> StreamState:
    info = await connection.api(f"STREAM.INFO.{stream}")
    state, server_time = info["state"], info.get("ts")
    return StreamState(
        created=datetime.fromisoformat(info["created"]),
        first_seq=state["first_seq"],
        last_seq=state["last_seq"],
        messages=state["messages"],
        replicated=info["config"].get("num_replicas", 1) > 1,
        filled=max(0.0, state["bytes"] / info["config"].get("max_bytes", -1)),
        server_time=None if server_time is None else datetime.fromisoformat(server_time),
    )


async def sequence_before(connection: Connection, stream: str, subject: str, moment: datetime) -> int:
    """The highest sequence such that every later message on the subject was stored at or after the moment.

    Found by halving, since messages are stored in the order of time.
    """
    state = await stream_state(connection, stream)
    low, high = max(0, state.first_seq - 1), state.last_seq
    while low < high:
        middle = (low + high) // 2
        found = await next_message(connection, stream, subject, middle)
        if found is None or found.timestamp >= moment:
            high = middle
        else:
            low = found.sequence
    return low


async def _get(connection: Connection, stream: str, query: dict[str, str | int]) -> Stored | None:
    try:
        answer = await connection.api(f"STREAM.MSG.GET.{stream}", query, decode=_decode_message)
    except NotFound as error:
        if "stream not found" in str(error):
            raise
        return None
    message: _StoredMessage = answer["message"]
    return Stored(
        subject=message.subject,
        data=message.data,
        sequence=message.seq,
        headers=parse_headers(message.hdrs),
        timestamp=datetime.fromisoformat(message.time),
    )


class _StoredMessage(Struct, frozen=True, kw_only=True):
    """As the server says it; data and headers in base64."""

    subject: str
    seq: int
    time: str
    data: bytes = b""
    hdrs: bytes = b""


class _MessageAnswer(Struct, frozen=True):
    message: _StoredMessage | None = None
    error: dict[str, Any] | None = None


_read_answer = msgspec.json.Decoder(_MessageAnswer).decode


def _decode_message(answer: bytes) -> dict[str, Any]:
    """A message may be large, and this is four times as fast as to read it as any JSON."""
    found = _read_answer(answer)
    return {"message": found.message} if found.error is None else {"error": found.error}
