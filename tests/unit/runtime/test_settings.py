"""Where a setting comes from, and what is said when it is wrong."""

from pathlib import Path

import msgspec
import pytest

from waterclock.core.runtime.settings import Settings, SettingsError, as_environment, load, without_secrets


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_other_programs_get_nothing_secret() -> None:
    environ = {
        "WATERCLOCK_TOKEN": "t",
        "WATERCLOCK_SECRETS_KEY": "k",
        "WATERCLOCK_DATABASE_URL": "u",
        "PATH": "/bin",
    }
    assert without_secrets(environ | {"WATERCLOCK_DATA": "d"}) == {"PATH": "/bin", "WATERCLOCK_DATA": "d"}


def test_nothing_given_means_defaults() -> None:
    assert load({}, {}) == Settings()


@pytest.mark.parametrize(
    ("flags", "environ", "toml", "port"),
    [
        ({"port": 1}, {"WATERCLOCK_PORT": "2"}, "port = 3", 1),
        ({"port": None}, {"WATERCLOCK_PORT": "2"}, "port = 3", 2),
        ({}, {"WATERCLOCK_PORT": ""}, "port = 3", 3),
        ({}, {}, "", 8080),
        ({"port": 0}, {"WATERCLOCK_PORT": "2"}, "port = 3", 0),
    ],
)
def test_flag_before_environment_before_file_before_default(
    flags: dict[str, object], environ: dict[str, str], toml: str, port: int
) -> None:
    Path("waterclock.toml").write_text(toml)
    assert load(flags, environ).port == port


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("port", "http", "a port number from 0 (any free one) to 65535"),
        ("port", "65536", "a port number"),
        ("port", "-1", "a port number"),
        ("nats_url", "localhost:4222", "URLs like nats://host:4222"),
        ("database_url", "mysql://x/y", "a URL like postgresql://"),
        ("partitions", "0", "a number from 1 to 4096"),
        ("replicas", "2", "1, 3 or 5"),
        ("lease_seconds", "0.5", "seconds, from 1 to 60"),
        ("lease_seconds", "nan", "seconds, from 1 to 60"),
        ("grace_seconds", "inf", "seconds, from 0 to 86400"),
        ("schedulers", "many", "a number from 1 to 1024"),
        ("tier", "huge", "light, medium or heavy"),
        ("queue", "a.b", "a name of at most 64"),
        ("worker", "module", "MODULE:NAME"),
        ("worker", "a:b,c", "MODULE:NAME"),
        ("token", "short", "a token of at least 16 characters"),
        ("metrics_port", "x", "a port number"),
        ("log_level", "loud", "debug, info, warning or error"),
    ],
)
def test_a_wrong_value_names_key_expectation_and_finding(key: str, value: str, expected: str) -> None:
    variable = f"WATERCLOCK_{key.upper()}"
    with pytest.raises(SettingsError) as caught:
        load({}, {variable: value})
    message = str(caught.value)
    assert message.startswith(f"{key}: expected {expected}")
    assert f"(environment {variable})" in message
    assert caught.value.found == value
    with pytest.raises(SettingsError, match=f"flag --{key.replace('_', '-')}"):
        load({key: value}, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("token", "hunter2"),
        ("nats_url", "http://me:hunter2@host:1"),
        ("database_url", "pg://me:hunter2@host/x"),
    ],
)
def test_errors_show_no_secret(key: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({key: value}, {})
    assert "hunter2" not in str(caught.value)


def test_an_unknown_key_in_the_file_is_named() -> None:
    Path("waterclock.toml").write_text("prot = 1")
    with pytest.raises(SettingsError, match=r"prot: expected one of data, .*waterclock\.toml"):
        load({}, {})


def test_a_file_that_is_no_toml_is_named() -> None:
    Path("waterclock.toml").write_text("port =")
    with pytest.raises(SettingsError, match=r"expected TOML.*waterclock\.toml"):
        load({}, {})


def test_a_file_that_was_asked_for_must_be_there() -> None:
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load({}, {}, Path("missing.toml"))


def test_a_wrong_type_in_the_file_is_refused() -> None:
    Path("waterclock.toml").write_text("port = [1]")
    with pytest.raises(SettingsError, match=r"^port: expected a port number.*waterclock\.toml"):
        load({}, {})


def test_unrelated_variables_are_left_alone() -> None:
    assert load({}, {"WATERCLOCK_RUN_ID": "x", "PORT": "1"}) == Settings()


def test_settings_travel_to_another_process_by_environment() -> None:
    settings = msgspec.structs.replace(
        Settings(),
        data=Path("/data"),
        nats_url="nats://u:p@a:1,nats://u:p@b:1",
        worker=("a.b:c", "d:e"),
        metrics_port=0,
        lease_seconds=3.5,
        replicas=3,
    )
    assert load({}, as_environment(settings)) == settings
