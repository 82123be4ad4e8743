"""What the platform's own tests, which must fail, tell of the runner that ran them beside the project's. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.gate import GateObjection
from envelope.recipe import RecipeStep

from .change import MAX_NAMES
from .told import listed

HINT = "look for code that changes pytest, unittest or assertions while it is imported or run"


def control_objection(before: Sequence[RecipeStep], after: Sequence[RecipeStep]) -> GateObjection | None:
    """Of the first command whose runner called a test passed that must fail, or lost those that it had on the base."""
    for old, new in zip(before, after, strict=False):
        if new.control == "fooled":
            message = (
                f"tests that must fail pass in `{new.command}`, so nothing that it says counts: {listed(new.fooled)}"
            )
            if old.control == "fooled":
                message += " (as on the base)"
            return GateObjection(code="runner_fooled", message=message, hint=HINT, names=new.fooled[:MAX_NAMES])
        if old.control == "held" and new.control == "none":
            message = f"the tests that must fail are not told of by `{new.command}`; on the base they were"
            return GateObjection(code="runner_fooled", message=message, hint=HINT)
    return None


def control_notes(steps: Sequence[RecipeStep]) -> list[str]:
    """Which commands' counts rest on the runner's word alone."""
    without = [f"`{step.command}`" for step in steps if step.tests is not None and step.control == "none"]
    return [f"nothing controls the runner of {listed(without)}: code under test could speak for it"] if without else []
