"""A component notices when the log is not the one it knew, and when it may not go on."""

import shutil
from pathlib import Path

import pytest

from servers.server import Server
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.log_identity import Vigil, WrongLog, halt, lift
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.proto import names


async def test_a_log_that_lost_its_end_is_refused(nats_server: Server, tmp_path: Path) -> None:
    store = tmp_path / "nats" / "jetstream"
    async with Connection.open(nats_server.url, name="test") as connection:
        await ensure_streams(connection, Layout())
        publisher, vigil = Publisher(connection), Vigil(connection)
        await publisher.publish(names.runs_subject(0), b"{}")
        await vigil.look()
        nats_server.stop()
        shutil.copytree(store, tmp_path / "older")
        nats_server.start()
        await publisher.publish(names.runs_subject(0), b"{}")
        await vigil.look()
        nats_server.stop()
        shutil.rmtree(store)
        shutil.copytree(tmp_path / "older", store)
        nats_server.start()
        with pytest.raises(WrongLog, match="lost its end"):
            await vigil.look()


async def test_a_log_that_was_made_anew_is_refused(nats_server: Server) -> None:
    async with Connection.open(nats_server.url, name="test") as connection:
        vigil = Vigil(connection)
        await vigil.look()  # nobody has made the streams yet
        await ensure_streams(connection, Layout())
        await vigil.look()
        await connection.api(f"STREAM.DELETE.{names.RUNS}")
        with pytest.raises(WrongLog, match="deleted"):
            await vigil.look()
        await ensure_streams(connection, Layout())
        with pytest.raises(WrongLog, match="made anew"):
            await vigil.look()


async def test_nobody_goes_on_while_halted_but_the_judge(nats_server: Server) -> None:
    async with Connection.open(nats_server.url, name="test") as connection:
        await ensure_streams(connection, Layout())
        control = Bucket(connection, Publisher(connection), names.CONTROL)
        await halt(control, "the log has lost its end")
        with pytest.raises(WrongLog, match="lost its end"):
            await Vigil(connection).keep()
        await Vigil(connection, heeds_halt=False).look()
        await lift(control)
        await Vigil(connection).look()
