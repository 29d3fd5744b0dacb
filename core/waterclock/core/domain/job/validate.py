"""What may be wrong with a definition: gathered, so that a user hears of all of it at once; the limits on its size; and
what no value in it may contain, however deep inside, because the log, an environment or the database would not take it.
"""

from typing import Any, Literal

from msgspec import Struct

from waterclock.proto.problem import FieldError
from waterclock.proto.values import MAX_DEPTH, beyond_bounds

Kind = Literal["malformed", "invalid", "too_large"]


class InvalidDefinition(Exception):
    """`malformed`: not a JSON object at all. `too_large`: over a limit on size. `invalid`: fields to correct."""

    def __init__(self, errors: tuple[FieldError, ...], kind: Kind = "invalid") -> None:
        super().__init__(
            "; ".join(f"{error.field}: {error.reason}" if error.field else error.reason for error in errors)
        )
        self.errors = errors
        self.kind = kind


class DefinitionLimits(Struct, frozen=True, kw_only=True):
    payload_bytes: int = 1 << 20
    body_bytes: int = 2 << 20
    """A whole definition: payload, metadata, nodes and all. The log must take it as one message."""
    depth: int = MAX_DEPTH


DEFAULT_LIMITS = DefinitionLimits()


class Defaults(Struct, frozen=True, kw_only=True):
    """What a definition has that does not say. It is stored as if it had been said: another default, later, is for
    later definitions."""

    max_retries: int = 0
    timeout_seconds: float | None = None


NO_DEFAULTS = Defaults()
"""No retries and no timeout: what was stored before there were defaults says nothing and means this."""


class Problems:
    __slots__ = ("_errors", "_under", "kind")

    def __init__(self, *, under: str = "", of: "Problems | None" = None) -> None:
        self._under = under
        self._errors: list[FieldError] = [] if of is None else of._errors
        self.kind: Kind = "invalid"

    def __len__(self) -> int:
        return len(self._errors)

    def add(self, field: str, reason: str) -> None:
        path = f"{self._under}.{field}" if self._under and field else self._under + field
        if all(error.field != path or error.reason != reason for error in self._errors):
            self._errors.append(FieldError(field=path, reason=reason))

    def under(self, field: str) -> "Problems":
        """The same list, seen from inside a field."""
        return Problems(under=f"{self._under}.{field}" if self._under else field, of=self)

    def has(self, field: str) -> bool:
        """Whether a field, or something inside it, is already known to be wrong."""
        path = f"{self._under}.{field}" if self._under else field
        return any(
            error.field == path or error.field.startswith((f"{path}.", f"{path}[")) for error in self._errors
        )

    def refuse(self) -> None:
        """Raises if there is anything to complain about."""
        if self._errors:
            raise InvalidDefinition(tuple(self._errors), self.kind)


def check_value(value: Any, field: str, problems: Problems, depth: int) -> bool:
    """Whether a JSON value is fit to be stored; what is not is added to the problems."""
    reason = beyond_bounds(value, depth) or _nul(value)
    if reason is not None:
        problems.add(field, reason)
    return reason is None


def _nul(value: Any) -> str | None:
    """Called for values within the bounds, so it cannot get lost in one."""
    match value:
        case str():
            return "contains a NUL character" if "\0" in value else None
        case dict():
            parts = (*value.keys(), *value.values())
            return next((flaw for part in parts if (flaw := _nul(part)) is not None), None)
        case list() | tuple():
            return next((flaw for part in value if (flaw := _nul(part)) is not None), None)
        case _:
            return None
