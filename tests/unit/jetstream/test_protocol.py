"""What we write ourselves cannot be made to say something else, and what we read is read right."""

import pytest

from waterclock.core.jetstream.protocol import header_block, is_marker, parse_headers, publish_command


def test_a_message_without_headers() -> None:
    assert publish_command("a.b", "", None, b"xyz") == b"PUB a.b 3\r\nxyz\r\n"


def test_a_message_with_headers_and_a_reply_counts_bytes_not_characters() -> None:
    command = publish_command("a.b", "inbox.1", {"Name": "Zürich"}, b"xyz")
    line, block = command.split(b"\r\n", 1)
    assert line == b"HPUB a.b inbox.1 %d %d" % (len(block) - 5, len(block) - 2)
    assert block == "NATS/1.0\r\nName: Zürich\r\n\r\nxyz\r\n".encode()


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB b 0", "a\tb", "a.*", "a.>"])
def test_a_subject_that_is_more_than_a_subject_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match="not a subject"):
        publish_command(subject, "", None, b"")


@pytest.mark.parametrize("value", ["a\r\nNats-TTL: 1s", "a\nb", "a\rb"])
def test_a_line_break_in_a_header_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        header_block({"Name": value})


def test_headers_survive_the_round_trip() -> None:
    headers = {"Nats-Msg-Id": "a:b@c", "Empty": "", "Name": "Zürich"}
    assert parse_headers(header_block(headers)) == headers


def test_an_inline_status_is_read() -> None:
    block = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 7\r\n\r\n"
    assert parse_headers(block) == {
        "Status": "408",
        "Description": "Request Timeout",
        "Nats-Pending-Messages": "7",
    }
    assert parse_headers(b"NATS/1.0 503\r\n\r\n") == {"Status": "503", "Description": ""}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, False),
        ({"KV-Operation": "PUT"}, False),
        ({"KV-Operation": "DEL"}, True),
        ({"KV-Operation": "PURGE"}, True),
        ({"Nats-Marker-Reason": "MaxAge"}, True),
    ],
)
def test_markers(headers: dict[str, str], expected: bool) -> None:
    assert is_marker(headers) is expected
