"""How far a partition is decided is read from a frame's bytes: that must fit what is written."""

from waterclock.api.queries.history import _CURSOR, _decode_cursor
from waterclock.proto.codec import encode
from waterclock.proto.events import Cursor, Frame, RunCancelRequested, RunSucceeded


def test_a_cursor_is_found_in_a_frame_as_it_is_written() -> None:
    event = RunCancelRequested(run_id="a@1", at=5, reason='"cursor":{"jobs":1,"time":2')
    output = {"cursor": {"jobs": 1, "time": 2}, "v": {"cursor": {"jobs": 1, "time": 2}}}
    said = RunSucceeded(run_id="a@1", at=5, attempt=1, executor_id="e", started=4, output=output)
    for cursor in (Cursor(jobs=7, time=123456, work=9), Cursor(jobs=7, time=9, settled=3, alive=11)):
        found = _CURSOR.search(encode(Frame(writer="s/1", events=(event, said), cursor=cursor)))
        assert found is not None
        assert _decode_cursor(found[1]) == cursor
    assert _CURSOR.search(encode(Frame(writer="e", events=(event, said)))) is None
