"""A run's output reaches a reader once, in order, whatever pieces it comes in."""

from hypothesis import given
from hypothesis import strategies as st

from waterclock.api.queries.run_log import Tape


def test_pieces_that_overlap_are_joined() -> None:
    tape = Tape(0)
    chunks = tape.take(0, b"hello ") + tape.take(3, b"lo world") + tape.take(0, b"hello world")
    assert "".join(chunk.text for chunk in chunks) == "hello world"
    assert [(chunk.offset, chunk.next) for chunk in chunks] == [(0, 6), (6, 11)]


def test_a_gap_is_not_papered_over() -> None:
    tape = Tape(0)
    assert tape.take(5, b"late") == []
    assert "".join(chunk.text for chunk in tape.take(0, b"earlylate")) == "earlylate"


def test_attempts_follow_one_another() -> None:
    tape = Tape(0)
    first = tape.take(0, b"one\n")
    tape.next_attempt(4)
    second = tape.take(0, b"two\n")
    assert [chunk.offset for chunk in first + second] == [0, 4]


def test_bytes_that_are_no_text_stay_exact() -> None:
    (chunk,) = Tape(0).take(0, b"\xff\x00")
    assert chunk.data == b"\xff\x00"


@given(
    st.binary(max_size=300),
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 100)), max_size=20),
)
def test_a_reader_gets_exactly_what_it_lacks(
    content: bytes, start: int, pieces: list[tuple[int, int]]
) -> None:
    start = min(start, len(content))
    tape = Tape(start)
    heard = b""
    for offset, size in [*pieces, (0, len(content))]:
        for chunk in tape.take(offset, content[offset : offset + size]):
            heard += chunk.text.encode() if chunk.data is None else chunk.data
    assert heard == content[start:]
