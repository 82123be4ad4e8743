"""Names that come from anybody are compared in no time."""

from __future__ import annotations

import random
import time

from envelope.near import close_names


def test_the_name_that_was_meant_is_found():
    assert close_names("shop/crat.py", ["shop/cart.py", "shop/user.py"]) == ["shop/cart.py"]
    assert close_names("a" * 65, ["a" * 64]) == []
    assert close_names("buidl", [f"long-name-{n:030}" for n in range(5000)] + ["build"]) == ["build"]


def test_names_that_are_nearly_alike_take_no_time():
    chance = random.Random(1)

    def name(chars: int) -> str:
        return "".join(chance.sample("aaaaaaaaab" * 30, chars))

    known = [*(name(64) for _ in range(5000)), *(name(250) for _ in range(1000))]
    began_s = time.process_time()
    for wrong in (name(64), name(199), "a" * 250_000):
        close_names(wrong, known, count=3)
    assert time.process_time() - began_s < 1
