"""Which groups of the timing index are to be read next, up to when all has been, and what is left out again."""

from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.timing_groups import PART, Kind, Label
from waterclock.scheduler.timing.group_directory import GroupDirectory

FIRST = 29_833_333
START = FIRST * MINUTE


def directory(*labels: Label) -> GroupDirectory:
    """Of one minute."""
    found = GroupDirectory(FIRST)
    for number, label in enumerate(labels):
        found.add(FIRST, f"key{number}", label)
    found.listed_until = FIRST + 1
    return found


def group(kind: Kind, first: float, last: float, oldest: int = 1) -> Label:
    return Label(kind, 10, START + int(first * SECOND), START + int(last * SECOND), oldest, oldest + 9)


def read_all(found: GroupDirectory, *, recurring: bool) -> list[str]:
    keys = []
    while found.next(recurring=recurring) is not None:
        keys.append(found.take(recurring=recurring).key)
    return keys


def test_groups_come_by_their_time_and_those_of_a_few_seconds_by_their_definitions() -> None:
    found = directory(
        group("once", 7, 9), group("once", 2, 4, 30), group("once", 1, 4, 40), group("any", 0, 59)
    )
    assert read_all(found, recurring=False) == ["key1", "key2", "key0"]
    assert read_all(found, recurring=True) == ["key3"], "what may recur is not behind one-shots"


def test_all_is_read_up_to_the_first_group_that_is_not() -> None:
    found = directory(group("once", 2, 4, 30), group("once", 1, 4, 40), group("once", 1, 3, 50))
    assert found.reach(recurring=False) == (START + SECOND, 40)
    assert found.reach(recurring=True) == (START + MINUTE, 0)
    found.take(recurring=False)
    assert found.reach(recurring=False) == (START + SECOND, 40)
    found.take(recurring=False)
    assert found.reach(recurring=False) == (START + SECOND, 50)
    found.take(recurring=False)
    assert found.reach(recurring=False) == (START + MINUTE, 0)


def test_of_a_group_that_is_just_written_what_is_near_is_in_memory() -> None:
    found = directory()
    found.reach(recurring=False)
    found.add(FIRST, "written", group("once", 5, 9))
    assert found.next(recurring=False) is None
    found.shed(START + 7 * SECOND, recurring=False)
    assert found.reach(recurring=False)[0] == START + 7 * SECOND
    assert read_all(found, recurring=False) == ["written"]


def test_what_is_decided_is_forgotten() -> None:
    found = directory(group("once", 5, 9), group("void", 1, 2))
    assert found.count_due(START + MINUTE) == 10
    found.forget([FIRST])
    assert found.next(recurring=False) is None
    assert found.take_void(START + MINUTE) == []
    assert found.count_due(START + MINUTE) == 0


def test_marks_are_taken_before_what_they_are_about() -> None:
    found = directory(group("void", 1, 2), group("void", 31, 32))
    assert found.take_void(START + PART) == ["key0"]
    assert found.take_void(START + PART) == []
    assert found.take_void(START + MINUTE) == ["key1"]


spans = st.tuples(st.integers(0, 59), st.integers(0, 59)).map(sorted)


@given(
    st.lists(st.tuples(st.sampled_from(["any", "once", "recurring"]), spans, st.integers(1, 5)), max_size=8),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_nothing_is_left_out_however_often_the_latest_are(
    groups: list[tuple[Kind, list[int], int]], sheds: list[int]
) -> None:
    """Whatever is due before the time that is reached has been read since it was last left out."""
    labels = [group(kind, first, last, oldest) for kind, (first, last), oldest in groups]
    found = directory(*labels)
    for recurring in (False, True):
        unread = {
            f"key{number}": label.first
            for number, label in enumerate(labels)
            if (label.kind != "once") == recurring
        }
        for since in [*sheds, None]:
            if since is not None:
                if found.next(recurring=recurring) is not None:
                    unread.pop(found.take(recurring=recurring).key)
                cut = START + since * SECOND
                found.shed(cut, recurring=recurring)
                for number, label in enumerate(labels):
                    key = f"key{number}"
                    if (label.kind != "once") == recurring and label.last >= cut:
                        unread[key] = min(unread.get(key, cut + MINUTE), max(label.first, cut))
            reached, _ = found.reach(recurring=recurring)
            assert all(first >= reached for first in unread.values())
        assert set(read_all(found, recurring=recurring)) >= unread.keys()
