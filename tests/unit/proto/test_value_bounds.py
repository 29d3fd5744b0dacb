"""The cheap look at a document is never wrong on the unsafe side, and as right as the plain one."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from waterclock.proto.values import MAX_DEPTH, MAX_DIGITS, may_be_unfit

DIGITS = st.integers(MAX_DIGITS - 5, MAX_DIGITS + 60).map(lambda count: b"7" * count)
DOCUMENTS = st.lists(
    st.binary(max_size=60) | st.sampled_from([b"[" * 31, b"{" * 33, b"1", b"x" * 49]) | DIGITS, max_size=6
).map(b"".join)


def looked_at_in_full(data: bytes) -> bool:
    deep = data.count(b"[") + data.count(b"{") > MAX_DEPTH
    return deep or re.search(rb"[0-9]{%d}" % (MAX_DIGITS + 1), data) is not None


@given(DOCUMENTS)
@example(b"")
@example(b"[" * MAX_DEPTH)
@example(b"[" * (MAX_DEPTH + 1))
def test_as_if_every_byte_were_looked_at(data: bytes) -> None:
    assert may_be_unfit(data) == looked_at_in_full(data)


def test_a_long_number_is_found_wherever_it_begins() -> None:
    for before in range(2 * MAX_DIGITS):
        assert may_be_unfit(b"x" * before + b"1" * (MAX_DIGITS + 1) + b"x")
        assert not may_be_unfit(b"x" * before + b"1" * MAX_DIGITS + b"x")
