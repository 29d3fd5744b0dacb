"""How a command made from a row shows an answer to people."""

from datetime import UTC, datetime

from msgspec import Struct

from waterclock.api.cli.method_command import _facts


class Ended(Struct):
    run_id: str
    status: str


class Answer(Struct, kw_only=True):
    job_id: str
    at: datetime
    labels: dict[str, str] = {}
    parameters: dict[str, int] = {}
    nodes: tuple[Ended, ...] = ()
    last_run: Ended | None = None
    critical: bool = False
    attempts: int = 0
    note: str = ""


def test_what_is_empty_is_left_out_and_nothing_else() -> None:
    answer = Answer(
        job_id="a",
        at=datetime(2026, 1, 2, tzinfo=UTC),
        labels={"team": "data"},
        nodes=(Ended("a@1~x", "SUCCESS"), Ended("a@1~y", "FAILED")),
    )
    assert list(_facts(answer)) == [
        ("job id", "a"),
        ("at", "2026-01-02 00:00:00Z"),
        ("labels", '{"team":"data"}'),
        ("nodes", "a@1~x SUCCESS, a@1~y FAILED"),
        ("critical", "no"),
        ("attempts", "0"),
    ]
