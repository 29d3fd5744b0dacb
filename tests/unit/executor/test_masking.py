"""Secrets in output: masked wherever they are cut."""

from hypothesis import given
from hypothesis import strategies as st

from waterclock.executor.logs.masking import MASK, Masker


def run(masker: Masker, *pieces: bytes) -> bytes:
    return b"".join([*(masker.feed(piece) for piece in pieces), masker.end()])


def test_a_secret_is_masked() -> None:
    assert run(Masker(["hunter2"]), b"password is hunter2!\n") == b"password is ***!\n"


def test_also_where_it_lies_across_pieces() -> None:
    assert run(Masker(["hunter2"]), b"password is hun", b"ter", b"2!\n") == b"password is ***!\n"


def test_the_longest_of_overlapping_secrets_wins() -> None:
    assert run(Masker(["abc", "abcdef"]), b"abcdef abc") == b"*** ***"


def test_very_short_values_are_left() -> None:
    assert run(Masker(["a", ""]), b"banana") == b"banana"


def test_text_is_masked_as_bytes_are() -> None:
    assert Masker(["geheim"]).mask("sehr geheim") == "sehr ***"


@given(st.lists(st.sampled_from([b"x", b"s3cr3t", b"s3c", b"r3t", b"\n"]), max_size=20))
def test_however_it_is_cut_the_result_is_the_same(pieces: list[bytes]) -> None:
    whole = run(Masker(["s3cr3t"]), b"".join(pieces))
    assert run(Masker(["s3cr3t"]), *pieces) == whole
    assert b"s3cr3t" not in whole
    assert whole == b"".join(pieces).replace(b"s3cr3t", MASK)
