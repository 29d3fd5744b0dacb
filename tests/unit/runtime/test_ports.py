"""A server's port: kept, held against others, and exchanged for another when somebody has taken it."""

import random
import socket
from pathlib import Path

import pytest

from waterclock.core.runtime import ports
from waterclock.core.runtime.ports import LOOPBACK, Port, is_free, reserved_port


def listening_on(port: int) -> socket.socket:
    """As nearly every server does it: with SO_REUSEADDR."""
    return socket.create_server((LOOPBACK, port))


def test_a_port_is_the_same_at_the_next_start(tmp_path: Path) -> None:
    port = Port(tmp_path / "port")
    number = port.secure()
    assert port.secure() == number
    port.release()
    assert Port(tmp_path / "port").secure() == number


def test_a_port_that_somebody_took_meanwhile_is_exchanged(tmp_path: Path) -> None:
    port = Port(tmp_path / "port")
    number = port.secure()
    with listening_on(number):
        assert port.is_lost()
        other = port.secure()
        assert other != number
        assert not port.is_lost()
    assert port.secure() == other
    port.release()
    assert Port(tmp_path / "port").secure() == other


def test_a_remembered_port_that_somebody_took_is_exchanged(tmp_path: Path) -> None:
    before = Port(tmp_path / "port")
    number = before.secure()
    before.release()
    with listening_on(number):
        other = Port(tmp_path / "port").secure()
    assert other != number
    assert (tmp_path / "port").read_text() == str(other)


def test_a_remembered_port_is_kept_though_connections_to_it_linger(tmp_path: Path) -> None:
    """A server that closed its connections left them in TIME_WAIT."""
    port = Port(tmp_path / "port")
    with listening_on(port.secure()) as server, socket.create_connection((LOOPBACK, port.number)) as client:
        accepted, _ = server.accept()
        accepted.close()
        assert client.recv(1) == b""
    port.release()
    assert Port(tmp_path / "port").secure() == port.number


def test_a_damaged_port_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "port").write_text("x")
    assert Port(tmp_path / "port").secure() == int((tmp_path / "port").read_text())


def test_nobody_is_given_a_port_that_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    with reserved_port() as number:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((LOOPBACK, number))
        with reserved_port() as free:
            pass
        monkeypatch.setattr(random, "sample", lambda _population, _count: [number, free])
        assert Port().secure() == free


def test_the_server_itself_can_listen_on_a_held_port_again_and_again() -> None:
    with reserved_port() as number:
        for _ in range(3):
            with listening_on(number):
                assert not is_free(number)
            assert is_free(number)


def test_a_port_is_free_again_when_nobody_holds_it() -> None:
    number = Port().secure()
    with socket.socket() as other:
        other.bind((LOOPBACK, number))


def test_ports_are_never_ones_a_client_may_get() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert ports._BELOW_EPHEMERAL.stop <= lowest
    assert Port().secure() in ports._BELOW_EPHEMERAL


def test_a_port_of_another_address_is_held_there() -> None:
    port = Port(host="::1")
    with socket.create_server(("::1", port.secure()), family=socket.AF_INET6):
        assert port.is_lost()
