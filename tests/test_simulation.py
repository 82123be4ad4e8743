"""The simulator of `benchmarks.simulate`, held against what can be worked out by hand.

Whether it says what a real fleet does is shown by running it: it measures one beside its predictions.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.simulation import Costs, Fleet, Load, simulate

FREE = Costs(redis_task_us=0, redis_turn_us=0, redis_worker_us_s=0, worker_task_us=0, worker_turn_us=0)


def test_what_costs_nothing_takes_as_many_rounds_as_the_slots_need():
    seen = simulate(Fleet(workers=3, slots=4), Load(tasks=25, turns=5, turn_s=2.0), FREE)

    assert seen.took_s == pytest.approx(30.0)  # 12, 12 and one
    assert seen.slots_busy == pytest.approx(25 / 36)
    assert seen.wait_p50_s == pytest.approx(10.0)


@pytest.mark.parametrize("cells", [1, 4])
def test_redis_is_the_limit_where_tasks_do_nothing(cells: int):
    costs = replace(FREE, redis_task_us=100)
    seen = simulate(Fleet(workers=50, slots=4, cells=cells), Load(tasks=10_000, turns=1, turn_s=0.0), costs)

    assert seen.took_s == pytest.approx(1.0 / cells, rel=0.01)
    assert seen.redis_busy == pytest.approx(1.0, rel=0.01)


def test_what_workers_cost_by_being_there_makes_redis_slower():
    costs = replace(FREE, redis_task_us=100, redis_worker_us_s=5_000)
    seen = simulate(Fleet(workers=100, slots=1), Load(tasks=10_000, turns=1, turn_s=0.0), costs)

    assert seen.took_s == pytest.approx(2.0, rel=0.01)
    with pytest.raises(ValueError, match="by being there"):
        simulate(Fleet(workers=300, slots=1), Load(tasks=1, turns=1, turn_s=0.0), costs)


def test_a_worker_is_the_limit_where_turns_cost_it_time():
    costs = replace(FREE, worker_turn_us=1_000)
    seen = simulate(Fleet(workers=2, slots=100), Load(tasks=1_000, turns=10, turn_s=0.0), costs)

    assert seen.took_s == pytest.approx(5.0, rel=0.01)
    assert seen.worker_busy == pytest.approx(1.0, rel=0.01)


def test_processes_share_the_cores_of_their_machine():
    costs = replace(FREE, worker_turn_us=1_000)
    load = Load(tasks=1_000, turns=10, turn_s=0.0)

    assert simulate(Fleet(workers=4, slots=10, cores=2), load, costs).took_s == pytest.approx(5.0, rel=0.02)


@pytest.mark.parametrize("busy", [0.5, 0.8])
def test_one_slot_makes_people_wait_as_the_formula_says(busy: float):
    """Pollaczek and Khinchine, for lengths that are all the same: busy / 2 (1 - busy) lengths."""
    seen = simulate(Fleet(workers=1, slots=1), Load(tasks=10_000, turns=1, turn_s=1.0, per_s=busy), FREE, seed=7)

    assert seen.wait_mean_s == pytest.approx(busy / (2 * (1 - busy)), rel=0.1)
    assert seen.slots_busy == pytest.approx(busy, rel=0.05)


def test_lengths_that_differ_have_the_same_mean_and_longer_waits():
    fleet, load = Fleet(workers=1, slots=1), Load(tasks=10_000, turns=1, turn_s=1.0, per_s=0.5)
    even, uneven = simulate(fleet, load, FREE), simulate(fleet, replace(load, spread=1.0), FREE)

    assert uneven.slots_busy == pytest.approx(even.slots_busy, rel=0.1)
    assert uneven.wait_mean_s == pytest.approx(
        2 * even.wait_mean_s, rel=0.25
    )  # (1 + spread²) times, says the same formula


def test_a_seed_gives_the_same_again():
    fleet, load = Fleet(workers=2, slots=2), Load(tasks=500, turns=3, turn_s=0.5, spread=0.5, per_s=2.0)

    assert simulate(fleet, load, FREE, seed=3) == simulate(fleet, load, FREE, seed=3)
    assert simulate(fleet, load, FREE, seed=3) != simulate(fleet, load, FREE, seed=4)
