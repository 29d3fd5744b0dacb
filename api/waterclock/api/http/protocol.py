"""uvicorn's HTTP, with what HTTP/1.0 lacks: a body without a length ends with the connection, not with a chunk.

(nginx talks 1.0 to what stands behind it unless told otherwise.)
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from waterclock.api.http.raw_response import header


class _UntilClosed(RequestResponseCycle):
    """An answer to HTTP/1.0."""

    unbounded = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if not header(message["headers"], b"content-length"):
                self.unbounded, self.chunked_encoding, self.keep_alive = True, False, False
        elif self.unbounded:
            self.expected_content_length = len(message["body"])
        await super().send(message)


class Protocol(HttpToolsProtocol):
    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and type(self.cycle) is RequestResponseCycle:
            self.cycle.__class__ = _UntilClosed
