"""The cookie of a browser that is signed in."""

from typing import Any

import pytest

from waterclock.api.console.cookie import ended_cookie, secret_of, session_cookie


def scope(scheme: str = "http", **headers: str) -> dict[str, Any]:
    return {
        "type": "http",
        "scheme": scheme,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }


def test_two_installations_on_one_machine_do_not_sign_each_other_out() -> None:
    here, there = scope(host="localhost:8080"), scope(host="localhost:8081")
    assert session_cookie(here, "x", 9).partition("=")[0] != session_cookie(there, "x", 9).partition("=")[0]
    sent = session_cookie(here, "x", 9).partition(";")[0]
    assert secret_of(scope(host="localhost:8080", cookie=sent)) == "x"
    assert secret_of(scope(host="localhost:8081", cookie=sent)) is None


@pytest.mark.parametrize(
    ("of", "secure"),
    [
        (scope("https", host="jobs.example.org"), True),
        (scope("http", host="jobs.example.org", origin="https://jobs.example.org"), True),
        (scope("http", host="localhost:8080", origin="http://localhost:8080"), False),
    ],
)
def test_it_is_secure_where_the_page_is(of: dict[str, Any], secure: bool) -> None:
    assert ("; Secure" in session_cookie(of, "x", 9)) == secure


def test_scripts_and_other_sites_do_not_get_it() -> None:
    for cookie in (session_cookie(scope(host="a"), "x", 9), ended_cookie(scope(host="a"))):
        assert "; HttpOnly" in cookie
        assert "; SameSite=Strict" in cookie


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "waterclock_session",
        "waterclock_session=",
        "other=waterclock_session",
        "\x00=;;waterclock_session",
    ],
)
def test_what_is_no_session_is_none(sent: str) -> None:
    assert secret_of(scope(host="a", cookie=sent)) is None
