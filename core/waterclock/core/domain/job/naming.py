"""A job's name, and the handler that goes by it."""

import re
import unicodedata
from urllib.parse import urlsplit

from waterclock.core.domain.job.request_fields import value_of
from waterclock.core.domain.job.validate import Problems
from waterclock.proto.names import is_user_id
from waterclock.proto.spec import JobRequest

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LONGEST = 256
_STAND_INS = ("job_type", "handler", "job_id", "workflow_id", "command", "http", "artifact")
"""What may give a job its name; one that is wrong is complaint enough."""


def name_of(request: JobRequest, problems: Problems) -> str:
    """What it is called; without a name, what it runs is called."""
    name = value_of(request.name)
    if name is None:
        name = _substitute(request)
        if name is None and not any(problems.has(field) for field in ("name", *_STAND_INS)):
            problems.add("name", "is required, as nothing else says what the job is")
        return (name or "")[:_LONGEST]
    if not name.strip():
        problems.add("name", "must not be blank")
    check_line("name", name, problems)
    return name


def check_line(field: str, text: str | None, problems: Problems) -> None:
    """Text of a single line, which may go into logs, headers and terminals."""
    if text is not None and _CONTROL.search(text):
        problems.add(field, "must not contain line breaks or control characters")


def snake_case(name: str) -> str:
    """`Daily Data Cleanup` is served by the handler `daily_data_cleanup`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "_", _HUMP.sub("_", plain).lower()).strip("_")


def id_of_name(name: str) -> str | None:
    """The id of what is declared under a name only; None if the name has nothing that an id could be made of."""
    for chosen in (name, snake_case(name)):
        if is_user_id(chosen):
            return chosen
    return None


def _substitute(request: JobRequest) -> str | None:
    for chosen in (request.job_type, request.handler, request.job_id, request.workflow_id):
        if isinstance(chosen, str):
            return chosen
    command, http, artifact = value_of(request.command), value_of(request.http), value_of(request.artifact)
    if command is not None:
        words = command.split() if isinstance(command, str) else command
        return _CONTROL.sub(" ", words[0].rsplit("/", 1)[-1]).strip() or None if words else None
    if http is not None:
        try:
            return urlsplit(http.url).hostname or "http"
        except ValueError:
            return "http"
    return value_of(request.entry) or artifact
