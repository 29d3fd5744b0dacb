"""Broker codes become the errors callers tell apart."""

import pytest

from waterclock.core.jetstream.errors import (
    AlreadyQueued,
    Conflict,
    Duplicate,
    LogError,
    LogFull,
    LogUnavailable,
    NotFound,
    ServerRefused,
    error_of,
)


@pytest.mark.parametrize(
    ("code", "status", "description", "expected"),
    [
        (10071, 400, "wrong last sequence: 5", Conflict),
        (10164, 400, "wrong last sequence", Conflict),
        (10201, 400, "atomic publish batch contains duplicate message id", Duplicate),
        (10077, 503, "maximum bytes exceeded", LogFull),
        (10077, 503, "maximum messages exceeded", LogFull),
        (10077, 503, "maximum messages per subject exceeded", AlreadyQueued),
        (10077, 503, "write error", LogUnavailable),
        (10059, 404, "stream not found", NotFound),
        (10008, 503, "JetStream system temporarily unavailable", LogUnavailable),
        (10210, 429, "atomic publish too many inflight", LogUnavailable),
        (10052, 500, "stream configuration update can not change storage type", ServerRefused),
    ],
)
def test_code_to_error(code: int, status: int, description: str, expected: type[LogError]) -> None:
    error = error_of({"code": status, "err_code": code, "description": description})
    assert type(error) is expected
    assert description in str(error)
