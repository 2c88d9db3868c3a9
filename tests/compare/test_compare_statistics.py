"""Intervals and paired differences are those of SciPy, which is not there at run time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from proreus.compare.statistics import paired_difference, summarise
from proreus.model.estimate import Estimate, estimate, student_t_quantile
from tests.compare.compare_cases import made


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 29, 30, 99, 1_000, 100_000])
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.9, 0.975, 0.995, 0.99999])
def test_quantile_is_scipys(freedom: int, probability: float) -> None:
    expected = float(stats.t.ppf(probability, freedom))
    assert student_t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("probability", "freedom"), [(0.4, 3), (1.0, 3), (0.975, 0)])
def test_no_such_quantile(probability: float, freedom: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_t_quantile(probability, freedom)


@pytest.mark.parametrize("n", [2, 3, 10, 57])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_interval_is_scipys(n: int, scale: float) -> None:
    values = np.random.default_rng(n).normal(5.0, 2.0, n) * scale
    low, high = stats.t.interval(0.95, n - 1, loc=values.mean(), scale=stats.sem(values))
    interval = estimate(values.tolist())
    assert interval.mean == pytest.approx(values.mean())
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-9)
    assert interval.half == pytest.approx((high - low) / 2)
    assert interval.n == n


def test_one_value_allows_no_interval() -> None:
    interval = estimate([3.5])
    assert interval == Estimate(3.5, None, None, 1)
    assert interval.half is None


def test_equal_values_give_an_interval_without_width() -> None:
    assert estimate([0.1] * 7) == Estimate(0.1, 0.1, 0.1, 7)


def test_seeds_without_a_measure_do_not_count() -> None:
    comparison = made({"a": {"jct_mean": [1.0, math.nan, 3.0], "failures": [0.0, 1.0]}})
    rows = {row.measure: row for row in summarise(comparison.results, comparison.world.measures)}
    assert rows["jct_mean"].estimate.n == 2
    assert rows["jct_mean"].estimate.mean == 2.0
    assert rows["failures"].estimate.n == 2
    assert (rows["jct_mean"].unit, rows["jct_mean"].better) == ("s", "lower")


def test_paired_difference_is_scipys() -> None:
    random = np.random.default_rng(3)
    workload = random.normal(100.0, 30.0, 12)
    one, other = workload + random.normal(2.0, 1.0, 12), workload
    comparison = made({"one": {"jct_mean": one.tolist()}, "other": {"jct_mean": other.tolist()}})
    difference = paired_difference(comparison.results, "jct_mean", "one", "other")
    expected = stats.ttest_rel(one, other).confidence_interval(0.95)
    assert difference is not None
    assert (difference.estimate.low, difference.estimate.high) == pytest.approx((expected.low, expected.high))
    assert difference.significant  # though the intervals of the two means overlap widely
    back = paired_difference(comparison.results, "jct_mean", "other", "one")
    assert back is not None and back.estimate.mean == pytest.approx(-difference.estimate.mean)


def test_pairs_are_the_common_seeds() -> None:
    comparison = made({"one": {"jct_mean": [1.0, 5.0, 9.0]}, "other": {"jct_mean": [2.0, math.nan, 7.0]}})
    difference = paired_difference(comparison.results, "jct_mean", "one", "other")
    assert difference is not None and difference.values == (-1.0, 2.0)
    assert not difference.significant
    assert paired_difference(comparison.results, "makespan", "one", "other") is None


def test_one_pair_is_never_significant_and_equal_pairs_are_the_same() -> None:
    single = made({"one": {"jct_mean": [1.0]}, "other": {"jct_mean": [2.0]}})
    difference = paired_difference(single.results, "jct_mean", "one", "other")
    assert difference is not None and not difference.significant
    several = made({"one": {"jct_mean": [1.0, 2.0]}, "other": {"jct_mean": [2.0, 3.0]}})
    difference = paired_difference(several.results, "jct_mean", "one", "other")
    assert difference is not None and difference.always_same and difference.significant
