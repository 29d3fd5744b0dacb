"""A message as a consumer hands it out. All that is known about it travels in its reply subject."""

from msgspec import Struct

from waterclock.core.jetstream.protocol import is_absent, parse_headers


class Delivery(Struct, frozen=True, gc=False):
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
