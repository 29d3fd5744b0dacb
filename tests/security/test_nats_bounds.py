"""F6 over NATS: nobody takes what all share."""

import asyncio
import json

from security.conftest import Attacked
from waterclock.proto.methods import EVENTS_WATCH


async def test_one_callers_watches_are_not_in_the_way_of_others(attacked: Attacked) -> None:
    """The finding: 300 watches, and the method answered nobody any more."""
    greedy, other = attacked.token("read"), attacked.token("read")
    async with attacked.as_holder(greedy) as many, attacked.as_holder(other) as one:
        refused: set[str] = set()

        def heard(subject: bytes, _reply: bytes, header: bytes, _data: bytes) -> None:
            if b"429" in header:
                refused.add(subject.decode())

        await many.nc.tap(f"{greedy['nats_inbox']}.flood.*", heard)
        for number in range(300):
            reply = f"{greedy['nats_inbox']}.flood.{number}"
            many.nc.send(b"PUB %b %b 2\r\n{}\r\n" % (EVENTS_WATCH.subject.encode(), reply.encode()))
        async with asyncio.timeout(30):
            while len(refused) < 200:
                await asyncio.sleep(0.05)
        answer = asyncio.get_running_loop().create_future()
        inbox = f"{other['nats_inbox']}.mine"
        await one.nc.tap(
            inbox, lambda *message: None if answer.done() else answer.set_result((message[2], message[3]))
        )
        one.nc.send(b"PUB %b %b 2\r\n{}\r\n" % (EVENTS_WATCH.subject.encode(), inbox.encode()))
        header, data = await asyncio.wait_for(answer, 20)
        assert b"Nats-Service-Error" not in header
        assert json.loads(data)["type"] == "position"


async def test_a_request_that_is_too_deep_or_no_json_is_refused(attacked: Attacked) -> None:
    token = attacked.token("read", "submit")
    async with attacked.as_holder(token) as own:
        for body in (
            b"[" * 100_000,
            b'{"name": ' + b"[" * 5000 + b"]" * 5000 + b"}",
            b"\xff",
            b"null",
            b"1" * 6000,
        ):
            answer = await own.request("waterclock.v1.jobs.create", body, timeout=20)
            code = int((answer.headers or {})["Nats-Service-Error-Code"])
            assert 400 <= code < 500, (body[:20], code)
        assert json.loads((await own.request("waterclock.v1.jobs.list", b"{}")).data)["items"] == []
