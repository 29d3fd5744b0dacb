"""An HTTP call, checked for what would break out of the request line or a header."""

import re
from urllib.parse import urlsplit

from msgspec import UnsetType

from waterclock.core.domain.job.request_fields import said, said_or
from waterclock.core.domain.job.validate import Problems
from waterclock.core.domain.workflow.template import without_templates
from waterclock.proto.commands import HttpRequest
from waterclock.proto.spec import Http

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f]")
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def http_of(request: HttpRequest, problems: Problems) -> Http:
    method = said_or(request.method, "GET").upper()
    if not _TOKEN.fullmatch(method):
        problems.add("method", f"{method!r} is not an HTTP method")
    _check_url(request.url, problems)
    headers = said_or(request.headers, {})
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            problems.add("headers", f"{name!r} is not the name of a header")
        if _NOT_IN_A_HEADER.search(value):
            problems.add("headers", f"the value of {name!r} contains a line break or control character")
    ok = [] if isinstance(request.ok, UnsetType) or request.ok is None else request.ok
    return Http(
        url=request.url,
        method=method,
        headers=headers,
        body=said(request.body),
        ok=(ok,) if isinstance(ok, int) else tuple(ok),
    )


def _check_url(text: str, problems: Problems) -> None:
    url = without_templates(text)
    if _NOT_IN_A_URL.search(url):
        problems.add("url", "contains a space or control character")
        return
    if url != text and not url.startswith("http"):
        return  # where it leads is for a value to say, and checked when it has
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        problems.add("url", f"is not a URL: {error}")
        return
    if parts.scheme not in ("http", "https"):
        problems.add("url", "must begin with http:// or https://")
    elif not host:
        problems.add("url", "names no host")
