"""`{{ nodes.fetch.output.rows }}` in arguments, environment and payload.

A text that is one template and nothing else becomes the value itself, whatever its type; within other text a value
is written out, JSON unless it is text. `{{` followed by anything but a path is left alone: it is somebody else's.
In a shell command a value never becomes part of the program: it is put into an environment variable and the command
refers to that, in whatever quotes the template stands.
"""

import re
from collections.abc import Mapping
from typing import Any, assert_never

from msgspec.structs import replace

from waterclock.core.domain.workflow.conditions import (
    FilledScope,
    Path,
    Scope,
    failing_alone,
    path_of,
    written,
)
from waterclock.proto.policies import SecretRef, Value
from waterclock.proto.spec import Argv, Artifact, Handler, Http, Shell, SingleTask

_TEMPLATE = re.compile(r"\{\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+|\[-?\d+\])*)\s*\}\}", re.ASCII)
VARIABLE = "WATERCLOCK_VALUE_"


def texts_of(task: SingleTask, payload: Any) -> Any:
    """All that may hold templates, as one value."""
    match task:
        case Shell() | Argv():
            return [task.command, task.env, payload]
        case Artifact():
            return [task.args, task.env, payload]
        case Http():
            return [task.url, task.headers, task.body, payload]
        case Handler():
            return payload
        case _:
            assert_never(task)


def render_task(task: SingleTask, scope: Scope) -> SingleTask:
    """What runs, with its templates filled in. Raises Unusable."""
    match task:
        case Shell():
            command, variables = render_shell(task.command, scope)
            return Shell(command=command, env={**render_texts(task.env, scope), **variables})
        case Argv():
            command_line = tuple(render_text(argument, scope) for argument in task.command)
            return Argv(command=command_line, env=render_texts(task.env, scope))
        case Artifact():
            arguments = tuple(render_text(argument, scope) for argument in task.args)
            return replace(task, args=arguments, env=render_texts(task.env, scope))
        case Http():
            return replace(
                task,
                url=render_text(task.url, scope),
                headers=render_texts(task.headers, scope),
                body=render(task.body, scope),
            )
        case Handler():
            return task
        case _:
            assert_never(task)


@failing_alone
def paths_in(value: Any) -> list[Path]:
    """Every path that a value's templates refer to. Raises Unusable."""
    match value:
        case str():
            return [path_of(found[1]) for found in _TEMPLATE.finditer(value)] if "{{" in value else []
        case dict():
            return [path for key, part in value.items() for path in (*paths_in(key), *paths_in(part))]
        case list() | tuple():
            return [path for part in value for path in paths_in(part)]
        case _:
            return []


def without_templates(text: str) -> str:
    """A text with a digit for each of its templates, so that the rest of it can be checked."""
    return _TEMPLATE.sub("1", text) if "{{" in text else text


def render(value: Any, scope: Scope) -> Any:
    """A JSON value with its templates filled in. Raises Unusable."""
    match value:
        case str() if "{{" in value:
            whole = _TEMPLATE.fullmatch(value.strip())
            return _find(whole[1], scope) if whole else render_text(value, scope)
        case dict():
            return {render_text(key, scope): render(part, scope) for key, part in value.items()}
        case list() | tuple():
            return [render(part, scope) for part in value]
        case _:
            return value


def render_text(text: str, scope: Scope) -> str:
    if "{{" not in text:
        return text
    return _TEMPLATE.sub(lambda found: written(_find(found[1], scope)), text)


def _find(path: str, scope: Scope) -> Any:
    value = path_of(path).find(scope)
    if isinstance(scope, FilledScope):
        scope.count(value)
    return value


def render_texts(texts: Mapping[str, Value], scope: Scope) -> dict[str, Value]:
    """A secret stays a name: its value is nothing that a template could refer to, or become part of."""
    return {
        name: text if isinstance(text, SecretRef) else render_text(text, scope)
        for name, text in texts.items()
    }


def render_shell(command: str, scope: Scope) -> tuple[str, dict[str, str]]:
    """The command, and the variables it then needs."""
    if "{{" not in command:
        return command, {}
    pieces: list[str] = []
    variables: dict[str, str] = {}
    quotes = ""
    at = 0
    for found in _TEMPLATE.finditer(command):
        before = command[at : found.start()]
        quotes = _quotes_after(before, quotes)
        name = f"{VARIABLE}{len(variables) + 1}"
        variables[name] = written(_find(found[1], scope))
        reference = {"": f'"${{{name}}}"', '"': f"${{{name}}}", "'": f"'\"${{{name}}}\"'"}[quotes]
        pieces += (before, reference)
        at = found.end()
    return "".join((*pieces, command[at:])), variables


def _quotes_after(text: str, quotes: str) -> str:
    """In which quotes a shell is after some text: none, single or double."""
    escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\" and quotes != "'":
            escaped = True
        elif character == quotes:
            quotes = ""
        elif not quotes and character in "'\"":
            quotes = character
    return quotes
