"""What the api reads in the background: a record that cannot be read is reported, and ends nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
from nats.errors import TimeoutError as NoReply

import waterclock.api.service
from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.quarantined import quarantined
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.runtime.settings import Settings
from waterclock.projector.sql.migrator import migrate
from waterclock.projector.write.database import SCHEMA, connect
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Frame, RunCancelled

from .conftest import TOKEN, Served, settings_for


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


async def test_an_api_goes_on_without_a_token_record_that_cannot_be_read(
    nats_url: str, tmp_path: Path
) -> None:
    settings = settings_for(tmp_path, nats_url, None)
    async with Connection.open(nats_url, name="test") as connection:
        await ensure_streams(connection, Layout(partitions=settings.partitions))
        async with running_api(settings) as serving:
            control = Bucket(connection, Publisher(connection), names.CONTROL)
            await control.put("token.unreadable", b"not a grant")
            found = await eventually(
                lambda: quarantined(connection), "the record to be reported", wanted=bool
            )
            assert [(record.stream, record.component) for record in found] == [("KV_control", "api")]
            assert not serving.done()


async def test_a_log_follow_goes_on_over_what_cannot_be_read(alone: Served) -> None:
    await _make_tables(alone)
    created = await alone.client.jobs.create(name="x", command="true", cron="@yearly")
    run = await alone.client.jobs.run_now(created.job_id)
    inbox = alone.nats.nc.new_inbox()
    replies = await alone.nats.nc.subscribe(inbox)
    request = msgspec.json.encode({"run_id": run.run_id, "follow": True})
    headers = {"Authorization": f"Bearer {TOKEN}"}
    await alone.nats.nc.publish("waterclock.v1.runs.log", request, reply=inbox, headers=headers)
    subject = names.runs_subject(alone.app.partition_of(run.run_id))
    cancelled = Frame(writer="test", events=(RunCancelled(run_id=run.run_id, at=now_us(), reason="over"),))
    async with asyncio.timeout(20):
        while True:  # the follow reads from where the log ended when it began
            await alone.app.publisher.publish(subject, b"no frame")
            await alone.app.publisher.publish(subject, encode(cancelled))
            with suppress(NoReply):
                while (await replies.next_msg(timeout=0.2)).data:
                    pass
                break


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
