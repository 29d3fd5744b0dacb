"""A run's output reaches a reader once, in order, whatever pieces it comes in."""

from hypothesis import given
from hypothesis import strategies as st

from waterclock.api.queries.run_log import LogChunks


def test_pieces_that_overlap_are_joined() -> None:
    log = LogChunks(0)
    chunks = log.take(0, b"hello ") + log.take(3, b"lo world") + log.take(0, b"hello world")
    assert "".join(chunk.text for chunk in chunks) == "hello world"
    assert [(chunk.offset, chunk.next) for chunk in chunks] == [(0, 6), (6, 11)]


def test_a_gap_is_not_papered_over() -> None:
    log = LogChunks(0)
    assert log.take(5, b"late") == []
    assert "".join(chunk.text for chunk in log.take(0, b"earlylate")) == "earlylate"


def test_attempts_follow_one_another() -> None:
    log = LogChunks(0)
    first = log.take(0, b"one\n")
    log.next_attempt(4)
    second = log.take(0, b"two\n")
    assert [chunk.offset for chunk in first + second] == [0, 4]


def test_bytes_that_are_no_text_stay_exact() -> None:
    (chunk,) = LogChunks(0).take(0, b"\xff\x00")
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
    log = LogChunks(start)
    received = b""
    for offset, size in [*pieces, (0, len(content))]:
        for chunk in log.take(offset, content[offset : offset + size]):
            received += chunk.text.encode() if chunk.data is None else chunk.data
    assert received == content[start:]
