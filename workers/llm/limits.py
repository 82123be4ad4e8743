"""How much a model takes and gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """A model's window in tokens. `input`: a limit of its own for what is sent, where it has one. 0: not known."""

    context: int = 0
    output: int = 0
    input: int | None = None


UNKNOWN = ModelLimits()
