"""The parts of the NATS text protocol that we write and read ourselves."""

from collections.abc import Mapping

from waterclock.core.runtime.clock import now_us

_LAPSED_SECONDS = 5
"""How long over a time to live has to be before we believe ourselves and not the server: clocks differ a little."""


def publish_command(subject: str, reply: str, headers: Mapping[str, str] | None, data: bytes) -> bytes:
    """PUB or HPUB. Refuses what would let a name break out of its field, or address more than one subject."""
    if subject.split() != [subject] or "*" in subject or ">" in subject:
        raise ValueError(f"not a subject to publish on: {subject!r}")
    to = f"{subject} {reply}" if reply else subject
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (to.encode(), len(data), data)
    block = header_block(headers)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (to.encode(), len(block), len(block) + len(data), block, data)


def header_block(headers: Mapping[str, str]) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        raise ValueError("a header must not contain a line break")
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def parse_headers(block: bytes) -> dict[str, str]:
    """The `Name: value` lines; the inline status of a control message becomes `Status` and `Description`."""
    if not block:
        return {}
    first, *lines = block.decode(errors="replace").split("\r\n")
    headers = {}
    status, _, description = first[len("NATS/1.0 ") :].partition(" ")
    if status:
        headers["Status"] = status
        headers["Description"] = description
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    return headers


def is_marker(headers: Mapping[str, str]) -> bool:
    """Whether a message only says that its subject is empty: deleted by us, or expired by the server."""
    return "Nats-Marker-Reason" in headers or headers.get("KV-Operation") in ("DEL", "PURGE")


def is_absent(headers: Mapping[str, str], stored_ns: int) -> bool:
    """Whether a message counts as none: a marker, or one whose time to live is long over.

    The server removes the latter itself. But one that was killed finds removed messages in its files again, and of
    those whose time was over before it never notices it a second time: they would live for ever.
    """
    if is_marker(headers):
        return True
    lives = headers.get("Nats-TTL", "")
    if not lives.endswith("s") or not lives[:-1].isdigit():
        return False
    return now_us() * 1000 > stored_ns + (int(lives[:-1]) + _LAPSED_SECONDS) * 1_000_000_000
