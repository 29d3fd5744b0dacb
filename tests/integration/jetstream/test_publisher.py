"""Publishing while all is well: sequences, ids, expectations, batches, limits."""

from typing import Any

import pytest

from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict, Duplicate, LogFull, LogUnavailable, TooLarge
from waterclock.core.jetstream.messages import last_message, message_at, next_message, stream_state
from waterclock.core.jetstream.publisher import Expect, Message, Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams


async def test_a_message_is_stored_as_it_was_sent(connection: Connection, publisher: Publisher) -> None:
    sequence = await publisher.publish("wc.jobs.1.a", b"one", headers={"Note": "Zürich"})
    stored = await message_at(connection, "JOBS", sequence)
    assert stored is not None
    assert (stored.subject, stored.data, stored.headers["Note"]) == ("wc.jobs.1.a", b"one", "Zürich")


async def test_the_same_id_is_stored_once(connection: Connection, publisher: Publisher) -> None:
    first = await publisher.publish("wc.runs.1", b"x", msg_id="frame-1")
    assert await publisher.publish("wc.runs.1", b"x", msg_id="frame-1") == first
    assert await publisher.publish("wc.runs.1", b"x", headers={"Nats-Msg-Id": "frame-1"}) == first
    assert (await stream_state(connection, "RUNS")).messages == 1


async def test_what_may_be_stored_in_a_bucket_is_looked_for_without_asking_for_its_stream(
    connection: Connection, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors may not ask, and have a lease or a heartbeat under way when the server is killed."""
    stored = await publisher.publish("$KV.control.run.a", b"1", msg_id="lease-1")
    called: list[str] = []
    api = connection.api

    async def noted(subject: str, *arguments: Any, **more: Any) -> dict[str, Any]:
        called.append(subject)
        return await api(subject, *arguments, **more)

    monkeypatch.setattr(connection, "api", noted)
    again = await publisher.publish("$KV.control.run.a", b"1", msg_id="lease-1", may_be_stored=True)
    assert (again, called) == (stored, ["STREAM.MSG.GET.KV_control"])


async def test_compare_and_set(connection: Connection, publisher: Publisher) -> None:
    first = await publisher.publish("wc.jobs.1.a", b"1", expect=Expect(last_subject_sequence=0))
    with pytest.raises(Conflict):
        await publisher.publish("wc.jobs.1.a", b"rival", expect=Expect(last_subject_sequence=0))
    second = await publisher.publish("wc.jobs.1.a", b"2", expect=Expect(last_subject_sequence=first))
    last = await last_message(connection, "JOBS", "wc.jobs.1.a")
    assert last is not None
    assert (last.sequence, last.data) == (second, b"2")


async def test_reading_what_comes_next_on_a_subject(connection: Connection, publisher: Publisher) -> None:
    first = await publisher.publish("wc.jobs.1.a", b"1")
    await publisher.publish("wc.jobs.1.b", b"other")
    await publisher.publish("wc.jobs.1.a", b"2")
    following = await next_message(connection, "JOBS", "wc.jobs.1.a", first)
    assert following is not None
    assert following.data == b"2"
    assert await next_message(connection, "JOBS", "wc.jobs.1.a", following.sequence) is None
    assert await last_message(connection, "JOBS", "wc.jobs.1.never") is None


async def test_a_batch_is_all_or_nothing(connection: Connection, publisher: Publisher) -> None:
    last = await publisher.publish_batch(
        [
            Message(subject=f"wc.jobs.1.{n}", data=b"x", expect=Expect(last_subject_sequence=0))
            for n in range(1000)
        ]
    )
    assert last == 1000
    with pytest.raises(Conflict):
        await publisher.publish_batch(
            [
                Message(subject="wc.jobs.1.new", data=b"x"),
                Message(subject="wc.jobs.1.7", data=b"x", expect=Expect(last_subject_sequence=0)),
                Message(subject="wc.jobs.1.newer", data=b"x"),
            ]
        )
    assert (await stream_state(connection, "JOBS")).last_seq == 1000


async def test_a_batch_with_an_id_seen_before_is_refused_whole(
    connection: Connection, publisher: Publisher
) -> None:
    await publisher.publish("wc.jobs.1.a", b"x", msg_id="a")
    with pytest.raises(Duplicate):
        await publisher.publish_batch(
            [
                Message(subject="wc.jobs.1.b", data=b"x", headers={"Nats-Msg-Id": "b"}),
                Message(subject="wc.jobs.1.a", data=b"x", headers={"Nats-Msg-Id": "a"}),
            ]
        )
    assert (await stream_state(connection, "JOBS")).messages == 1


async def test_a_batch_may_be_fenced_by_another_subject(connection: Connection, publisher: Publisher) -> None:
    token = await publisher.publish("wc.lease.1", b"{}", ttl_seconds=5, rollup=True)
    frames = [Message(subject="wc.runs.1", data=b"1"), Message(subject="wc.runs.1", data=b"2")]
    await publisher.publish_batch(frames, expect=Expect(last_subject_sequence=token, subject="wc.lease.1"))
    await publisher.publish("wc.lease.1", b"{}", ttl_seconds=5, rollup=True)
    with pytest.raises(Conflict):
        await publisher.publish_batch(
            frames, expect=Expect(last_subject_sequence=token, subject="wc.lease.1")
        )


async def test_a_batch_has_a_thousand_messages_at_most(publisher: Publisher) -> None:
    with pytest.raises(ValueError, match="1 to 1000"):
        await publisher.publish_batch([Message(subject="wc.jobs.1.a", data=b"")] * 1001)


async def test_a_full_stream_refuses_the_new_and_keeps_the_old(
    connection: Connection, publisher: Publisher
) -> None:
    first = await publisher.publish("wc.jobs.1.a", b"x" * 1000)
    await ensure_streams(connection, Layout(total_bytes=15000))
    with pytest.raises(LogFull):
        await publisher.publish("wc.jobs.1.b", b"x" * 1000)
    assert await message_at(connection, "JOBS", first) is not None


async def test_what_the_server_would_not_take_is_not_sent(publisher: Publisher) -> None:
    with pytest.raises(TooLarge):
        await publisher.publish("wc.runs.1", b"x" * (publisher.max_payload + 1))
    assert await publisher.publish("wc.runs.1", b"x") == 1


async def test_a_subject_without_a_stream_is_named(publisher: Publisher) -> None:
    with pytest.raises(LogUnavailable, match=r"nobody\.home"):
        await publisher.publish("nobody.home", b"x", deadline=0.3)


async def test_a_time_to_live_is_never_cut_short(connection: Connection, publisher: Publisher) -> None:
    await publisher.publish("$KV.timing.a", b"x", ttl_seconds=1.5)
    stored = await last_message(connection, "KV_timing", "$KV.timing.a")
    assert stored is not None
    assert stored.headers["Nats-TTL"] == "2s"


async def test_a_finished_job_leaves_with_all_its_history(
    connection: Connection, publisher: Publisher
) -> None:
    await publisher.publish("wc.jobs.1.a", b"created")
    before = await publisher.publish("wc.jobs.1.a", b"updated")
    await publisher.publish(
        "wc.jobs.1.a", b"ended", expect=Expect(last_subject_sequence=before), rollup=True, ttl_seconds=1
    )
    await eventually(lambda: stream_state(connection, "JOBS"), wanted=lambda state: state.messages == 0)
    assert await last_message(connection, "JOBS", "wc.jobs.1.a") is None
