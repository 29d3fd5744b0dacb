"""A crowded minute is divided so that it can be read in parts; another is not; and the keys say what is where."""

import random

import pytest
from msgspec import Raw

from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.timing_groups import PART, Filed, Grouped, Label, Void, decode_group, label_of
from waterclock.core.domain.timing_index import IndexEntry, Slots, decode_entry, encode_entry
from waterclock.proto import names
from waterclock.proto.spec import JobSpec, Schedule, Shell

FIRST = 29_833_333
"""In minutes."""
ONCE = JobSpec(name="x", task=Shell(command="true"))
HOURLY = JobSpec(
    name="x",
    task=Shell(command="true"),
    schedule=Schedule(schedule_type="CRON", cron_expression=("0 * * * *",)),
)


def slots(crowded: int) -> Slots:
    found = Slots(FIRST, crowded=crowded)
    while found.open_until <= FIRST + 1:
        found.open_next()
    return found


def filed(number: int, after: float, *, recurring: bool = False, known: bool = True) -> Filed:
    spec = HOURLY if recurring else ONCE
    entry = Raw(encode_entry(IndexEntry(job_id=f"job{number}", version=number, spec=spec, since=0)))
    at = FIRST * MINUTE + int(after * SECOND)
    return Filed(at, entry, number, recurring) if known else Filed(at, entry)


def members(group: Grouped) -> list[tuple[int, int, bool]]:
    """When each is due, its version, and whether it recurs."""
    found = []
    for at, raw in decode_group(group.value).entries:
        entry = decode_entry(bytes(raw))
        found.append((at, entry.version, entry.spec.schedule.schedule_type == "CRON"))
    return found


def test_a_key_says_what_its_group_says() -> None:
    for label in (Label("once", 300, 5, 9, 17, 20), Label("any", 1, 5, 5), Label("void", 0, 7, 8)):
        assert label_of(names.timing_group(3, "5.1", "12", 7, str(label))) == label
    assert label_of(names.timing_group(3, "5.1", "12", 7)) is None
    assert label_of("3.5.1.my-job.7") is None, "of a job by itself, as in the first releases"


@pytest.mark.parametrize(
    "label", ["", "zz", "x1-2-3-4-5", "o1-2-3", "o1-2-3-4-x", "o-1-2-3-4", f"o{'9' * 5000}-1-2-3-4"]
)
def test_a_label_that_cannot_be_read_says_nothing(label: str) -> None:
    """Then the group is read with its minute: nobody's partition may fail because of it."""
    assert label_of(f"3.5.1._12.7-{label}") is None


def test_a_minute_with_few_entries_is_one_group() -> None:
    groups = slots(100).grouped([filed(n, n / 2, recurring=n % 2 == 0) for n in range(1, 100)])
    assert [(group.label.kind, group.label.count) for group in groups] == [("any", 99)]


def test_a_crowded_minute_is_divided_by_time_and_by_what_recurs() -> None:
    rng = random.Random(1)
    for known in (True, False):
        entries = [
            filed(n, rng.uniform(0, 59.9), recurring=rng.random() < 0.1, known=known) for n in range(1, 2_000)
        ]
        groups = slots(100).grouped(entries)
        assert sum(group.label.count for group in groups) == len(entries)
        crowd = [group for group in groups if group.label.kind != "any"]
        assert sum(group.label.count for group in groups if group.label.kind == "any") == 100
        assert {group.label.kind for group in crowd} == {"once", "recurring"}
        for group in crowd:
            label, found = group.label, members(group)
            assert label.first // PART == label.last // PART
            assert (min(found)[0], max(found)[0]) == (label.first, label.last)
            assert {recurring for _, _, recurring in found} == {label.kind == "recurring"}
            versions = [version for _, version, _ in found]
            assert (min(versions), max(versions)) == (label.oldest, label.newest)


def test_a_minute_that_is_filled_bit_by_bit_is_divided_from_then_on() -> None:
    here = slots(3)
    kinds = [here.grouped([filed(n, 1.0)])[0].label.kind for n in range(1, 6)]
    assert kinds == ["any", "any", "any", "once", "once"]
    here.forget(here.slot_of(FIRST * MINUTE))
    assert here.grouped([filed(9, 1.0)])[0].label.kind == "any"


def test_what_is_far_away_is_not_divided() -> None:
    day = 24 * 60 * 60
    groups = slots(3).grouped([filed(n, day + n % 60) for n in range(1, 300)])
    assert [group.label.kind for group in groups] == ["any"]


def test_marks_are_by_themselves() -> None:
    at = FIRST * MINUTE
    groups = slots(100).grouped([filed(1, 0)], [Void(at, "job1", 0), Void(at + 1, "job2", 0)])
    assert [(group.label.kind, group.label.count) for group in groups] == [("any", 1), ("void", 0)]
