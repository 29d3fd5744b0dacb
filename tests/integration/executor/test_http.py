"""HTTP calls against a real server on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from executor_rig.fake_owner import FakeOwner
from executor_rig.in_process import RunningExecutor, running_executor
from waterclock.core.runtime.settings import Settings
from waterclock.proto.events import RunCancelled, RunFailed, RunSucceeded, RunTimedOut
from waterclock.proto.spec import Http


class Site:
    """Answers what a path asks for, and remembers who asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.arrived = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, dict(request.headers), await request.read()))
        self.arrived.set()
        match request.path:
            case "/json":
                return web.json_response({"rows": 3})
            case "/text":
                return web.Response(text="hello")
            case "/large":
                return web.Response(body=b"x" * 1_000_000)
            case "/redirect":
                raise web.HTTPFound("/json")
            case "/busy":
                return web.Response(status=429, headers={"Retry-After": "77"})
            case "/slow":
                await asyncio.sleep(60)
        return web.Response(status=404, text="what?")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", site.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()


@pytest.fixture
async def executor(owner: FakeOwner, settings: Settings) -> AsyncIterator[RunningExecutor]:
    async with running_executor(msgspec.structs.replace(settings, http_private=True)) as executor:
        yield executor


async def test_a_json_answer_is_the_output(owner: FakeOwner, executor: RunningExecutor, site: Site) -> None:
    item = await owner.submit(Http(url=site.url + "/json"))
    assert (await owner.end_of(item, RunSucceeded)).output == {"rows": 3}


async def test_a_text_answer_is_the_output(owner: FakeOwner, executor: RunningExecutor, site: Site) -> None:
    item = await owner.submit(Http(url=site.url + "/text"))
    assert (await owner.end_of(item, RunSucceeded)).output == "hello"


async def test_an_answer_too_large_for_an_output_is_in_the_log(
    owner: FakeOwner, executor: RunningExecutor, site: Site
) -> None:
    item = await owner.submit(Http(url=site.url + "/large"))
    end = await owner.end_of(item, RunSucceeded)
    assert end.output is None
    assert end.log_url is not None


@pytest.mark.parametrize(
    ("body", "payload", "sent", "kind"),
    [
        (None, {"user": 1}, b'{"user":1}', "application/json"),
        ({"a": [1]}, {"user": 1}, b'{"a":[1]}', "application/json"),
        ("plain", {"user": 1}, b"plain", "text/plain; charset=utf-8"),
    ],
)
async def test_what_is_sent(
    owner: FakeOwner, executor: RunningExecutor, site: Site, body: Any, payload: Any, sent: bytes, kind: str
) -> None:
    item = await owner.submit(
        Http(url=site.url + "/json", method="POST", body=body, headers={"X-Own": "yes"}), payload=payload
    )
    await owner.end_of(item, RunSucceeded)
    method, headers, received = site.asked[0]
    assert (method, received, headers["Content-Type"]) == ("POST", sent, kind)
    assert headers["X-Own"] == "yes"
    assert headers["Idempotency-Key"] == headers["Waterclock-Run-Id"] == item.run_id
    assert headers["Waterclock-Attempt"] == "1"


async def test_another_status_is_a_failure(owner: FakeOwner, executor: RunningExecutor, site: Site) -> None:
    item = await owner.submit(Http(url=site.url + "/nothing"))
    end = await owner.end_of(item, RunFailed)
    assert end.reason == "HTTP 404 Not Found"
    assert end.output == "what?"


async def test_a_status_may_be_expected(owner: FakeOwner, executor: RunningExecutor, site: Site) -> None:
    item = await owner.submit(Http(url=site.url + "/nothing", ok=(404,)))
    await owner.end_of(item, RunSucceeded)
    other = await owner.submit(Http(url=site.url + "/json", ok=(404,)))
    assert (await owner.end_of(other, RunFailed)).reason == "HTTP 200 OK"


async def test_a_redirect_is_not_followed(owner: FakeOwner, executor: RunningExecutor, site: Site) -> None:
    item = await owner.submit(Http(url=site.url + "/redirect"))
    assert (await owner.end_of(item, RunFailed)).reason == "HTTP 302 Found"
    assert len(site.asked) == 1


async def test_retry_after_is_honoured(owner: FakeOwner, executor: RunningExecutor, site: Site) -> None:
    item = await owner.submit(Http(url=site.url + "/busy"), max_retries=3)
    end = await owner.end_of(item, RunFailed)
    assert end.retry_at == end.at + 77_000_000


async def test_a_call_can_time_out_and_be_cancelled(
    owner: FakeOwner, executor: RunningExecutor, site: Site
) -> None:
    slow = await owner.submit(Http(url=site.url + "/slow"), timeout_seconds=0.3)
    assert (await owner.end_of(slow, RunTimedOut)).reason == "timed out after 0.3 s"
    site.arrived.clear()
    unwanted = await owner.submit(Http(url=site.url + "/slow"))
    await site.arrived.wait()
    await owner.stop(unwanted.run_id)
    await owner.end_of(unwanted, RunCancelled)


async def test_nobody_there_is_a_failure_that_is_retried(owner: FakeOwner, executor: RunningExecutor) -> None:
    item = await owner.submit(Http(url="http://127.0.0.1:1/"), max_retries=1)
    end = await owner.end_of(item, RunFailed)
    assert end.reason.startswith("ClientConnectorError")
    assert end.retry_at is not None


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/json",
        "http://localhost:{port}/json",
        "http://2130706433:{port}/json",
        "http://0x7f.1:{port}/json",
        "http://[::1]:{port}/json",
        "http://[::ffff:127.0.0.1]:{port}/json",
        "http://169.254.169.254/latest/meta-data",
        "ftp://127.0.0.1:{port}/json",
        "file:///etc/passwd",
        "http:///json",
    ],
)
async def test_the_executors_own_net_is_out_of_reach(
    owner: FakeOwner, settings: Settings, site: Site, url: str
) -> None:
    async with running_executor(settings):
        item = await owner.submit(Http(url=url.format(port=site.url.rpartition(":")[2])), max_retries=5)
        end = await owner.end_of(item, RunFailed)
        assert end.reason.startswith(("refused: ", "not to be called: "))
        assert end.retry_at is None, "trying again is pointless"
        assert site.asked == []


async def test_a_secret_header_is_not_shown(owner: FakeOwner, executor: RunningExecutor, site: Site) -> None:
    task = Http(url=site.url + "/nothing?key=hunter2-secret", headers={"Authorization": "hunter2-secret"})
    item = await owner.submit(task, secrets=("Authorization",))
    end = await owner.end_of(item, RunFailed)
    assert "hunter2" not in json.dumps(msgspec.to_builtins(end))
