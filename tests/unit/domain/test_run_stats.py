"""Counts of runs add up, are taken back, and their percentiles are right within a tenth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from waterclock.core.domain.instants import HOUR, MINUTE, SECOND
from waterclock.core.domain.readmodel.rows import RunRow
from waterclock.core.domain.readmodel.run_stats import (
    RunCounts,
    RunStats,
    histogram_index,
    histogram_of,
    percentile_seconds,
    stored_histogram,
)
from waterclock.proto.verdicts import RunStatus

T0 = 1_794_816_000 * SECOND


def ended(status: RunStatus = "SUCCESS", scheduled: int = T0, took: int = SECOND, **fields: object) -> RunRow:
    row = RunRow(
        run_id="a@b",
        job_id="a",
        namespace="default",
        status=status,
        trigger="schedule",
        scheduled_time=scheduled,
        due_time=scheduled,
        start_time=scheduled + 5000,
        end_time=scheduled + 5000 + took,
        modified_time=scheduled,
        executor_id="e",
        queue="default",
        first_sequence=1,
        last_sequence=1,
        created_at=scheduled,
    )
    return replace(row, **fields)


@given(st.lists(st.integers(1_000, 10**13), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_percentile_is_within_a_tenth(spans: list[int], share: float) -> None:
    histogram: dict[int, int] = {}
    for span in spans:
        index = histogram_index(span)
        histogram[index] = histogram.get(index, 0) + 1
    found = percentile_seconds(histogram, share)
    wanted = next(span for place, span in enumerate(sorted(spans), 1) if place >= share * len(spans) - 1e-9)
    assert found is not None
    assert found == pytest.approx(wanted / SECOND, rel=0.1)


def test_without_values_there_is_no_percentile() -> None:
    assert percentile_seconds({}, 0.5) is None
    assert percentile_seconds({3: 0, 4: -1}, 0.5) is None


@given(st.lists(st.integers(0, 60)), st.lists(st.integers(0, 60)))
def test_what_is_stored_one_after_the_other_is_added_up(one: list[int], other: list[int]) -> None:
    counts = [{index: values.count(index) for index in values} for values in (one, other)]
    both = RunCounts(durations=dict(counts[0]))
    both.add(RunCounts(durations=counts[1]))
    assert histogram_of(stored_histogram(counts[0]) + stored_histogram(counts[1])) == both.durations


def test_runs_count_where_they_were_scheduled() -> None:
    stats = RunStats()
    stats.add(ended(scheduled=T0 + 59 * MINUTE))
    stats.add(ended("FAILED", scheduled=T0 + 59 * MINUTE))
    stats.add(ended("TIMED_OUT", scheduled=T0 + HOUR))
    stats.add(ended("MISSED", fires=7, start_time=None, end_time=T0))
    rows = stats.rows(part=3)
    assert [(row[1], row[2], row[6:11]) for row in rows] == [
        (60, T0, (0, 0, 7, 0, 0)),
        (60, T0 + 59 * MINUTE, (1, 1, 0, 0, 0)),
        (60, T0 + HOUR, (0, 1, 0, 0, 0)),
        (3600, T0, (1, 1, 7, 0, 0)),
        (3600, T0 + HOUR, (0, 1, 0, 0, 0)),
    ]
    assert rows == sorted(rows, key=lambda row: row[:6])
    assert {row[5] for row in rows} == {3}


def test_a_run_that_goes_on_after_all_is_taken_back() -> None:
    stats = RunStats()
    failed = ended("FAILED", took=2 * SECOND)
    stats.add(failed)
    stats.add(failed, -1)
    stats.add(ended("SUCCESS", took=4 * SECOND))
    (counts,) = stats.minutes.values()
    assert (counts.failed, counts.success) == (0, 1)
    assert stored_histogram(counts.durations) == [histogram_index(4 * SECOND), 1]
