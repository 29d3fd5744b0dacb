"""Gathers what is wrong with a definition, so that a user hears of all of it at once."""

from waterclock.core.domain.job.errors import InvalidDefinition, Kind
from waterclock.proto.problem import FieldError


class Problems:
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
