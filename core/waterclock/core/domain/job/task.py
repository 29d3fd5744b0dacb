"""What a job or a node runs: one of a command, an artifact, an HTTP call, a handler, or a workflow's nodes.

An HTTP call, checked for what would break out of the request line or a header.

What a job or a node is expanded over.
"""

import re
from typing import Any
from urllib.parse import urlsplit

from msgspec import UnsetType

from waterclock.core.domain.job.naming import snake_case
from waterclock.core.domain.job.request_fields import value_of, value_or
from waterclock.core.domain.job.validate import Problems
from waterclock.core.domain.workflow.template import without_templates
from waterclock.proto.names import is_user_id
from waterclock.proto.policies import DIGEST_PATTERN, ENV_PATTERN
from waterclock.proto.spec import (
    ALONGSIDE,
    RUNS,
    Argv,
    Artifact,
    FanOut,
    FanOutRequest,
    Handler,
    Http,
    HttpRequest,
    Shell,
    SingleTask,
    WorkRequest,
)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f]")
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def http_of(request: HttpRequest, problems: Problems) -> Http:
    method = value_or(request.method, "GET").upper()
    if not _TOKEN.fullmatch(method):
        problems.add("method", f"{method!r} is not an HTTP method")
    _check_url(request.url, problems)
    headers = value_or(request.headers, {})
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
        body=value_of(request.body),
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


LARGEST = 100_000_000

_SHARE = re.compile(r"(?P<percent>\d{1,3}(\.\d{1,6})?)\s*%", re.ASCII)
_DIGEST = re.compile(DIGEST_PATTERN)


def fan_out_of(request: FanOutRequest, upstream: tuple[str, ...] | None, problems: Problems) -> FanOut:
    """`upstream`: the nodes whose output may be expanded; None for a job, which has none."""
    _check_over(request.over, upstream, problems)
    tolerated = 0 if isinstance(request.tolerated_failures, UnsetType) else request.tolerated_failures
    if isinstance(tolerated, str):
        share = _SHARE.fullmatch(tolerated.strip())
        if share is None or float(share["percent"]) > 100:
            problems.add("tolerated_failures", f"{tolerated!r} is neither a count nor a share such as 5%")
    return FanOut(
        over=request.over,
        max_concurrency=value_or(request.max_concurrency, 100),
        tolerated_failures=tolerated,
    )


def _check_over(over: Any, upstream: tuple[str, ...] | None, problems: Problems) -> None:
    match over:
        case list():
            return
        case {"range": bool()}:
            problems.add("over.range", "must be a number of members")
        case {"range": int() as size, **rest} if not rest:
            if not 0 <= size <= LARGEST:
                problems.add("over.range", f"must be between 0 and {LARGEST}")
        case {"lines": str() as digest, **rest} if not rest:
            if not _DIGEST.fullmatch(digest):
                problems.add("over.lines", "must be sha256: followed by 64 hexadecimal digits")
        case {"from": str() as node, **rest} if not rest and upstream is not None:
            if not is_user_id(node) or node not in upstream:
                problems.add("over.from", f"{node!r} is not among the nodes it depends on")
        case {"from": _, **rest} if not rest and upstream is None:
            problems.add("over.from", "only a workflow's node can expand the output of another")
        case _:
            choices = '[items], {"range": N}, {"lines": "sha256:…"}'
            more = ' or {"from": "node id"}' if upstream is not None else ""
            problems.add("over", f"must be one of {choices}{more}")


_LONGEST_ARGUMENT = 131_071
"""Linux takes no longer argument or environment value (MAX_ARG_STRLEN), and a shell command is one argument."""
_ENV = re.compile(ENV_PATTERN)


def task_of(request: WorkRequest, name: str, problems: Problems) -> SingleTask:
    """What is said to run; without that, the handler that goes by the name."""
    given = [field for field in RUNS if value_of(getattr(request, field)) is not None]
    if given == ["job_type", "handler"] and request.job_type == request.handler:
        given = ["handler"]
    for other in given[1:]:
        problems.add(other, f"cannot be combined with {given[0]}: both say what runs")
    _check_alongside(request, given, problems)
    match given:
        case ["command", *_]:
            return _command(request, problems)
        case ["artifact", *_]:
            return _artifact(request, problems)
        case ["http", *_]:
            http = value_of(request.http)
            assert http is not None
            return http_of(http, problems.under("http"))
        case [field, *_]:
            handler = value_or(request.job_type, "") or value_or(request.handler, "")
            _check_id(field, handler, problems)
            return Handler(handler=handler)
        case _:
            return Handler(handler=_handler_by_name(name, problems))


def _command(request: WorkRequest, problems: Problems) -> Shell | Argv:
    command, env = value_or(request.command, ""), _env(request, problems)
    if isinstance(command, str):
        if not command.strip():
            problems.add("command", "is empty")
        _check_argument("command", command, problems)
        return Shell(command=command, env=env)
    if not command or not command[0].strip():
        problems.add("command", "is empty: the first element is the program to run")
    for argument in command:
        _check_argument("command", argument, problems)
    return Argv(command=tuple(command), env=env)


def _artifact(request: WorkRequest, problems: Problems) -> Artifact:
    digest, arguments = value_or(request.artifact, ""), value_or(request.args, [])
    if not _DIGEST.fullmatch(digest):
        problems.add("artifact", "must be sha256: followed by 64 hexadecimal digits")
    for argument in arguments:
        _check_argument("args", argument, problems)
    entry = value_of(request.entry)
    if entry is not None and (entry.startswith("/") or ".." in entry.split("/")):
        problems.add("entry", "must be a path inside the archive")
    return Artifact(artifact=digest, args=tuple(arguments), entry=entry, env=_env(request, problems))


def _env(request: WorkRequest, problems: Problems) -> dict[str, str]:
    env = value_or(request.env, {})
    for key, value in env.items():
        if not _ENV.fullmatch(key):
            problems.add("env", f"{key!r} is not the name of an environment variable")
        _check_argument(f"env.{key}", value, problems)
    return env


def _handler_by_name(name: str, problems: Problems) -> str:
    handler = snake_case(name)
    if name and not is_user_id(handler):
        why = "is too long for" if len(handler) > 64 else "does not make"
        problems.add(
            "name", f"{why} the name of a handler; say what runs: command, artifact, http or job_type"
        )
    return handler


def _check_alongside(request: WorkRequest, given: list[str], problems: Problems) -> None:
    for field, owners in ALONGSIDE.items():
        wrong = any(problems.has(owner) for owner in owners)
        if value_of(getattr(request, field)) and not wrong and not set(given) & set(owners):
            problems.add(field, f"only goes with {' or '.join(owners)}")


def _check_id(field: str, text: str, problems: Problems) -> None:
    if not is_user_id(text):
        problems.add(
            field, "must be letters, digits, _ or -, beginning with a letter or digit, and at most 64"
        )


def _check_argument(field: str, text: str, problems: Problems) -> None:
    if len(text) * 4 > _LONGEST_ARGUMENT and len(text.encode(errors="replace")) > _LONGEST_ARGUMENT:
        problems.add(field, f"is longer than the {_LONGEST_ARGUMENT} bytes that a process may be given")
