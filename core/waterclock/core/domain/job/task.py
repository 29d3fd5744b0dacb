"""What a job or a node runs: all that a kind of task needs to be read from a request and written as one again.

A new kind has its struct and its request field in `proto/spec.py`, its checks here, its templates in
`workflow/template.py`, and a performer in the executor.
"""

import re
from typing import Any
from urllib.parse import urlsplit

from msgspec import UnsetType

from waterclock.core.domain.job.naming import single_line, snake_case
from waterclock.core.domain.job.request_fields import value_of, value_or
from waterclock.core.domain.job.validate import Problems
from waterclock.core.domain.workflow.template import without_templates
from waterclock.proto.names import is_user_id
from waterclock.proto.policies import DIGEST_PATTERN, ENV_PATTERN, SecretRef, Value
from waterclock.proto.spec import (
    ALONGSIDE,
    RUNS,
    Argv,
    Artifact,
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
        if isinstance(value, SecretRef):
            _check_secret(f"headers.{name}", value, problems)
        elif _NOT_IN_A_HEADER.search(value):
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


_DIGEST = re.compile(DIGEST_PATTERN)
_LONGEST_ARGUMENT = 131_071
"""Linux takes no longer argument or environment value (MAX_ARG_STRLEN), and a shell command is one argument."""
_ENV = re.compile(ENV_PATTERN)


def name_by_task(request: WorkRequest) -> str | None:
    """What to call a job that has no name: after what it runs."""
    command, http = value_of(request.command), value_of(request.http)
    if command is not None:
        words = command.split() if isinstance(command, str) else command
        return single_line(words[0].rsplit("/", 1)[-1]) or None if words else None
    if http is not None:
        try:
            return urlsplit(http.url).hostname or "http"
        except ValueError:
            return "http"
    return value_of(request.entry) or value_of(request.artifact)


def request_of(task: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request for a task as it is stored: `{"kind": "http", "url": …}` was `{"http": {"url": …}}`."""
    match task.pop("kind"):
        case "http":
            return {"http": task}
        case "workflow":
            return {"nodes": [{**request_of(node.pop("task")), **node} for node in task["nodes"]]}
        case _:
            return task


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
        case ["job_type" | "handler" as field, *_]:
            handler = value_or(request.job_type, "") or value_or(request.handler, "")
            _check_id(field, handler, problems)
            return Handler(handler=handler)
        case []:
            return Handler(handler=_handler_by_name(name, problems))
        case _:
            raise AssertionError(f"nothing reads {given[0]}")


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


def _env(request: WorkRequest, problems: Problems) -> dict[str, Value]:
    env = value_or(request.env, {})
    for key, value in env.items():
        if not _ENV.fullmatch(key):
            problems.add("env", f"{key!r} is not the name of an environment variable")
        if isinstance(value, SecretRef):
            _check_secret(f"env.{key}", value, problems)
        else:
            _check_argument(f"env.{key}", value, problems)
    return env


def _check_secret(field: str, value: SecretRef, problems: Problems) -> None:
    if not is_user_id(value.secret):
        problems.add(f"{field}.secret", "is not the name of a secret: letters, digits, _ or -, at most 64")


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
