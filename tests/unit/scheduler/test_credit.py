"""How much may be queued and running: by slots, by what ends, shared by partitions. The clock is the test's own."""

import msgspec
import pytest

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.partition.room import PARTS, route_of
from waterclock.proto.heartbeats import ExecutorHeartbeat
from waterclock.scheduler.credit import (
    _AT_FIRST,
    _BACKLOG,
    _FREE,
    _PER_SLOT,
    _SECONDS,
    _SHORT,
    Credit,
    PartitionRoom,
)

ROUTE = route_of("default", None, "light")
HEAVY = route_of("default", None, "heavy")
MOMENT = SECOND // 100


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def executor(
    slots: int, *, tier: str = "light", handlers: list[str] | None = None, lines: bool = True
) -> ExecutorHeartbeat:
    return ExecutorHeartbeat(
        instance=f"executor of {slots}",
        tier=tier,
        queues=["default"],
        slots=slots,
        handlers=handlers or [],
        lines=lines,
    )


def fill(room: PartitionRoom, route: str = ROUTE) -> int:
    """As many as it lets in; how many the partition has then."""
    while room.has(route):
        room.began(route)
    return room.used[route]


def credit_of(partitions: int, rooms: int | None = None) -> tuple[Credit, Clock, list[PartitionRoom]]:
    """Somebody serves light work, with so few slots that they do not matter."""
    clock = Clock()
    credit = Credit(partitions, clock)
    credit.set_slots([executor(_AT_FIRST // _PER_SLOT)])
    return credit, clock, [credit.open() for _ in range(partitions if rooms is None else rooms)]


def seconds(credit: Credit, clock: Clock, room: PartitionRoom, count: int, ended: int, ran: int) -> None:
    """So many ended in each of some seconds, and as many as had room came after them."""
    for _ in range(count):
        for _ in range(ended):
            if not room.used[ROUTE]:
                room.began(ROUTE)
            room.ended(ROUTE, ran)
        clock.now += 1.0
        credit.measure()
        fill(room)


def test_it_begins_with_a_little() -> None:
    _, _, (room,) = credit_of(1)
    assert fill(room) == _AT_FIRST


def test_some_runs_for_each_slot_that_serves_the_route() -> None:
    credit, clock, (room,) = credit_of(1)
    credit.set_slots([executor(600), executor(400)])
    assert fill(room) == _PER_SLOT * 1000
    assert fill(room, HEAVY) == _AT_FIRST, "a light executor serves no heavy work"
    credit.set_slots([executor(2000, tier="heavy")])
    clock.now += 1.0
    credit.measure()
    assert fill(room, HEAVY) == _PER_SLOT * 2000
    assert fill(room) == _PER_SLOT * 2000, "a heavy one serves light work, too"


def test_a_handler_is_a_route_of_its_own() -> None:
    credit, _, (room,) = credit_of(1)
    credit.set_slots([executor(500, handlers=["resize"]), executor(500)])
    assert fill(room, route_of("default", "resize", "light")) == _PER_SLOT * 500
    assert fill(room, route_of("default", "other", "light")) == _AT_FIRST
    assert fill(room) == _PER_SLOT * 1000


def test_a_scheduler_has_its_share_by_the_partitions_it_owns() -> None:
    credit, _, rooms = credit_of(16, rooms=4)
    credit.set_slots([executor(1000)])
    for room in rooms:
        fill(room)
    assert credit.routes[ROUTE].limit == _PER_SLOT * 1000 / 4


def test_short_work_may_have_as_much_as_ends_in_a_moment() -> None:
    credit, clock, (room,) = credit_of(1)
    credit.set_slots([executor(16)])
    fill(room)
    rate = int(4 * _SHORT / _SECONDS)
    seconds(credit, clock, room, 4, ended=rate, ran=100)
    assert credit.routes[ROUTE].limit == pytest.approx(_SECONDS * rate, rel=0.1)
    assert not credit.routes[ROUTE].waits_for_slots


def test_a_crowd_of_short_work_need_not_wait_for_ends_unless_something_waits_already() -> None:
    credit, clock, (room,) = credit_of(1)
    for _ in range(2):
        room.began(ROUTE)
        room.ended(ROUTE, 100)
        clock.now += 1.0
        credit.measure()
    assert fill(room) == _SHORT
    clock.now += 1.0
    credit.measure()
    assert _AT_FIRST <= credit.routes[ROUTE].limit < _SHORT


def test_slow_work_is_limited_by_its_slots_however_long_it_goes_on() -> None:
    credit, clock, (room,) = credit_of(1)
    credit.set_slots([executor(100)])
    fill(room)
    seconds(credit, clock, room, 60, ended=10, ran=10 * SECOND)
    assert credit.routes[ROUTE].limit == max(_PER_SLOT * 100, _AT_FIRST)
    assert credit.routes[ROUTE].waits_for_slots


def test_a_rate_that_is_no_longer_reached_is_forgotten_while_something_waits() -> None:
    credit, clock, (room,) = credit_of(1)
    fill(room)
    seconds(credit, clock, room, 5, ended=10_000, ran=MOMENT)
    before = credit.routes[ROUTE].best
    seconds(credit, clock, room, 5, ended=500, ran=MOMENT)
    assert credit.routes[ROUTE].best < before / 2


def ends(credit: Credit, clock: Clock, room: PartitionRoom, beats: int, each: int) -> float:
    """So many a quarter of a second; what is believed to end in a second after it."""
    for _ in range(beats):
        for _ in range(each):
            room.began(ROUTE)
        room.ended(ROUTE, MOMENT * each, count=each) if each else None
        clock.now += 0.25
        credit.measure()
    return credit.routes[ROUTE].rate


def test_while_nothing_at_all_ends_it_is_not_believed_to_be_slow_for_a_while() -> None:
    credit, clock, (room,) = credit_of(1)
    room.began(ROUTE)
    assert ends(credit, clock, room, 12, 500) == pytest.approx(2_000, rel=0.01)
    assert ends(credit, clock, room, 28, 0) == pytest.approx(2_000, rel=0.01), "the server is away"
    assert ends(credit, clock, room, 8, 500) == pytest.approx(2_000, rel=0.01), "and back"
    assert ends(credit, clock, room, 80, 0) < 10, "there is no end to it"
    assert ends(credit, clock, room, 40, 500) == pytest.approx(2_000, rel=0.01)


def test_what_it_can_do_is_not_forgotten_while_there_is_little_to_do() -> None:
    credit, clock, (room,) = credit_of(1)
    fill(room)
    seconds(credit, clock, room, 5, ended=10_000, ran=MOMENT)
    for _ in range(room.used[ROUTE]):
        room.ended(ROUTE, MOMENT)
    clock.now += 1.0
    credit.measure()  # the last time that something waited
    before = credit.routes[ROUTE].best
    assert before > 5_000
    for _ in range(20):
        clock.now += 1.0
        credit.measure()
    assert credit.routes[ROUTE].best >= before


def test_the_flood_in_one_partition_leaves_each_other_its_part() -> None:
    _, _, rooms = credit_of(4)
    flood = fill(rooms[0])
    assert flood == _AT_FIRST * _FREE
    others = [fill(room) for room in rooms[1:]]
    assert others == [_AT_FIRST / 4] * 3, "an equal part, whatever the flood has"


def test_a_partition_that_is_closed_gives_its_use_back_once() -> None:
    credit, _, rooms = credit_of(2)
    had = fill(rooms[0])
    assert credit.routes[ROUTE].used == had
    credit.close(rooms[0])
    assert credit.routes[ROUTE].used == 0
    assert fill(rooms[1]) == _AT_FIRST
    credit.close(rooms[0])
    assert credit.routes[ROUTE].used == _AT_FIRST


def test_each_end_makes_room_for_one_more_before_the_next_measurement() -> None:
    _, _, (room,) = credit_of(1)
    fill(room)
    room.ended(ROUTE, None)
    assert room.has(ROUTE)


def test_runs_of_parts_wait_only_when_others_have_taken_much_too_much() -> None:
    credit, clock, (room,) = credit_of(1)
    fill(room)
    seconds(credit, clock, room, 4, ended=100, ran=MOMENT)
    assert room.has(PARTS)
    for _ in range(int(credit.routes[ROUTE].limit)):
        room.began(ROUTE)
    assert not room.has(PARTS)


def test_nothing_is_measured_when_no_time_has_passed() -> None:
    credit, _, (room,) = credit_of(1)
    fill(room)
    room.ended(ROUTE, MOMENT)
    credit.measure()
    assert credit.routes[ROUTE].ended == 1


# -- routes that nobody serves -----------------------------------------------------------------------------------


def test_all_routes_that_nobody_serves_share_one_limit_and_leave_nothing_behind() -> None:
    credit, _, rooms = credit_of(4)
    made_up = [route_of(f"queue{number}", None, "light") for number in range(5_000)]
    for name in made_up:
        for room in rooms:
            if room.has(name):
                room.began(name)
    assert _AT_FIRST <= sum(room.used.total() for room in rooms) <= _AT_FIRST * (_FREE + 1)
    assert (credit.routes, made_up[0] in room.served) == ({}, False)
    assert fill(rooms[0]), "what somebody serves has room"
    for room in rooms:
        for name in list(room.used):
            room.ended(name, None) if name != ROUTE else None
    assert [room.unserved for room in rooms] == [0] * 4
    assert credit.unserved.used == 0
    assert set(rooms[1].used) == set()


def test_a_route_that_is_served_from_now_on_counts_by_itself() -> None:
    credit, _, (room,) = credit_of(1)
    other = route_of("default", "other", "light")
    assert fill(room, HEAVY) + fill(room, other) == _AT_FIRST
    assert other not in room.served
    credit.set_slots([executor(1_000, handlers=["other"])])
    assert other in room.served
    same = room.served
    credit.set_slots([executor(1_000, handlers=["other"])])
    assert room.served is same
    assert fill(room, other) == _PER_SLOT * 1_000
    room.ended(HEAVY, MOMENT)  # somebody executed it, whoever that was
    assert HEAVY in room.served
    assert credit.routes[HEAVY].used == room.used[HEAVY]
    assert (credit.unserved.used, room.unserved) == (0, 0)


def test_a_route_that_nobody_serves_any_more_is_forgotten_when_nothing_of_it_is_left() -> None:
    credit, clock, (room,) = credit_of(1)
    room.began(HEAVY)
    room.ended(HEAVY, MOMENT)
    assert HEAVY in credit.routes
    for _ in range(20):
        clock.now += 1.0
        credit.measure()
    assert HEAVY not in credit.routes
    assert HEAVY not in room.served


# -- parcels ----------------------------------------------------------------------------------------------

QUICK = route_of("default", "quick", "light")


def taking_parcels(*executors: ExecutorHeartbeat) -> tuple[Credit, Clock, PartitionRoom]:
    clock = Clock()
    credit = Credit(1, clock)
    credit.set_slots(executors)
    return credit, clock, credit.open()


def after_runs_of(credit: Credit, clock: Clock, room: PartitionRoom, microseconds: int, left: int) -> int:
    """How many may travel together when runs took so long, and so many are left."""
    for _ in range(100):
        room.began(QUICK)
        room.ended(QUICK, microseconds)
    clock.now += 1.0
    credit.measure()
    while room.used[QUICK] < left:
        room.began(QUICK)
    return room.parcel_size(QUICK)


def quick(*, parcels: bool, handlers: tuple[str, ...] = ("quick",)) -> ExecutorHeartbeat:
    beat = executor(8, handlers=list(handlers))
    return msgspec.structs.replace(beat, parcels=list(handlers) if parcels else [])


@pytest.mark.parametrize(
    ("microseconds", "size"), [(20, 64), (78, 64), (100, 50), (1_000, 5), (2_600, 1), (300_000, 1)]
)
def test_a_parcel_is_worth_a_few_milliseconds(microseconds: int, size: int) -> None:
    assert after_runs_of(*taking_parcels(quick(parcels=True)), microseconds, left=100) == size


def test_there_are_parcels_only_where_there_is_a_backlog() -> None:
    credit, clock, room = taking_parcels(quick(parcels=True))
    assert after_runs_of(credit, clock, room, 20, left=_BACKLOG - 1) == 1
    room.began(QUICK)
    assert room.parcel_size(QUICK) == 64


def test_there_are_none_while_it_is_not_known_how_long_runs_take() -> None:
    credit, clock, room = taking_parcels(quick(parcels=True))
    for _ in range(100):
        room.began(QUICK)
    clock.now += 1.0
    credit.measure()
    assert room.parcel_size(QUICK) == 1


def test_an_executor_of_the_version_before_is_sent_none() -> None:
    """Nor is anybody else who serves the same: it is not known who takes what."""
    new, old = quick(parcels=True), quick(parcels=False)
    assert after_runs_of(*taking_parcels(new, old), 20, left=100) == 1
    other = quick(parcels=False, handlers=("other",))
    assert after_runs_of(*taking_parcels(new, other), 20, left=100) == 64


def test_parcels_come_and_go_with_who_serves() -> None:
    credit, clock, room = taking_parcels(quick(parcels=True))
    assert after_runs_of(credit, clock, room, 20, left=100) == 64
    credit.set_slots([quick(parcels=True), quick(parcels=False)])
    assert after_runs_of(credit, clock, room, 20, left=100) == 1


def fill_with(room: PartitionRoom, priority: int, route: str = ROUTE) -> int:
    """How many more of that priority it lets in."""
    count = 0
    while room.has(route, priority):
        room.began(route, priority)
        count += 1
    return count


@pytest.mark.parametrize("route", [ROUTE, HEAVY], ids=["served", "unserved"])
def test_each_priority_has_the_same_room_whatever_the_others_have(route: str) -> None:
    _, _, [room] = credit_of(1)
    alone = fill_with(room, 0, route)
    assert fill_with(room, 50, route) == fill_with(room, 100, route) == fill_with(room, 49, route) == alone
    assert not room.has(route, 50)
    assert not room.has(route)
    room.ended(route, None, 50)
    assert room.has(route, 50)


def test_what_is_queued_of_a_priority_counts_where_it_is_served_from_then_on() -> None:
    credit, _, [room] = credit_of(1)
    before = fill_with(room, 7, HEAVY)
    assert credit.unserved.high == {7: before}
    credit.set_slots([executor(1, tier="heavy")])
    assert not room.has(HEAVY, 7)
    assert (credit.routes[HEAVY].used, credit.routes[HEAVY].high) == (before, {7: before})
    assert (credit.unserved.used, credit.unserved.high, room.unserved, room.unserved_high) == (0, {}, 0, {})
    for _ in range(before):
        room.ended(HEAVY, MOMENT, 7)
    assert (credit.routes[HEAVY].used, credit.routes[HEAVY].high, room.high) == (0, {}, {})


def test_a_partition_that_is_given_up_leaves_its_room_of_every_priority() -> None:
    credit, _, [room, other] = credit_of(2)
    fill_with(room, 7)
    fill_with(room, 0, HEAVY)
    other.began(ROUTE, 7)
    credit.close(room)
    assert (credit.routes[ROUTE].used, credit.routes[ROUTE].high) == (1, {7: 1})
    assert (credit.unserved.used, credit.unserved.high) == (0, {})


def test_work_goes_to_exact_lines_unless_somebody_serves_it_who_does_not_know_them() -> None:
    credit, _, [room] = credit_of(1)
    assert room.has_exact_lines(ROUTE)
    assert room.has_exact_lines(HEAVY), "nobody serves it yet"
    credit.set_slots([executor(1, tier="heavy"), executor(1, lines=False)])
    assert not room.has_exact_lines(ROUTE)
    assert room.has_exact_lines(HEAVY)
    credit.set_slots([executor(1, tier="heavy")])
    assert room.has_exact_lines(ROUTE)


def test_work_of_which_it_is_not_known_who_serves_it_lacks_slots() -> None:
    credit = Credit(1, Clock())
    room = credit.open()
    assert not credit.lacks_slots, "there is no work"
    room.began(ROUTE)
    assert credit.lacks_slots, "nobody is known"
    room.began(ROUTE)
    room.ended(ROUTE, MOMENT)
    assert credit.lacks_slots, "somebody has executed one, but it is not known who"
    credit.set_slots([executor(10)])
    assert not credit.lacks_slots
    room.began(PARTS)
    assert not credit.lacks_slots, "a run that is made of others needs nobody"


def test_several_that_end_together_are_as_many_that_end_one_by_one() -> None:
    together, clock, (all_at_once,) = credit_of(1)
    apart, other_clock, (one_by_one,) = credit_of(1)
    for room in (all_at_once, one_by_one):
        for priority in (0, 0, 0, 7, 7):
            room.began(ROUTE, priority)
    all_at_once.ended(ROUTE, 3 * MOMENT, 0, 3)
    all_at_once.ended(ROUTE, 2 * MOMENT, 7, 2)
    for priority in (0, 7, 0, 7, 0):
        one_by_one.ended(ROUTE, MOMENT, priority)
    clock.now = other_clock.now = 101.0
    together.measure()
    apart.measure()
    assert together.routes == apart.routes
    assert (all_at_once.used, all_at_once.high) == (one_by_one.used, one_by_one.high) == ({}, {})
