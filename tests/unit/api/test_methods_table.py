"""The method table holds together: every row has a function, a path of its own, and fields for what its path names."""

import re

import pytest
from msgspec import structs

import waterclock.api.dispatch  # noqa: F401
from waterclock.api.registry import handler_of, stream_of
from waterclock.proto.methods import METHODS, Method


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_has_a_function(method: Method) -> None:  # type: ignore[type-arg]
    assert stream_of(method) if method.streaming else handler_of(method)


@pytest.mark.parametrize("method", [m for m in METHODS if m.rest], ids=lambda method: method.name)
def test_what_a_path_names_is_a_field(method: Method) -> None:  # type: ignore[type-arg]
    assert method.rest is not None
    named = set(re.findall(r"{(\w+)}", method.rest.path))
    assert named <= {field.encode_name for field in structs.fields(method.request)}


def test_no_two_methods_share_a_name_or_a_path() -> None:
    assert len({method.name for method in METHODS}) == len(METHODS)
    places = [(verb, m.rest.path) for m in METHODS if m.rest for verb in (m.rest.verb, *m.rest.also)]
    assert len(set(places)) == len(places)


def test_only_reading_needs_no_more_than_read() -> None:
    for method in METHODS:
        if method.rest is not None and method.rest.verb in ("PUT", "PATCH", "DELETE"):
            assert method.scope != "read", method.name
