"""Values that look like secrets and stand in a definition as they are, where everybody who may read it sees them."""

import re
from collections.abc import Iterator, Mapping

from waterclock.core.domain.workflow.template import without_templates
from waterclock.proto.policies import SecretRef, Value
from waterclock.proto.spec import Http, JobSpec, SingleTask, Workflow

_PASSWORDS = ("password", "passwd", "passphrase", "pass", "pw", "secret", "secrets")
_TOKENS = ("token", "key", "apikey", "credential", "credentials", "authorization", "cookie")
_TELLING = frozenset((*_PASSWORDS, *_TOKENS))
_HARMLESS_ENDS = frozenset(
    ("file", "path", "dir", "id", "name", "url", "host", "user", "length", "size", "count", "type")
)
_WORDS = re.compile(r"[a-z0-9]+|[A-Z]+(?![a-z])[0-9]*|[A-Z][a-z0-9]*")
_MOST = 20


def clear_secrets(spec: JobSpec) -> tuple[str, ...]:
    """A sentence for each, with the better way. They are no mistakes: the definition is taken."""
    if isinstance(spec.task, Workflow):
        found = [
            (f"nodes[{place}].{field}", name)
            for place, node in enumerate(spec.task.nodes)
            for field, name in _telling(node.task)
        ]
    else:
        found = list(_telling(spec.task))
    return tuple(
        f"{field}.{name} looks like a secret and is stored in clear: set it once with"
        f" `waterclock secret set {_proposed(name)}`,"
        f' then say {{"{name}": {{"secret": "{_proposed(name)}"}}}}'
        for field, name in found[:_MOST]
    )


def _telling(task: SingleTask) -> Iterator[tuple[str, str]]:
    field = "http.headers" if isinstance(task, Http) else "env"
    values: Mapping[str, Value] = task.headers if isinstance(task, Http) else getattr(task, "env", {})
    for name, value in values.items():
        if isinstance(value, SecretRef) or not value or without_templates(value) != value:
            continue
        if is_telling(name):
            yield field, name


def is_telling(name: str) -> bool:
    """Whether what goes by this name is likely a secret: `DB_PASSWORD`, `apiKey`, `X-Auth-Token`; not `KEY_FILE`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and not _TELLING.isdisjoint(words) and words[-1] not in _HARMLESS_ENDS


def _proposed(name: str) -> str:
    return name.lower().replace("_", "-").strip("-")[:64] or "name"
