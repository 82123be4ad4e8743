"""A run can be replayed: everything that is drawn comes from the seed."""

from __future__ import annotations

from itertools import islice

from lab.schedule import Kind, faults, jobs, seeds
from lab.submitter import shares


def drawn(seed: int):
    requests = [make() for make in shares("share", seed, 50)]
    work = [(request.idempotency_key, request.input.params, request.budget) for request in requests]
    return list(islice(faults(seed, 8), 200)), jobs(seed, 50), work


def test_the_same_seed_draws_the_same_run():
    assert drawn(7) == drawn(7)


def test_another_seed_draws_another_run():
    assert all(one != other for one, other in zip(drawn(7), drawn(8), strict=True))


def test_every_kind_of_fault_is_drawn_for_every_place():
    some = list(islice(faults(1, 4), 500))

    assert {(fault.kind, fault.place) for fault in some} == {(kind, place) for kind in Kind for place in range(4)}


def test_a_seed_from_the_environment_is_the_only_one(monkeypatch):
    monkeypatch.setenv("MUSTER_CHAOS_SEED", "12345")

    assert seeds() == [12345]
