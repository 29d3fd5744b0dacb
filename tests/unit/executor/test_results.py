"""Outputs and exceptions of jobs, as results."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from waterclock.executor import Cancel, Retry, Snooze
from waterclock.executor.attempt_record import Cancelled, Failed, Result, Snoozed
from waterclock.executor.perform.results import (
    OUTPUT_LIMIT,
    InvalidOutput,
    encode_output,
    parse_output,
    result_of_exception,
)


def test_outputs_are_json_of_limited_size() -> None:
    assert encode_output(None) is None
    assert bytes(encode_output({"rows": [1, 2.5, None, "x"]})) == b'{"rows":[1,2.5,null,"x"]}'
    with pytest.raises(InvalidOutput, match="no JSON"):
        encode_output(object())
    with pytest.raises(InvalidOutput, match="over the limit"):
        encode_output("x" * OUTPUT_LIMIT)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"rows": 3}', {"rows": 3}),
        (b"[1]", [1]),
        (b"42", 42),
        (b'"text"', "text"),
        (b"done", None),
        (b"", None),
        (b"\xff\xfe", None),
        (b"[" * 20_000, None),
        (b'"' + b"x" * OUTPUT_LIMIT + b'"', None),
    ],
)
def test_a_last_line_that_is_json_is_the_output(line: bytes, value: Any) -> None:
    assert parse_output(line) == value


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (Retry("later", after=60), Failed(reason="later", error="Retry", after_seconds=60)),
        (Snooze(5, "not yet"), Snoozed(seconds=5, reason="not yet")),
        (Cancel("pointless"), Cancelled(reason="pointless")),
        (InvalidOutput("too large"), Failed(reason="too large", final=True)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_handler_raises_decides_the_result(error: Exception, result: Result) -> None:
    assert result_of_exception(error) == result


def test_any_other_exception_is_a_failure_with_its_traceback() -> None:
    error = KeyError("x" * 1000)
    result = result_of_exception(error)
    assert isinstance(result, Failed)
    assert (result.error, result.final, len(result.reason)) == ("KeyError", False, 500)
    assert result.error_message.startswith("KeyError")


@pytest.mark.parametrize("kind", [ValueError, Retry, Cancel, partial(Snooze, 5.0)])
def test_an_exception_whose_text_is_no_utf8_can_be_written(kind: Callable[[str], Exception]) -> None:
    result = result_of_exception(kind("no such file: \udcff"))
    assert msgspec.json.decode(msgspec.json.encode(result))["reason"].endswith("no such file: ?")
