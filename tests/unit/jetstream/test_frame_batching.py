"""How many events leave together."""

from waterclock.core.jetstream.frames import MAX_BYTES, MAX_EVENTS, _Lane, _stroke_before


def lane_of(*sizes: int) -> _Lane:
    lane = _Lane(0)
    for size in sizes:
        lane.events.append(b"x" * size)
        lane.heard.append(lambda _: None)
        lane.size += size
    return lane


def test_all_that_fits_leaves_at_once() -> None:
    lane = lane_of(10, 20, 30)
    events, heard = lane.take()
    assert (len(events), len(heard), lane.events, lane.size) == (3, 3, [], 0)


def test_a_frame_has_a_limit_of_events() -> None:
    lane = lane_of(*[10] * (MAX_EVENTS + 7))
    assert lane.is_full
    assert len(lane.take()[0]) == MAX_EVENTS
    assert (len(lane.events), len(lane.heard), lane.size) == (7, 7, 70)


def test_a_frame_has_a_limit_of_bytes() -> None:
    third = MAX_BYTES // 3 + 1
    lane = lane_of(third, third, third, third)
    assert [len(lane.take()[0]), len(lane.take()[0])] == [2, 2]
    assert lane.size == 0


def test_an_event_over_the_limit_travels_alone() -> None:
    lane = lane_of(MAX_BYTES * 2, 1)
    assert [len(lane.take()[0]), len(lane.take()[0])] == [1, 1]


def test_frames_that_linger_leave_together_and_never_later_than_promised() -> None:
    assert {_stroke_before(time) for time in (7.0201, 7.0220, 7.0249)} == {_stroke_before(7.0201)}
    assert _stroke_before(7.0201) < _stroke_before(7.0251)
    assert 7.0249 - 0.005 < _stroke_before(7.0249) <= 7.0249
