"""How planning and acting go together."""

from __future__ import annotations

from enum import StrEnum

from ..errors import BadInput, near_miss


class PlanMode(StrEnum):
    """`layered`: a plan first, then an agent for each step. `light`: a few waypoints, from which the agent may depart.
    `on-demand`: no plan until something fails, or a person asks for one. `living`: the agent changes its plan while it
    works. `none`: the agent plans as it likes."""

    NONE = "none"
    LAYERED = "layered"
    LIGHT = "light"
    ON_DEMAND = "on-demand"
    LIVING = "living"


def mode_named(word: str, *, else_: str = "") -> PlanMode:
    """`BadInput` for a word that is none; `else_` is what the hint has beside the ways there are."""
    modes = [mode.value for mode in PlanMode]
    if word not in modes:
        raise BadInput(f"there is no way to plan called {word!r}", hint=near_miss(word, modes) + else_)
    return PlanMode(word)
