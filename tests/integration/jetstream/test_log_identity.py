"""A component notices when the log is not the one it knew, and when it may not go on."""

import shutil
from pathlib import Path

import pytest

from servers.server import Server
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.log_identity import LogWatch, WrongLog, halt, lift_halt
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.proto import names


async def test_a_log_that_lost_its_end_is_refused(nats_server: Server, tmp_path: Path) -> None:
    store = tmp_path / "nats" / "jetstream"
    async with Connection.open(nats_server.url, name="test") as connection:
        await ensure_streams(connection, Layout())
        publisher, watch = Publisher(connection), LogWatch(connection)
        await publisher.publish(names.runs_subject(0), b"{}")
        await watch.check()
        nats_server.stop()
        shutil.copytree(store, tmp_path / "older")
        nats_server.start()
        await publisher.publish(names.runs_subject(0), b"{}")
        await watch.check()
        nats_server.stop()
        shutil.rmtree(store)
        shutil.copytree(tmp_path / "older", store)
        nats_server.start()
        with pytest.raises(WrongLog, match="lost its end"):
            await watch.check()


async def test_a_log_that_was_made_anew_is_refused(nats_server: Server) -> None:
    async with Connection.open(nats_server.url, name="test") as connection:
        watch = LogWatch(connection)
        await watch.check()  # nobody has made the streams yet
        await ensure_streams(connection, Layout())
        await watch.check()
        await connection.api(f"STREAM.DELETE.{names.RUNS}")
        with pytest.raises(WrongLog, match="deleted"):
            await watch.check()
        await ensure_streams(connection, Layout())
        with pytest.raises(WrongLog, match="made anew"):
            await watch.check()


async def test_nobody_goes_on_while_halted_but_the_one_who_called_it(nats_server: Server) -> None:
    async with Connection.open(nats_server.url, name="test") as connection:
        await ensure_streams(connection, Layout())
        control = Bucket(connection, Publisher(connection), names.CONTROL)
        await halt(control, "the log has lost its end")
        with pytest.raises(WrongLog, match="lost its end"):
            await LogWatch(connection).run()
        await LogWatch(connection, heeds_halt=False).check()
        await lift_halt(control)
        await LogWatch(connection).check()
