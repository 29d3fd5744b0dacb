"""The reply subject of a delivery, in both forms the server knows."""

import pytest

from waterclock.core.jetstream.messages import delivery_of


@pytest.mark.parametrize(
    "reply",
    [
        b"$JS.ACK.WORK.default_light_0.2.17.9.1789000000000000000.4",
        b"$JS.ACK.hub.ACCHASH.WORK.default_light_0.2.17.9.1789000000000000000.4",
        b"$JS.ACK._.ACCHASH.WORK.default_light_0.2.17.9.1789000000000000000.4.token",
    ],
)
def test_what_the_reply_says(reply: bytes) -> None:
    delivery = delivery_of(b"wc.work.a", reply, b"NATS/1.0\r\nNats-Msg-Id: x\r\n\r\n", b"data")
    assert (delivery.subject, delivery.data, delivery.reply) == ("wc.work.a", b"data", reply.decode())
    assert (delivery.delivered, delivery.sequence, delivery.consumer_sequence) == (2, 17, 9)
    assert (delivery.timestamp_ns, delivery.pending) == (1789000000000000000, 4)
    assert delivery.headers == {"Nats-Msg-Id": "x"}
    assert not delivery.is_absent


def test_no_headers_is_none() -> None:
    delivery = delivery_of(b"a", b"$JS.ACK.S.C.1.1.1.1.0", b"", b"")
    assert delivery.headers is None
