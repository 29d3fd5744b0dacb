"""Who goes next among those that wait for room."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.due.backlog import Backlog
from waterclock.core.domain.partition.room import UNSERVED, Lane

EVERYWHERE = "default/light"


def armed(
    job_id: str,
    due: int = 0,
    *,
    priority: int = 0,
    recurring: bool = True,
    namespace: str = "default",
    route: str = EVERYWHERE,
    version: int = 1,
    unsettled: bool = False,
) -> ArmedSchedule:
    return ArmedSchedule(
        job_id=job_id,
        version=version,
        lane=Lane(priority, recurring, namespace, route),
        since=0,
        after=0,
        scheduled=due,
        due=due,
        spec=None,
        fires=None,
        unsettled=unsettled,
    )


def backlog_of(*items: ArmedSchedule) -> Backlog:
    backlog = Backlog()
    for item in items:
        backlog.add(item, item.lane)
    return backlog


def names(backlog: Backlog, most: int = 1_000, full: tuple[str, ...] = ()) -> list[str]:
    taken = backlog.take(most, lambda route, _: route not in full)
    return [item.job_id for item in taken if isinstance(item, ArmedSchedule)]


def test_priority_goes_before_recurring_and_recurring_before_one_shots() -> None:
    backlog = backlog_of(
        armed("bulk", recurring=False),
        armed("minute"),
        armed("urgent bulk", priority=5, recurring=False),
        armed("urgent minute", priority=5),
        armed("idle", priority=-5),
    )
    assert names(backlog) == ["urgent minute", "urgent bulk", "minute", "bulk", "idle"]
    assert len(backlog) == 0


def test_namespaces_take_turns_whatever_the_length_of_their_lines() -> None:
    flood = [armed(f"flood{number}", number, namespace="flood") for number in range(5)]
    backlog = backlog_of(*flood, armed("a", 9, namespace="quiet"), armed("b", 10, namespace="quiet"))
    assert names(backlog) == ["flood0", "a", "flood1", "b", "flood2", "flood3", "flood4"]


def test_a_turn_is_remembered_from_one_pass_to_the_next() -> None:
    flood = [armed(f"flood{number}", namespace="flood") for number in range(3)]
    backlog = backlog_of(*flood, armed("a", namespace="quiet"))
    assert names(backlog, most=1) == ["flood0"]
    assert names(backlog, most=1) == ["a"]


def test_a_job_that_has_gone_stands_at_the_end_of_its_line_again() -> None:
    often, once = armed("often"), armed("once")
    backlog = backlog_of(often, once)
    assert names(backlog, most=1) == ["often"]
    backlog.add(often, often.lane)
    assert names(backlog) == ["once", "often"]


def test_what_has_no_room_is_passed_over_and_holds_up_only_itself() -> None:
    backlog = backlog_of(
        armed("stuck", route="gpu/heavy", priority=9), armed("goes"), armed("stuck too", route="gpu/heavy")
    )
    assert names(backlog, full=("gpu/heavy",)) == ["goes"]
    assert backlog.counts == {("default", "gpu/heavy"): 2}
    assert len(backlog) == 2
    assert names(backlog) == ["stuck", "stuck too"]
    assert backlog.counts == {}


def test_room_that_is_used_up_meanwhile_is_seen() -> None:
    backlog = backlog_of(*(armed(f"job{number}") for number in range(5)))
    room = Counter({EVERYWHERE: 2})
    taken = []
    for item in backlog.take(1_000, lambda route, _: room[route] > 0):
        room[EVERYWHERE] -= 1
        taken.append(item)
    assert len(taken) == 2
    assert len(backlog) == 3


def test_one_that_waits_already_stays_where_it_is() -> None:
    first = armed("first")
    backlog = backlog_of(first, armed("second"))
    backlog.add(first, first.lane)
    assert len(backlog) == 2
    assert names(backlog) == ["first", "second"]


def test_what_is_withdrawn_is_passed_over_and_no_longer_the_oldest() -> None:
    old, young = armed("old", 1), armed("young", 2)
    backlog = backlog_of(old, young)
    assert backlog.oldest_due == 1
    backlog.drop(old)
    assert backlog.oldest_due == 2
    assert backlog.oldest_on(lambda _: True) == 2
    assert (len(backlog), backlog.counts["default", EVERYWHERE], list(backlog.sizes(9))) == (
        1,
        1,
        [(EVERYWHERE, 0, 1)],
    )
    assert names(backlog) == ["young"]
    assert backlog.oldest_due is None


def test_what_was_withdrawn_from_a_line_without_room_is_neither_counted_nor_kept() -> None:
    """Else who defines and cancels jobs of a queue that nobody serves fills up the memory, and has others refused."""
    backlog = backlog_of(*(armed(f"stays {number}", number) for number in range(3)))
    for number in range(5_000):
        item = armed(f"goes {number}", number, unsettled=number % 2 == 0, priority=number % 3)
        backlog.add(item, item.lane)
        backlog.drop(item)
    assert (len(backlog), backlog.counts["default", EVERYWHERE]) == (3, 3)
    assert len(backlog._by_due) + len(backlog._by_version) < 2_000
    assert names(backlog) == ["stays 0", "stays 1", "stays 2"]
    assert (len(backlog), backlog.oldest_due, backlog.oldest_unsettled) == (0, None, None)


def test_one_that_went_first_and_waits_again_is_counted_once() -> None:
    backlog = backlog_of(armed("other", 2), armed("late", 1))
    late = backlog.take_oldest()
    assert late is not None
    assert len(backlog) == 1
    backlog.add(late, late.lane)
    assert len(backlog) == 2
    assert names(backlog) == ["other", "late"]
    assert (len(backlog), list(backlog.sizes(9))) == (0, [])


def test_the_oldest_is_known_by_its_due_time_or_by_its_definition() -> None:
    backlog = backlog_of(
        armed("at 5", 5), armed("just read", 3, version=8, unsettled=True), armed("at 4", 4, priority=-1)
    )
    assert backlog.oldest_due == 4, "what is unsettled does not hold the time back"
    assert backlog.oldest_unsettled == 8
    assert backlog.waits_since == 3
    assert backlog.oldest_on(lambda route: route == EVERYWHERE) is not None
    assert backlog.oldest_on(lambda route: False) is None


def test_the_oldest_can_go_first_room_or_not() -> None:
    backlog = backlog_of(armed("late", 1, priority=-9), armed("urgent", 2, priority=9))
    oldest = backlog.take_oldest()
    assert oldest is not None
    assert oldest.job_id == "late"
    assert names(backlog) == ["urgent"], "where it stood in line it is passed over"
    assert backlog.take_oldest() is None


waiting = st.lists(
    st.tuples(
        st.integers(-1, 1),
        st.booleans(),
        st.sampled_from("abc"),
        st.sampled_from(["r1", "r2"]),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=40,
)


@given(waiting, st.sampled_from([(), ("r1",), ("r2",)]), st.integers(1, 7))
def test_between_two_turns_of_a_namespace_every_other_has_one(
    lines: list[tuple[int, bool, str, str, int]], full: tuple[str, ...], slice_: int
) -> None:
    items = [
        armed(str(number), due, priority=priority, recurring=recurring, namespace=namespace, route=route)
        for number, (priority, recurring, namespace, route, due) in enumerate(lines)
    ]
    backlog = backlog_of(*items)
    by_id = {item.job_id: item for item in items}
    left = {item.job_id for item in items if item.lane.route not in full}
    gone: list[ArmedSchedule] = []
    while chosen := names(backlog, slice_, full):
        gone += [by_id[job_id] for job_id in chosen]
    assert [item.job_id for item in gone] == list(dict.fromkeys(item.job_id for item in gone)), "nobody twice"
    assert {item.job_id for item in gone} == left, "all with room, and nobody else"
    assert len(backlog) == len(items) - len(left)
    ranks = [(-item.lane.priority, not item.lane.recurring) for item in gone]
    assert ranks == sorted(ranks)
    for rank in dict.fromkeys(ranks):
        turns = [item.lane.namespace for item, at in zip(gone, ranks, strict=True) if at == rank]
        for place, namespace in enumerate(turns):
            again = turns.index(namespace, place + 1) if namespace in turns[place + 1 :] else None
            if again is not None:
                still_waiting = set(turns[again:]) - {namespace}
                between = turns[place + 1 : again]
                assert still_waiting <= set(between), f"{namespace} went twice past one of {still_waiting}"
                assert len(between) == len(set(between)), "one turn each"
    for lane in {item.lane for item in gone}:
        of_lane = [item.job_id for item in gone if item.lane == lane]
        assert of_lane == [item.job_id for item in items if item.lane == lane], "first come, first served"


def test_what_nobody_serves_is_one_line_until_somebody_does() -> None:
    backlog = Backlog(frozenset((EVERYWHERE,)))
    for number in range(3):
        for route in ("a", "b", EVERYWHERE):
            item = armed(f"{route}{number}", route=route)
            backlog.add(item, item.lane)
    gone = armed("gone", route="a")
    backlog.add(gone, gone.lane)
    backlog.drop(gone)
    assert backlog.counts == {("default", UNSERVED): 6, ("default", EVERYWHERE): 3}
    backlog.regroup(frozenset((EVERYWHERE, "b")))
    assert backlog.counts == {("default", UNSERVED): 3, ("default", EVERYWHERE): 3, ("default", "b"): 3}
    assert names(backlog, full=(UNSERVED, EVERYWHERE)) == ["b0", "b1", "b2"]
    backlog.regroup(frozenset())
    assert backlog.counts == {("default", UNSERVED): 6}
    assert {route: size for route, _, size in backlog.sizes(9)} == {"a": 3, EVERYWHERE: 3}
    assert sorted(names(backlog)) == ["a0", "a1", "a2", *(f"{EVERYWHERE}{number}" for number in range(3))]
    assert (len(backlog), backlog.counts, list(backlog.sizes(9))) == (0, {}, [])
