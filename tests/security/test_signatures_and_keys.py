"""F10: signatures of any form, webhooks to addresses of ours, and keys that are each namespace's own."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from waterclock.core.domain.instants import SECOND
from waterclock.executor.limits.admission import _of_namespace
from waterclock.projector.alerts.alert import Alert
from waterclock.projector.alerts.signing import KEY_ID, SIGNATURE, TIMESTAMP, signed, verify
from waterclock.projector.alerts.webhook import DeliveryFailed, Receiver, Webhook
from waterclock.proto.spec import JobSpec, Schedule, Shell

NOW = 1_800_000_000


@given(
    timestamp=some.text(max_size=40) | some.sampled_from(["9" * 5_000, "١٢٣", "²", "", "-1"]),
    signature=some.text(max_size=80),
    key_id=some.text(max_size=5),
    body=some.binary(max_size=50),
)
def test_no_signature_raises(timestamp: str, signature: str, key_id: str, body: bytes) -> None:
    assert not verify(
        body,
        key_id=key_id,
        timestamp=timestamp,
        signature=signature,
        secrets={"1": "s", key_id: "t"},
        now=NOW,
    )


def test_a_true_signature_is_one() -> None:
    headers = signed(b"body", secret="s", key_id="1", now=NOW)
    assert verify(
        b"body",
        key_id=headers[KEY_ID],
        timestamp=headers[TIMESTAMP],
        signature=headers[SIGNATURE],
        secrets={"1": "s"},
        now=NOW,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f000001"])
async def test_an_alert_does_not_go_to_an_address_of_ours(host: str) -> None:
    called: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: called.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    alert = Alert(alert_id="a", key="k", rule="dead_letter", summary="s", at=int(time.time()) * SECOND)
    async with server, Webhook.open(Receiver(url=f"http://{host}:{port}/"), "test") as webhook:
        with pytest.raises(DeliveryFailed):
            await webhook.send(alert)
    assert not called


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "[fd00::1]"])
async def test_an_alert_does_not_go_to_a_private_address(host: str) -> None:
    alert = Alert(alert_id="a", key="k", rule="dead_letter", summary="s", at=int(time.time()) * SECOND)
    async with Webhook.open(Receiver(url=f"http://{host}/latest"), "test") as webhook:
        with pytest.raises(DeliveryFailed, match="not a public address"):
            await webhook.send(alert)


def test_a_key_is_its_namespaces_own_and_in_the_default_one_what_it_was() -> None:
    def spec(namespace: str) -> JobSpec:
        return JobSpec(name="a", task=Shell(command="x"), schedule=Schedule(), namespace=namespace)

    found = {_of_namespace(spec(namespace), "db") for namespace in ("default", "a", "b")}
    assert found == {"db", "a=db", "b=db"}
