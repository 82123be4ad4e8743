"""How planning and acting go together."""

from __future__ import annotations

from enum import StrEnum


class PlanMode(StrEnum):
    """`layered`: a plan first, then an agent for each step. `light`: a few waypoints, from which the agent may depart.
    `on-demand`: no plan until something fails, or a person asks for one. `living`: the agent changes its plan while it
    works. `none`: the agent plans as it likes."""

    NONE = "none"
    LAYERED = "layered"
    LIGHT = "light"
    ON_DEMAND = "on-demand"
    LIVING = "living"
