"""An S3 service behind TLS: trusted by the authority that was named, and by no other."""

import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from servers.certificates import Authority
from waterclock.core.store.s3 import S3Store
from waterclock.core.store.store import StoreError, one_piece


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def endpoint(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    signed = authority.signs("127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.certificate, signed.key)
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=context)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_who_names_the_authority_is_served(endpoint: str, authority: Authority) -> None:
    async with S3Store.open("s3://kept", "artifacts", endpoint=endpoint, ca=authority.file) as store:
        await store.ensure_bucket()
        assert await store.put("a", one_piece(b"content")) == 7
        assert b"".join([piece async for piece in store.get("a")]) == b"content"


async def test_without_it_nothing_is_sent(endpoint: str, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    for ca in (None, other.file):
        async with S3Store.open("s3://kept", "artifacts", endpoint=endpoint, ca=ca) as store:
            with pytest.raises(StoreError, match=r"(?i)ssl|certificate"):
                await store.put("a", one_piece(b"content"))
