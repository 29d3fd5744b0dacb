"""How far a partition is decided is read from a frame's bytes: that must fit what is written."""

from waterclock.api.queries.history import _CURSOR
from waterclock.proto.codec import encode
from waterclock.proto.events import Cursor, Frame, RunCancelRequested


def test_a_cursor_is_found_in_a_frame_as_it_is_written() -> None:
    event = RunCancelRequested(run_id="a@1", at=5, reason='"cursor":{"jobs":1,"time":2')
    written = encode(Frame(writer="s/1", events=(event,), cursor=Cursor(jobs=7, time=123456, work=9)))
    found = _CURSOR.search(written)
    assert found is not None
    assert int(found[1]) == 123456
    assert _CURSOR.search(encode(Frame(writer="e", events=(event,)))) is None
