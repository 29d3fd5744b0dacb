"""Secrets in output: masked wherever they are cut."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.executor.masking import MASK, Masker, SecretValues


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
    said = b"".join(pieces).replace(b"s3cr3t", MASK)
    assert whole == (said[: -len(b"s3c")] + MASK if said.endswith(b"s3c") else said)


def test_what_may_be_the_beginning_of_a_secret_that_was_cut_off_is_masked() -> None:
    assert run(Masker(["correct-horse"]), b"it is correct-ho") == b"it is ***"


def test_a_secret_that_comes_later_is_masked_from_then_on() -> None:
    values = SecretValues()
    masker = Masker(values)
    said = masker.feed(b"before hunter2, ")
    values.add("hunter2")
    assert said + masker.feed(b"after hunter2.") + masker.end() == b"before hunter2, after ***."


@pytest.mark.parametrize(
    "said",
    [
        'pass"wörd/1',
        'pass\\"wörd/1',
        'pass\\"w\\u00f6rd/1',
        "pass%22w%C3%B6rd%2F1",
        "cGFzcyJ3w7ZyZC8x",
    ],
)
def test_a_secret_is_known_in_other_writings(said: str) -> None:
    assert SecretValues(['pass"wörd/1']).mask(f"<{said}>") == "<***>"


def test_each_long_word_of_a_secret_is_one() -> None:
    values = SecretValues(["Bearer abcdefgh12345"])
    assert values.mask("abcdefgh12345 of a Bearer") == "*** of a Bearer"


def test_in_json_keys_numbers_and_all_depths_count() -> None:
    values = SecretValues(["12345678", "hunter2"])
    said = {"hunter2": [1, 12345678, {"a": "is hunter2"}], "ok": True, "nothing": None, "half": 0.5}
    assert values.mask_json(said) == {
        "***": [1, "***", {"a": "is ***"}],
        "ok": True,
        "nothing": None,
        "half": 0.5,
    }
    raw = values.mask_json(msgspec.Raw(b'{"pw":"hunt\\u0065r2"}'))
    assert bytes(raw) == b'{"pw":"***"}'


def test_it_does_not_show_itself() -> None:
    assert "hunter2" not in repr(SecretValues(["hunter2"]))
