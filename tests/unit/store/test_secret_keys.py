"""Keys of secrets: what one encrypted only that one reads, as what it is; and none is lost while they change."""

import stat
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.core.store.secret_keys import (
    Damaged,
    KeyMissing,
    Keyring,
    SecretKeys,
    key_id,
    new_key,
    parse_keys,
)

OURS = Keyring([b"k" * 32])


@given(some.text())
def test_what_was_encrypted_is_read_again(text: str) -> None:
    if not text.isprintable():
        text = text.encode(errors="replace").decode()
    key, encrypted = OURS.encrypt(text, b"about")
    assert OURS.decrypt(key, encrypted, b"about") == text
    assert len(text) < 4 or text.encode() not in encrypted


def test_the_same_text_twice_looks_different() -> None:
    assert OURS.encrypt("hunter2", b"")[1] != OURS.encrypt("hunter2", b"")[1]


@given(some.integers(min_value=0, max_value=34), some.integers(min_value=1, max_value=255))
def test_a_changed_byte_is_noticed(place: int, change: int) -> None:
    key, encrypted = OURS.encrypt("hunter2", b"about")
    assert len(encrypted) == 35
    changed = bytearray(encrypted)
    changed[place] ^= change
    with pytest.raises(Damaged):
        OURS.decrypt(key, bytes(changed), b"about")


def test_it_is_not_read_as_something_else() -> None:
    key, encrypted = OURS.encrypt("hunter2", b"default\0a\x001")
    with pytest.raises(Damaged):
        OURS.decrypt(key, encrypted, b"default\0b\x001")


def test_without_its_key_it_is_not_read() -> None:
    key, encrypted = OURS.encrypt("hunter2", b"")
    with pytest.raises(KeyMissing, match=key):
        Keyring([new_key()]).decrypt(key, encrypted, b"")
    with pytest.raises(KeyMissing):
        Keyring([]).encrypt("hunter2", b"")


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    former, current = new_key(), new_key()
    key, encrypted = Keyring([former]).encrypt("hunter2", b"")
    both = Keyring([current, former])
    assert both.decrypt(key, encrypted, b"") == "hunter2"
    assert both.encrypt("hunter2", b"")[0] == key_id(current)


def test_the_file_is_the_owners_only_and_stays(tmp_path: Path) -> None:
    keys = SecretKeys(Settings(data=tmp_path))
    assert keys.keyring().ids == ()
    keys.ensure()
    file = tmp_path / "secrets.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first = keys.read().current
    keys.ensure()
    assert keys.read().current == first


def test_a_new_key_comes_before_the_former_ones_and_unused_ones_go(tmp_path: Path) -> None:
    keys = SecretKeys(Settings(data=tmp_path))
    keys.ensure()
    first = keys.read().current
    second = keys.add().current
    third = keys.add().current
    assert keys.read().ids == (third, second, first)
    assert keys.prune({first, third}).ids == (
        third,
        second,
        first,
    )  # a rotation was cut short: one is still used
    assert keys.prune({third}).ids == (third, second)
    assert SecretKeys(Settings(data=tmp_path)).keyring().ids == (third, second)


def test_the_environment_wins_and_takes_several(tmp_path: Path) -> None:
    SecretKeys(Settings(data=tmp_path)).ensure()
    given = f"{b64encode(b'a' * 32).decode()},{b64encode(b'b' * 32).decode()}"
    keys = SecretKeys(Settings(data=tmp_path, secrets_key=given))
    assert keys.from_environment
    assert keys.keyring().ids == (key_id(b"a" * 32), key_id(b"b" * 32))


@pytest.mark.parametrize("wrong", ["short", "c2hvcnQ=", "not base64 at all!", b64encode(b"x" * 33).decode()])
def test_a_wrong_key_is_told_without_showing_it(wrong: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_keys(wrong, "environment")
    assert not any(word in str(refused.value) for word in wrong.split() if len(word) > 3 and word != "base64")
