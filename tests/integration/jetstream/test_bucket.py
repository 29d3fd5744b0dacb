"""Keys that live, expire, are deleted and come again."""

import pytest

from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.pull_loop import Pull


@pytest.fixture
def timing(connection: Connection, publisher: Publisher) -> Bucket:
    return Bucket(connection, publisher, "timing")


@pytest.fixture
def control(connection: Connection, publisher: Publisher) -> Bucket:
    return Bucket(connection, publisher, "control")


async def test_put_get_update_delete(control: Bucket) -> None:
    assert await control.get("run.a") is None
    first = await control.put("run.a", b"1")
    entry = await control.get("run.a")
    assert entry is not None
    assert (entry.key, entry.value, entry.revision) == ("run.a", b"1", first)
    second = await control.update("run.a", b"2", first)
    with pytest.raises(Conflict):
        await control.update("run.a", b"3", first)
    with pytest.raises(Conflict):
        await control.release("run.a", revision=first)
    await control.release("run.a", revision=second)
    assert await control.get("run.a") is None


async def test_create_only_what_does_not_live(control: Bucket) -> None:
    await control.create("run.a", b"1")
    with pytest.raises(Conflict):
        await control.create("run.a", b"2")
    await control.delete("run.a")
    revision = await control.create("run.a", b"3")
    entry = await control.get("run.a")
    assert entry is not None
    assert (entry.value, entry.revision) == (b"3", revision)


async def test_create_over_the_marker_of_an_expired_key(control: Bucket, connection: Connection) -> None:
    await control.create("member.executor.a", b"1", ttl=1)
    await eventually(lambda: control.get("member.executor.a"), wanted=lambda entry: entry is None, within=3)
    marker = await last_message(connection, "KV_control", "$KV.control.member.executor.a")
    assert marker is not None
    assert marker.is_absent
    await control.create("member.executor.a", b"2", ttl=60)
    with pytest.raises(Conflict):
        await control.create("member.executor.a", b"3", ttl=60)


async def test_those_who_follow_a_bucket_see_a_key_expire(control: Bucket, connection: Connection) -> None:
    async with Pull.ordered(connection, "KV_control", ["$KV.control.member.>"], after_sequence=0) as follower:
        await control.put("member.executor.a", b"1", ttl=1)
        (alive,) = await follower.next(timeout=5)
        (gone,) = await follower.next(timeout=5)
        assert not alive.is_absent
        assert gone.is_absent
        assert gone.subject == alive.subject


async def test_an_update_keeps_a_key_alive(control: Bucket) -> None:
    revision = await control.create("member.a", b"1", ttl=1)
    await control.put("witness", b"1", ttl=1)
    await control.update("member.a", b"2", revision, ttl=60)
    await eventually(lambda: control.get("witness"), wanted=lambda entry: entry is None, within=3)
    assert await control.get("member.a") is not None


async def test_many_at_once_and_scan(timing: Bucket) -> None:
    await timing.put_many({f"1.100.{n}": str(n).encode() for n in range(2500)})
    await timing.put_many({"1.hot.a": b"a", "2.100.b": b"b"})
    await timing.purge("1.100.0")
    await timing.put_many({"1.101.0": b"moved"})
    found = {entry.key: entry.value for entry in await timing.scan("1.100.*")}
    assert found == {f"1.100.{n}": str(n).encode() for n in range(1, 2500)}
    assert {entry.key for entry in await timing.scan("1.*.0")} == {"1.101.0"}
    assert await timing.scan("3.>") == []
    entry = await timing.get("1.101.0")
    assert entry is not None
    assert [entry] == await timing.scan("1.101.0")


async def test_keys_of_a_pattern(timing: Bucket) -> None:
    await timing.put_many({"1.100.a": b"x", "1.101.b": b"x", "2.100.c": b"x"})
    assert sorted(await timing.keys("1.>")) == ["1.100.a", "1.101.b"]
    assert await timing.keys("3.>") == []


async def test_purge_removes_a_whole_pattern(timing: Bucket, connection: Connection) -> None:
    await timing.put_many({f"1.100.{n}": b"x" for n in range(10)} | {"1.101.0": b"x"})
    await timing.purge("1.100.>")
    assert [entry.key for entry in await timing.scan(">")] == ["1.101.0"]
    assert (await stream_state(connection, "KV_timing")).messages == 1


async def test_a_scan_of_a_bucket_in_motion_sees_every_key_that_stays(timing: Bucket) -> None:
    await timing.put_many({f"1.100.{n}": b"0" for n in range(3000)})
    before = await timing.scan("1.100.>")
    await timing.put_many({f"1.100.{n}": b"1" for n in range(0, 3000, 3)})
    after = await timing.scan("1.100.>")
    assert len(before) == len(after) == 3000
    assert sum(entry.value == b"1" for entry in after) == 1000


async def test_a_key_that_is_not_one_is_refused(timing: Bucket) -> None:
    with pytest.raises(ValueError, match="not a subject"):
        await timing.put("a b", b"x")
    with pytest.raises(ValueError, match="not a subject"):
        await timing.put("a.>", b"x")
