"""What a handler reports reaches the log in a form that everybody can read."""

import math

import msgspec
import pytest

from executor_rig.builders import attempt
from waterclock.executor.context import HandlerMessage, RelayedContext
from waterclock.proto.heartbeats import ExecutorHeartbeat, Progress


@pytest.mark.parametrize(
    ("done", "share"),
    [(0.25, 0.25), (-1, 0.0), (7, 1.0), (math.inf, 1.0), (-math.inf, 0.0), (math.nan, 0.0)],
)
def test_progress_is_a_share_whatever_was_computed(done: float, share: float) -> None:
    assert reported(done, "note") == Progress(done=share, note="note")


def test_a_note_that_is_no_utf8_can_be_written_all_the_same() -> None:
    assert reported(0.5, "read \udcff") == Progress(done=0.5, note="read ?")


def reported(done: float, note: str) -> Progress:
    sent: list[HandlerMessage] = []
    RelayedContext(attempt(), sent.append).progress(done, note)
    (progress,) = sent
    assert isinstance(progress, Progress)
    written = msgspec.json.encode(ExecutorHeartbeat(progress={"run": progress}))
    return msgspec.json.decode(written, type=ExecutorHeartbeat).progress["run"]
