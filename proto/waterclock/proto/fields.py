"""What the field table says of a field beside its name, type and default.

The table itself are the structs of `spec.py`: a request's field carries `about(...)`. The JSON schemas, the options of
`waterclock submit` and `update` and docs/reference/job-fields.md are made from it.
"""

from typing import Any, Literal

import msgspec
from msgspec import NODEFAULT, Meta, Struct

Form = Literal["text", "texts", "number", "switch", "json", "pairs", "call"]
"""How a command line says a value: a text, several, a number, `--yes/--no`, JSON, `K=V` pairs, `METHOD URL`."""


class Flag(Struct, frozen=True):
    """The option of `waterclock submit` and `waterclock update` that sets a field."""

    name: str
    """As typed: `--tz`; of a switch both, as in `--critical/--not-critical`."""
    metavar: str = ""
    form: Form = "text"
    values: tuple[Any, Any] = (True, False)
    """What the two sides of a switch stand for."""
    help: str = ""
    """Where a command line takes more than the field does."""


class Row(Struct, frozen=True, kw_only=True):
    """One field of a request."""

    name: str
    type: Any
    required: bool
    help: str = ""
    flag: Flag | None = None


def about(help: str, flag: Flag | None = None) -> Meta:
    return Meta(description=help, extra=None if flag is None else {"flag": flag})


def rows(kind: type[Struct]) -> list[Row]:
    """The fields of a request in their order."""
    return [_row(field) for field in msgspec.structs.fields(kind)]


def _row(field: msgspec.structs.FieldInfo) -> Row:
    help, flag = "", None
    for meta in getattr(field.type, "__metadata__", ()):
        if isinstance(meta, Meta):
            help = meta.description or help
            flag = (meta.extra or {}).get("flag", flag)
    required = field.default is NODEFAULT and field.default_factory is NODEFAULT
    return Row(name=field.encode_name, type=field.type, required=required, help=help, flag=flag)
