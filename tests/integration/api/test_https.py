"""With a certificate the REST interface speaks HTTPS, at least 1.2, and nothing else."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from servers.certificates import Authority
from support.waiting import eventually
from waterclock.api.application import open_application
from waterclock.api.service import serve_http
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.ports import is_free
from waterclock.core.runtime.settings import Settings

from .conftest import TOKEN, settings_for


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def secured(tmp_path: Path, nats_url: str, authority: Authority) -> AsyncIterator[Settings]:
    signed = authority.signs("127.0.0.1")
    plain = settings_for(tmp_path, nats_url, None)
    settings = Settings(
        **{name: getattr(plain, name) for name in ("data", "nats_url", "port", "token", "partitions")},
        http_cert=signed.certificate,
        http_key=signed.key,
    )
    stop = StopSignal()
    async with open_application(settings) as app:
        serving = asyncio.create_task(serve_http(app, stop))
        await eventually(lambda: not is_free(settings.port), what="a listener")
        yield settings
        stop.set()
        await serving


async def ask(settings: Settings, trusted: ssl.SSLContext, host: str = "127.0.0.1") -> int:
    async with httpx.AsyncClient(verify=trusted, trust_env=False) as http:
        answer = await http.post(
            f"https://{host}:{settings.port}/v1/jobs",
            json={"name": "x", "command": "true", "schedule": "@yearly"},
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        return answer.status_code


async def test_who_trusts_the_authority_is_served(secured: Settings, authority: Authority) -> None:
    assert await ask(secured, ssl.create_default_context(cafile=authority.file)) == 201


async def test_others_see_that_it_is_not_who_they_mean(
    secured: Settings, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    with pytest.raises(httpx.ConnectError, match="certificate"):
        await ask(secured, ssl.create_default_context(cafile=other.file))
    with pytest.raises(httpx.ConnectError, match="certificate"):
        await ask(secured, ssl.create_default_context(cafile=authority.file), host="localhost")


async def test_neither_plain_text_nor_an_old_protocol_is_spoken(
    secured: Settings, authority: Authority
) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(f"http://127.0.0.1:{secured.port}/healthz")
    old = ssl.create_default_context(cafile=authority.file)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError):
        await ask(secured, old)
