"""Definitions as such: what they were, and all of them as declarations."""

from waterclock.api.queries.definitions import export, versions

__all__ = ["export", "versions"]
