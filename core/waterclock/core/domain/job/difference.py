"""In what two definitions differ, down to the single value: `env.PATH`, `nodes[load].timeout_seconds`."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Struct


class FieldChange(Struct, frozen=True, kw_only=True):
    field: str
    """The path of what differs."""
    before: Any = UNSET
    """UNSET: it was not there."""
    after: Any = UNSET
    """UNSET: it is not there any more."""


def field_changes(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    """Of two JSON values; objects are compared by their keys, lists of things with an `id` by that."""
    if before == after:
        return
    match before, after:
        case dict(), dict():
            for key in {**before, **after}:
                yield from field_changes(
                    before.get(key, UNSET), after.get(key, UNSET), f"{path}.{key}" if path else str(key)
                )
        case list(), list() if _by_id(before) is not None and _by_id(after) is not None:
            old, new = _by_id(before) or {}, _by_id(after) or {}
            for key in {**old, **new}:
                yield from field_changes(old.get(key, UNSET), new.get(key, UNSET), f"{path}[{key}]")
            if old == new:  # the same in another order
                yield FieldChange(field=path, before=list(old), after=list(new))
        case _:
            yield FieldChange(field=path, before=before, after=after)


def _by_id(items: list[Any]) -> dict[Any, Any] | None:
    """None if they are not told apart by their ids."""
    if not all(isinstance(item, dict) and isinstance(item.get("id"), str) for item in items):
        return None
    found = {item["id"]: item for item in items}
    return found if len(found) == len(items) else None
