"""The files of a data directory, and the ids and waits of processes."""

import json
import socket
import stat
from pathlib import Path

import msgspec
import pytest

from waterclock.core.runtime.data_directory import (
    ConnectionInfo,
    kept_credentials,
    read_connection,
    read_processes,
    resolved,
    token_url,
    write_connection,
    write_private,
    write_processes,
)
from waterclock.core.runtime.lifecycle import instance_id
from waterclock.core.runtime.processes.supervisor import Backoff
from waterclock.core.runtime.settings import Settings, SettingsError

CONNECTION = ConnectionInfo(
    http="http://127.0.0.1:1", nats="nats://a:b@c:1", database="postgresql://a", token="t" * 20
)


def test_backoff_doubles_to_its_cap() -> None:
    backoff = Backoff()
    assert [backoff.after(lived=0) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_backoff_forgives_one_that_lived() -> None:
    backoff = Backoff(stable=10)
    for _ in range(5):
        backoff.after(lived=1)
    assert backoff.after(lived=10) == 0.1
    assert backoff.after(lived=9.9) == 0.2


def test_private_files_are_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_private(file, "one")
    held = file.open()
    write_private(file, "two")
    assert held.read() == "one"
    held.close()
    assert file.read_text() == "two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_connection_file_has_the_contract_s_fields(tmp_path: Path) -> None:
    write_connection(tmp_path, CONNECTION)
    file = tmp_path / "connection.json"
    wanted = {"http", "nats", "database", "database_reader", "token", "nats_inbox"}
    assert set(json.loads(file.read_text())) == wanted
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_connection(tmp_path) == CONNECTION


def test_processes_file_round_trip(tmp_path: Path) -> None:
    write_processes(tmp_path, {"nats": [1], "api": []})
    assert read_processes(tmp_path) == {"nats": [1], "api": []}


def test_who_joins_takes_what_was_not_given_from_the_file(tmp_path: Path) -> None:
    write_connection(tmp_path, CONNECTION)
    settings = resolved(Settings(data=tmp_path, nats_url="nats://other:1"), "api")
    assert settings.nats_url == "nats://other:1"
    assert settings.database_url == CONNECTION.database
    assert settings.token == CONNECTION.token


def test_who_joins_an_embedded_server_comes_as_itself(tmp_path: Path) -> None:
    (tmp_path / "nats").mkdir()
    kept = kept_credentials(tmp_path / "nats", ["api", "scheduler"])
    address = "127.0.0.1:4222"
    nats = token_url(CONNECTION.token, address)
    write_connection(tmp_path, msgspec.structs.replace(CONNECTION, nats=nats))

    joined = resolved(Settings(data=tmp_path), "scheduler")
    assert joined.nats_url == f"nats://scheduler:{kept.users['scheduler']}@{address}"
    assert joined.nats_inbox == "_INBOX_scheduler"
    assert joined.nats_issuer_seed is None, "only the api says whom to let in"
    assert resolved(Settings(data=tmp_path), "api").nats_issuer_seed == kept.issuer_seed
    elsewhere = resolved(Settings(data=tmp_path, nats_url="nats://me:secret@elsewhere:4222"), "scheduler")
    assert elsewhere.nats_url == "nats://me:secret@elsewhere:4222"
    assert elsewhere.nats_inbox == "_INBOX"


def test_who_joins_nothing_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nats_url: expected a URL.*connection\.json.*waterclock up"):
        resolved(Settings(data=tmp_path), "api")


def test_a_damaged_connection_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "connection.json").write_text("{")
    with pytest.raises(SettingsError, match=r"connection\.json"):
        resolved(Settings(data=tmp_path), "api")


def test_every_incarnation_has_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "node.example.com")
    names = {instance_id("executor") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("executor-node-example-com-") for name in names)
