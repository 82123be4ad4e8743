"""What can be said of tries by their counts. Pure; nothing here knows what was tried.

Intervals are of 95 per cent.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

Z_95 = 1.959963984540054
# The ends of an interval are then steady to about a hundredth of its width.
RESAMPLES = 10_000
MAX_DRAWS = 2_000_000  # a second's work: of many cases there need not be as many resamples
SEED = 20_210_707  # the same results have the same interval


def pass_at_k(tries: int, accepted: int, k: int) -> float:
    """How likely it is that of `k` tries at least one is accepted: the unbiased estimator of Chen et al., "Evaluating
    Large Language Models Trained on Code" (2021), 1 - C(n-c, k) / C(n, k).

    >>> round(pass_at_k(5, 2, 1), 3), round(pass_at_k(5, 2, 3), 3), pass_at_k(3, 0, 2)
    (0.4, 0.9, 0.0)
    """
    if not 1 <= k <= tries:
        raise ValueError(f"pass@{k} cannot be told by {tries} tries")
    if tries - accepted < k:
        return 1.0
    return 1.0 - math.comb(tries - accepted, k) / math.comb(tries, k)


def wilson(accepted: float, tries: int) -> tuple[float, float]:
    """The score interval of Wilson (1927) of a rate; it is honest near 0 and 1, and of few tries.

    Of cases with several tries each, `accepted` is the sum of their rates, which need be no whole number.

    >>> tuple(round(end, 4) for end in wilson(7, 10)), tuple(round(end, 4) for end in wilson(0, 10))
    ((0.3968, 0.8922), (0.0, 0.2775))
    """
    if not tries:
        return 0.0, 1.0
    rate, z2 = accepted / tries, Z_95 * Z_95
    middle = (rate + z2 / (2 * tries)) / (1 + z2 / tries)
    half = Z_95 * math.sqrt(rate * (1 - rate) / tries + z2 / (4 * tries * tries)) / (1 + z2 / tries)
    return max(0.0, middle - half), min(1.0, middle + half)


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """The percentile interval of the mean (Efron 1979), by drawing the values anew.

    Given the differences of pairs it is the interval of the mean difference; given means of cases it takes the tries
    of one case for what they are, not independent. Values that are all alike have no spread that it could find, and
    would seem to be certain: they are `ValueError`.
    """
    if is_uniform(values):
        raise ValueError("values that are all alike cannot be drawn anew")
    count = len(values)
    drawn_from = sorted(values)  # in which order a suite has its cases changes nothing
    draw = random.Random(SEED)  # noqa: S311 - it hides nothing
    resamples = max(1_000, min(RESAMPLES, MAX_DRAWS // count))
    means = sorted(math.fsum(draw.choices(drawn_from, k=count)) / count for _ in range(resamples))
    return means[int(0.025 * resamples)], means[min(resamples - 1, int(0.975 * resamples))]


def is_uniform(values: Sequence[float]) -> bool:
    """
    >>> is_uniform([1.0, 1.0]), is_uniform([0.5]), is_uniform([]), is_uniform([0.0, 1.0])
    (True, True, True, False)
    """
    return len(set(values)) < 2


def difference_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Of the mean difference of pairs. All alike, it is that of Agresti and Min (2005), "Simple improved confidence
    intervals for comparing matched proportions": two pairs are added that speak for both sides alike.

    >>> tuple(round(end, 3) for end in difference_interval([-1.0] * 6)), difference_interval([])
    ((-1.0, -0.363), (-1.0, 1.0))
    """
    if not differences:
        return -1.0, 1.0
    if not is_uniform(differences):
        return bootstrap(differences)
    count = len(differences) + 2
    total = math.fsum(differences)
    squares = math.fsum(each * each for each in differences) + 1  # half a pair each of +1 and -1, and one of 0
    half = Z_95 * math.sqrt(squares - total * total / count) / count
    return max(-1.0, total / count - half), min(1.0, total / count + half)


def mcnemar(only_one: int, only_other: int) -> float:
    """The exact two-sided p-value of McNemar's test: how likely is it that so many pairs, or more, fall to one side, if
    both sides are equally good?

    >>> round(mcnemar(0, 6), 5), mcnemar(3, 3), mcnemar(0, 0)
    (0.03125, 1.0, 1.0)
    """
    pairs = only_one + only_other
    tail = sum(math.comb(pairs, count) for count in range(min(only_one, only_other) + 1))
    return min(1.0, 2 * tail / 2**pairs)


def percentile(values: Sequence[float], per_cent: float) -> float | None:
    """By the nearest rank: a value that was there.

    >>> percentile([40, 10, 30, 20], 50), percentile([1, 2, 3], 95), percentile([], 50)
    (20, 3, None)
    """
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(per_cent / 100 * len(values)) - 1)]
