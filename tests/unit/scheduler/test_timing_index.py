"""What is filed is found in its minute, however far away it was; what is void is not; and few keys hold much."""

import random
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import pytest
from msgspec import Raw

from waterclock.core.domain.instants import MINUTE
from waterclock.core.domain.timing_groups import Filed, Void
from waterclock.core.domain.timing_index import IndexEntry, encode_entry
from waterclock.proto import names
from waterclock.proto.spec import JobSpec, Shell
from waterclock.scheduler.timing.timing_index import TimingIndex

NOW = 29_833_333
"""In minutes."""
HOUR, DAY, YEAR = 60, 1_440, 525_600
SPEC = JobSpec(name="x", task=Shell(command="true"))


class Store:
    def __init__(self, keys: dict[str, bytes], writer: str) -> None:
        self.writer = writer
        self._keys = keys

    async def scan(self, pattern: str) -> list[tuple[str, bytes]]:
        return [each for each in self._keys.items() if fnmatchcase(each[0], pattern)]

    async def keys(self, pattern: str) -> list[str]:
        return [key for key, _ in await self.scan(pattern)]

    async def get(self, keys: Sequence[str]) -> list[tuple[str, bytes]]:
        return [(key, self._keys[key]) for key in keys if key in self._keys]

    async def some(self, pattern: str) -> list[tuple[str, bytes]]:
        return (await self.scan(pattern))[:2]

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self._keys.pop(key, None)
            else:
                self._keys[key] = value

    async def remove_hot(self, void: Mapping[str, int]) -> None:
        raise NotImplementedError

    async def purge(self, *patterns: str) -> None:
        for pattern in patterns:
            for key, _ in await self.scan(pattern):
                del self._keys[key]


def index_of(keys: dict[str, bytes], writer: str = "1", first: int = NOW) -> TimingIndex:
    index = TimingIndex(Store(keys, writer), 3)
    index.begin(first)
    return index


def entry(job_id: str, minute: int, version: int = 1) -> Filed:
    return Filed(
        minute * MINUTE,
        Raw(encode_entry(IndexEntry(job_id=job_id, version=version, spec=SPEC, since=0))),
    )


async def found_until(index: TimingIndex, last: int) -> list[str]:
    """What has not been read of the minutes up to one."""
    await index.list_until(last + 1)
    await index.read_void((last + 1) * MINUTE)
    groups = []
    for recurring in (True, False):
        while index.near.next(recurring=recurring) is not None:
            groups.append(index.near.take(recurring=recurring))
        index.near.reach(recurring=recurring)
    return sorted(each.job_id for each in await index.read(groups))


@pytest.mark.parametrize("away", [0, 1, 59, HOUR, 5 * HOUR, 3 * DAY, 40 * DAY, YEAR, 3 * YEAR])
async def test_found_in_its_minute_by_who_wrote_it_and_by_who_comes_after(away: int) -> None:
    keys: dict[str, bytes] = {}
    minute = NOW + away
    first = index_of(keys)
    await found_until(first, NOW + 2)
    await first.write([entry("job", minute)], {})
    assert await found_until(index_of(dict(keys), "2", minute - 1), minute + 2) == ["job"]
    assert await found_until(index_of(dict(keys), "2", minute + 1), minute + 3) == []
    if away > 3 * DAY:  # nobody stays so long: hour by hour is a long way
        return
    assert await found_until(first, minute) == ([] if minute <= NOW + 2 else ["job"]), "who wrote it, has it"
    await first.purge_before((minute + 1) * MINUTE)
    assert not keys


async def test_what_is_far_away_is_in_few_keys() -> None:
    keys: dict[str, bytes] = {}
    index = index_of(keys)
    await found_until(index, NOW + 2)
    rng = random.Random(1)
    for frame in range(20):
        members = [entry(f"{frame}~{n}", NOW + rng.randrange(30 * DAY, YEAR)) for n in range(256)]
        await index.write(members, {})
    assert len(keys) <= 20 * 18


async def test_every_entry_is_found_once_whoever_owns_the_partition_meanwhile() -> None:
    rng = random.Random(2)
    keys: dict[str, bytes] = {}
    index, now, number = index_of(keys), NOW, 0
    wanted: dict[int, list[str]] = {}
    for _ in range(400):
        for _ in range(rng.randrange(6)):
            number += 1
            minute = now + 3 + rng.choice([rng.randrange(10), rng.randrange(200), rng.randrange(20_000)])
            wanted.setdefault(minute, []).append(str(number))
            await index.write([entry(str(number), minute)], {})
        step = rng.choice([1, 1, 1, 5, 90, 400])
        if rng.random() < 0.2:
            index = index_of(keys, str(number) + "x", now + 3)
        await index.open_ahead(now)
        expected = sorted(job for minute in range(now + 3, now + 3 + step) for job in wanted.pop(minute, ()))
        found = [
            each
            for start in range(now + 3, now + 3 + step, 100)
            for each in await found_until(index, min(start + 100, now + 3 + step) - 1)
        ]
        assert sorted(found) == expected
        now += step
        await index.purge_before((now + 2) * MINUTE)


async def test_what_is_void_is_not_found_and_a_later_version_is() -> None:
    keys: dict[str, bytes] = {}
    index = index_of(keys)
    await found_until(index, NOW + 2)
    minute = NOW + 3 * DAY
    await index.write([entry("a", minute, 5), entry("b", minute, 5)], {})
    await index.void([Void(minute * MINUTE, "a", 7)])
    assert await found_until(index_of(dict(keys), "2", minute), minute) == ["b"]
    await index.write([entry("a", minute, 8)], {})
    assert await found_until(index, minute) == ["a", "b"]
    await index.purge_before((minute + 1) * MINUTE)
    assert not keys, "the marks go with the minute"


async def test_the_entries_of_the_release_before_are_found() -> None:
    """A key for each, and void like all others."""
    minute = NOW + 1
    stored = {
        f"3.{minute // 60}.{minute % 60}.{job}.4": bytes(entry(job, minute, 4).entry) for job in ("a", "b")
    }
    index = index_of(stored)
    await index.void([Void(minute * MINUTE, "a", 4)])
    assert await found_until(index, NOW + 2) == ["b"]
    await index.purge_before((minute + 1) * MINUTE)
    assert not stored


def test_no_job_is_taken_for_a_group() -> None:
    assert names.is_timing_group(names.timing_group(3, "5.h", "12", 1))
    assert not names.is_timing_group("3.500.1.12.1")


async def test_after_a_long_downtime_minutes_before_it_are_not_read_with_their_hour() -> None:
    """What was filed there has fired. If it was edited afterwards the mark is with its next fire."""
    keys: dict[str, bytes] = {}
    index = index_of(keys, first=NOW // HOUR * HOUR)
    await found_until(index, NOW // HOUR * HOUR + 2)
    await index.write([entry("fired", NOW // HOUR * HOUR), entry("due", NOW // HOUR * HOUR + 30)], {})
    first = NOW // HOUR * HOUR + 20
    assert await found_until(index_of(keys, "2", first), first + 3 * HOUR) == ["due"]
