"""One line, or one object, for each thing that happened; facts kept apart from words."""

import json
import logging

from waterclock.core.runtime.structured_logs import HumanLines, JsonLines


def record(message: str, *args: object, **facts: object) -> logging.LogRecord:
    made = logging.LogRecord("waterclock.test", logging.WARNING, __file__, 1, message, args, None)
    vars(made).update(facts)
    return made


def test_people_read_words_then_facts() -> None:
    line = HumanLines("supervisor").format(record("child %s", "ended", child="nats", why="was killed"))
    assert line.endswith('WARNING supervisor child ended  child=nats why="was killed"')


def test_machines_read_json() -> None:
    entry = json.loads(JsonLines("supervisor").format(record("child ended", exit_code=-9, odd=object)))
    assert entry["message"] == "child ended"
    assert entry["component"] == "supervisor"
    assert entry["level"] == "warning"
    assert entry["exit_code"] == -9
    assert entry["time"].endswith("Z")
    assert "class" in entry["odd"]


def test_no_text_can_forge_a_line() -> None:
    line = HumanLines("api").format(record("name is %s", "x\nERROR forged \x1b[31m", job="a\r\nb"))
    assert "\n" not in line
    assert "\r" not in line
    assert "\x1b" not in line


def test_errors_come_with_their_traceback() -> None:
    made = record("failed")
    try:
        raise ValueError("deep")
    except ValueError as error:
        made.exc_info = (ValueError, error, error.__traceback__)
    assert "ValueError: deep" in HumanLines("api").format(made)
    assert "ValueError: deep" in json.loads(JsonLines("api").format(made))["error"]
