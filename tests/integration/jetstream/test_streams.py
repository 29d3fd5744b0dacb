"""The streams come to be what the layout says, from nothing or from what is there, or it is said why not."""

import asyncio
from typing import Any

import pytest

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LayoutError
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers, stream_configs
from waterclock.proto import names

DAY_NS = 86_400 * 1_000_000_000


async def config_of(connection: Connection, stream: str) -> dict[str, Any]:
    config: dict[str, Any] = (await connection.api(f"STREAM.INFO.{stream}"))["config"]
    return config


async def test_the_server_has_exactly_what_was_asked_for(connection: Connection) -> None:
    for desired in stream_configs(Layout()):
        found = await config_of(connection, desired["name"])
        for key, value in desired.items():
            if key == "metadata":
                assert found[key].items() >= value.items()
            else:
                assert found[key] == value, f"{desired['name']}: {key}"


async def test_ensuring_again_changes_nothing(connection: Connection, publisher: Publisher) -> None:
    await publisher.publish("wc.runs.1", b"x")
    before = await states(connection)
    await ensure_streams(connection, Layout())
    assert await states(connection) == before


async def states(connection: Connection) -> list[tuple[object, ...]]:
    found = [await stream_state(connection, config["name"]) for config in stream_configs(Layout())]
    return [(state.created, state.first_seq, state.last_seq, state.messages) for state in found]


async def test_several_services_may_start_at_once(log_url: str) -> None:
    async with (
        Connection.open(log_url, name="a") as a,
        Connection.open(log_url, name="b") as b,
    ):
        await asyncio.gather(*(ensure_streams(each, Layout()) for each in (a, b, a, b)))
        assert (await stream_state(a, names.JOBS)).messages == 0


async def test_settings_that_changed_are_migrated_and_an_operators_own_are_kept(
    connection: Connection,
) -> None:
    config = await config_of(connection, "RUNS")
    await connection.api("STREAM.UPDATE.RUNS", {**config, "compression": "s2", "description": "ours"})
    await ensure_streams(connection, Layout(runs_max_age_days=7, total_bytes=10_000_000))
    runs = await config_of(connection, "RUNS")
    assert (runs["max_age"], runs["compression"], runs["description"]) == (7 * DAY_NS, "s2", "ours")
    assert (await config_of(connection, "JOBS"))["max_bytes"] == 1_000_000


async def test_the_number_of_partitions_is_for_ever(connection: Connection) -> None:
    with pytest.raises(LayoutError, match="16 partitions and cannot have 32"):
        await ensure_streams(connection, Layout(partitions=32))


async def test_a_limit_below_what_is_stored_is_refused(connection: Connection, publisher: Publisher) -> None:
    await publisher.publish("wc.jobs.1.a", b"x" * 1000)
    with pytest.raises(LayoutError, match=r"JOBS holds .* cannot be limited to 500"):
        await ensure_streams(connection, Layout(total_bytes=5000))
    assert (await stream_state(connection, "JOBS")).messages == 1


async def test_what_the_server_cannot_change_is_named(connection: Connection) -> None:
    await connection.api("STREAM.DELETE.WORK")
    await connection.api(
        "STREAM.CREATE.WORK", {"name": "WORK", "subjects": ["wc.work.>"], "storage": "memory"}
    )
    with pytest.raises(LayoutError, match=r"WORK cannot be changed .*storage: 'memory' to 'file'"):
        await ensure_streams(connection, Layout())


async def test_each_line_has_a_consumer(connection: Connection) -> None:
    lines = [("default", "light", "0"), ("default", "light", "p49"), ("default=send_mail", "heavy", "0")]
    await ensure_work_consumers(connection, lines)
    await ensure_work_consumers(connection, lines)
    found = (await connection.api("CONSUMER.LIST.WORK", {}))["consumers"]
    assert {consumer["name"]: consumer["config"]["filter_subject"] for consumer in found} == {
        names.work_consumer(*line): names.work_filter(*line) for line in lines
    }
    assert {consumer["config"]["ack_wait"] for consumer in found} == {5_000_000_000}
    assert {consumer["config"]["max_deliver"] for consumer in found} == {-1}
