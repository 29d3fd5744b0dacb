"""TLS in front of a Postgres that was built without it, as a Postgres does it: asked first, then spoken."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from .certificates import Signed

_REQUEST = bytes.fromhex("0000000804d2162f")


@asynccontextmanager
async def behind_tls(url: str, signed: Signed) -> AsyncIterator[str]:
    """The URL of the same database, encrypted."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.certificate, signed.key)
    real = urlsplit(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            assert await reader.readexactly(8) == _REQUEST
            writer.write(b"S")
            await writer.start_tls(context)
            back_reader, back_writer = await asyncio.open_connection(real.hostname, real.port)
            await asyncio.gather(_pump(reader, back_writer), _pump(back_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield real._replace(netloc=f"{real.username}:{real.password}@127.0.0.1:{port}").geturl()
    finally:
        server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
