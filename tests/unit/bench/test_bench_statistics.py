"""The arithmetic under every figure of the report."""

import os
import subprocess
import sys
import time

import pytest
from bench import accounting
from bench.quantiles import SHARES, curve, lag_figures, quantile


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1.0), (0.01, 1.0), (0.25, 1.0), (0.26, 2.0), (0.5, 2.0), (0.75, 3.0), (0.99, 4.0), (1.0, 4.0)],
)
def test_a_quantile_is_a_value_that_occurred(share: float, expected: float) -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], share) == expected


def test_nothing_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_lags_in_milliseconds_whatever_their_order() -> None:
    lags = [n / 1000 for n in range(100, 0, -1)]
    assert lag_figures(lags) == {"lag_p50_ms": 50.0, "lag_p99_ms": 99.0, "lag_max_ms": 100.0}


def test_a_curve_rises_from_the_least_to_the_most() -> None:
    drawn = curve([0.3, 0.1, 0.2])
    assert [share for share, _ in drawn] == list(SHARES)
    assert (drawn[0], drawn[-1]) == ((0.0, 0.1), (1.0, 0.3))
    assert [seconds for _, seconds in drawn] == sorted(seconds for _, seconds in drawn)


def test_cpu_is_counted_with_children_that_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        spent = accounting.take({"worker": [process.pid]})["worker"]
        process.communicate(b"\n")
    assert spent >= 0.2


def test_cpu_for_a_thousand_jobs_is_a_difference() -> None:
    before, after = {"nats": 1.0, "client": 5.0}, {"nats": 3.0, "client": 5.5}
    assert accounting.per_thousand(before, after, 4_000) == {"nats": 0.5, "client": 0.125, "total": 0.625}


def test_what_others_did_meanwhile_is_told_apart() -> None:
    before, after = {"nats": 1.0, "machine": 10.0}, {"nats": 3.0, "machine": 15.0}
    assert accounting.per_thousand(before, after, 1_000) == {"nats": 2.0, "total": 2.0, "others": 3.0}


def test_a_process_that_came_back_counts_from_zero() -> None:
    assert accounting.per_thousand({"nats": 9.0}, {"nats": 1.0}, 1_000) == {"nats": 0.0, "total": 0.0}


def test_memory_and_time_of_this_process_are_seen() -> None:
    assert accounting.resident_mb(os.getpid()) > 1
    before = accounting.own_seconds(os.getpid())
    while time.process_time() < 0.1:
        pass
    assert accounting.own_seconds(os.getpid()) >= before
