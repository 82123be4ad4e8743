"""Statistics against values that others have worked out."""

from __future__ import annotations

import itertools
from math import comb

import pytest

from orchestrator.evaluation.statistics import bootstrap, difference_interval, mcnemar, pass_at_k, percentile, wilson


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


@pytest.mark.parametrize(
    "values", [[0.0, 0.0, 1.0], [0.0, 1 / 3, 1 / 3, 1.0], [1.0, 1.0, 1.0, 1.0, 2 / 3], [-1.0, 0.0, 0.0, 1.0, 1.0, 1.0]]
)
def test_the_bootstrap_interval_is_that_of_all_ways_to_draw(values: list[float]):
    """Of few values each way can be written down; an end may be the next value where one stands at its border."""
    count = len(values)
    means = sorted(sum(drawn) / count for drawn in itertools.product(values, repeat=count))
    low, high = bootstrap(values)
    for end, share in ((low, 0.025), (high, 0.975)):
        at_most, less = sum(mean <= end + 1e-9 for mean in means), sum(mean < end - 1e-9 for mean in means)
        assert less / len(means) - 0.01 <= share <= at_most / len(means) + 0.01


def test_in_which_order_a_suite_has_its_cases_changes_no_interval():
    values = [0.0, 1 / 3, 2 / 3, 1.0, 1.0]
    assert bootstrap(values[::-1]) == bootstrap(values[2:] + values[:2]) == bootstrap(values)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_values_that_are_all_alike_seem_certain_to_nobody(value: float):
    for count in (1, 2, 10):
        with pytest.raises(ValueError, match="all alike"):
            bootstrap([value] * count)
        low, high = difference_interval([value] * count)
        assert low < value < high or (low < value == high == 1.0)
    with pytest.raises(ValueError, match="all alike"):
        bootstrap([])
    assert difference_interval([]) == (-1.0, 1.0)


# By hand, of Agresti and Min (2005): with b pairs for one side and c for the other, b + 1/2, c + 1/2 and n + 2.
@pytest.mark.parametrize(
    ("n", "difference", "low", "high"),
    [(1, -1.0, -1.0, 0.5101), (6, 0.0, -0.2450, 0.2450), (6, -1.0, -1.0, -0.3626), (30, 1.0, 0.8336, 1.0)],
)
def test_the_interval_of_pairs_that_are_all_alike_is_agresti_and_mins(
    n: int, difference: float, low: float, high: float
):
    assert difference_interval([difference] * n) == pytest.approx((low, high), abs=5e-5)


def test_percentiles_are_values_that_were_there():
    values = list(range(1, 101))
    assert (percentile(values, 50), percentile(values, 95), percentile([7], 95)) == (50, 95, 7)
