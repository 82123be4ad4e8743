"""Statistics against values that others have worked out."""

from __future__ import annotations

import itertools
from math import comb

import pytest

from orchestrator.evaluation.statistics import bootstrap, mcnemar, pass_at_k, percentile, wilson


@pytest.mark.parametrize(("tries", "accepted"), [(5, 0), (5, 2), (5, 5), (8, 3)])
def test_pass_at_k_is_the_share_of_all_choices_of_k_tries_that_have_an_accepted_one(tries: int, accepted: int):
    outcomes = [True] * accepted + [False] * (tries - accepted)
    for k in range(1, tries + 1):
        choices = list(itertools.combinations(outcomes, k))
        assert pass_at_k(tries, accepted, k) == pytest.approx(sum(map(any, choices)) / len(choices))


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_is_not_told_by_fewer_tries_than_k(k: int):
    with pytest.raises(ValueError, match="3 tries"):
        pass_at_k(3, 1, k)


# Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
@pytest.mark.parametrize(
    ("accepted", "tries", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_is_newcombes_method_3(accepted: int, tries: int, low: float, high: float):
    assert wilson(accepted, tries) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("one", "other"), [(0, 5), (0, 6), (1, 9), (4, 4), (2, 12)])
def test_mcnemars_p_value_is_that_of_all_outcomes_that_are_no_likelier(one: int, other: int):
    pairs = one + other
    as_far = [comb(pairs, k) for k in range(pairs + 1) if abs(2 * k - pairs) >= abs(one - other)]
    assert mcnemar(one, other) == pytest.approx(sum(as_far) / 2**pairs)


def test_the_bootstrap_interval_is_near_that_of_the_normal_distribution_where_that_holds():
    values = [0.0] * 100 + [1.0] * 100  # standard error of the mean: 0.5 / sqrt(200)
    low, high = bootstrap(values)
    assert (low, high) == pytest.approx((0.5 - 0.0693, 0.5 + 0.0693), abs=0.008)
    assert bootstrap(values) == (low, high)


def test_percentiles_are_values_that_were_there():
    values = list(range(1, 101))
    assert (percentile(values, 50), percentile(values, 95), percentile([7], 95)) == (50, 95, 7)
