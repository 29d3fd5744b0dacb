"""What the api reads in the background ends with an error that somebody sees, never unheard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from nats.errors import TimeoutError as NoReply

import waterclock.api.service
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.settings import Settings
from waterclock.projector.sql.migrator import migrate
from waterclock.projector.write.database import SCHEMA, connect
from waterclock.proto import names

from .conftest import Served, settings_for


@asynccontextmanager
async def running_api(settings: Settings) -> AsyncIterator["asyncio.Task[None]"]:
    """The whole process but for its process, from when it listens on."""
    serving = asyncio.create_task(waterclock.api.service.run(settings, StopSignal()))
    try:
        async with asyncio.timeout(10):
            while not serving.done():
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", settings.port)
                    writer.close()
                    break
                await asyncio.sleep(0.01)
        yield serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_an_api_that_cannot_read_tokens_any_more_ends(nats_url: str, tmp_path: Path) -> None:
    """Somebody restarts it then. One that went on would not hear of revocations."""
    settings = settings_for(tmp_path, nats_url, None)
    async with Connection.open(nats_url, name="test") as connection:
        await ensure_streams(connection, Layout(partitions=settings.partitions))
        async with running_api(settings) as serving:
            control = Bucket(connection, Publisher(connection), names.CONTROL)
            await control.put("token.unreadable", b"not a grant")
            async with asyncio.timeout(10):
                with pytest.raises(msgspec.DecodeError):
                    await asyncio.shield(serving)


async def test_a_log_follow_whose_events_cannot_be_read_ends_with_an_error(alone: Served) -> None:
    await _make_tables(alone)
    created = await alone.client.jobs.create(name="x", command="true", cron="@yearly")
    run = await alone.client.jobs.run_now(created.job_id)
    inbox = alone.nats.nc.new_inbox()
    replies = await alone.nats.nc.subscribe(inbox)
    request = msgspec.json.encode({"run_id": run.run_id, "follow": True})
    await alone.nats.nc.publish("waterclock.v1.runs.log", request, reply=inbox)
    subject = names.runs_subject(alone.app.partition_of(run.run_id))
    async with asyncio.timeout(20):
        while True:  # the follow reads from where the log ended when it began
            await alone.app.publisher.publish(subject, b"no frame")
            with suppress(NoReply):
                error = await replies.next_msg(timeout=0.2)
                break
    assert (error.headers or {})["Nats-Service-Error-Code"] == "500"
    assert (await replies.next_msg(timeout=5)).data == b""


async def test_a_workflow_run_is_accepted_although_its_events_cannot_be_read(alone: Served) -> None:
    await _make_tables(alone)
    body = {"name": "w", "nodes": [{"id": "a", "command": "true"}]}
    workflow_id = (await alone.http.post("/v1/workflows", json=body)).json()["workflow_id"]
    subject = names.runs_subject(alone.app.partition_of(workflow_id))
    asked = asyncio.create_task(alone.http.post(f"/v1/workflows/{workflow_id}/runNow"))
    while not asked.done():
        await alone.app.publisher.publish(subject, b"no frame")
        await asyncio.wait([asked], timeout=0.05)
    answer = asked.result()
    assert (answer.status_code, answer.json()["epoch"]) == (202, None), answer.text


async def _make_tables(served: Served) -> None:
    database = await connect(served.settings.database_url or "", name="test", schema=SCHEMA)
    try:
        await migrate(database, SCHEMA)
    finally:
        await database.close()
