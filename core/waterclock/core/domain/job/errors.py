"""A definition that cannot be accepted, with everything that is wrong with it."""

from typing import Literal

from waterclock.proto.problem import FieldError

Kind = Literal["malformed", "invalid", "too_large"]


class InvalidDefinition(Exception):
    """`malformed`: not a JSON object at all. `too_large`: over a limit on size. `invalid`: fields to correct."""

    def __init__(self, errors: tuple[FieldError, ...], kind: Kind = "invalid") -> None:
        super().__init__(
            "; ".join(f"{error.field}: {error.reason}" if error.field else error.reason for error in errors)
        )
        self.errors = errors
        self.kind = kind
