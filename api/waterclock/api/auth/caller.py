"""Who is asking, and how far they may go."""

from typing import Any

from msgspec import Struct

from waterclock.api.auth.namespaces import DEFAULT
from waterclock.api.errors import Forbidden
from waterclock.proto.methods import Method, Scope

ALL_SCOPES: frozenset[Scope] = frozenset(("read", "submit", "operate", "admin"))


class Caller(Struct, frozen=True, kw_only=True):
    actor: str
    """A token's id, or how the caller was let in; recorded with everything they change."""
    scopes: frozenset[Scope] = ALL_SCOPES
    namespace: str = DEFAULT

    @property
    def everywhere(self) -> bool:
        """An administrator of the default namespace is one of all namespaces."""
        return "admin" in self.scopes and self.namespace == DEFAULT

    def sees(self, namespace: str) -> bool:
        return self.everywhere or self.namespace == namespace

    def may(self, scope: Scope) -> bool:
        return scope == "open" or scope in self.scopes or "admin" in self.scopes

    def must(self, method: Method[Any, Any]) -> None:
        if not self.may(method.scope):
            raise Forbidden.because(f"{method.name} needs a token with the scope {method.scope}")


LOCAL = Caller(actor="local")
"""A caller on loopback where access control is switched off."""
