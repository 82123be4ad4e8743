"""A recipe's task: `recipe` changes files and stops at the first failure, `verify` runs everything and counts tests."""

from __future__ import annotations

from typing import Any

from envelope.errors import ErrorCode
from envelope.messages import ErrorInfo, Output

from .attempt import Attempt
from .permissions.guard import Guard
from .permissions.rules import Action, Rule
from .recipe import Recipe, Step, check_scope, failure, parse_recipe, run_recipe
from .results import Ended

VERIFY = "verify"
# The commands are the caller's own words, not a model's: the scope is the border, and there is nothing to ask.
CALLERS_RULES = (Rule("*", "*", Action.ALLOW),)


def returns_patch(agent_name: str) -> bool:
    """What a verification leaves in its workspace is litter."""
    return agent_name != VERIFY


async def run_recipe_task(attempt: Attempt) -> Ended:
    """`verify` completes whatever its commands say, since that is what it was asked to find out; a failing `recipe` is
    an error. `BadInput` and `ScopeExceeded` before the first command runs."""
    request, verifies = attempt.request, attempt.agent.name == VERIFY
    recipe = parse_recipe(request.input.params)
    check_scope(recipe, Guard(request.auth_scope, CALLERS_RULES))
    sandbox = await attempt.bench.sandbox()
    has_base = bool((await attempt.bench.prepared()).spec.base)
    tree = (await sandbox.snapshot()).tree if verifies and has_base else ""
    steps = await run_recipe(
        sandbox,
        recipe,
        attempt.reporter.report,
        subpath=request.workspace.subpath if request.workspace else "",
        counts_tests=verifies,
        goes_on=verifies,
    )
    wrong = "" if verifies else failure(recipe, steps)
    errors = (ErrorInfo.of(ErrorCode.RECIPE_FAILED, wrong),) if wrong else ()
    structured: dict[str, Any] = {"steps": [step.as_dict() for step in steps]} | ({"tree": tree} if verifies else {})
    calls = tuple(step.as_summary(recipe) for step in steps)
    return Ended(Output(text=_told(recipe, steps), structured=structured), errors, calls)


def _told(recipe: Recipe, steps: list[Step]) -> str:
    ran = f"{len(steps)} of {len(recipe.commands)} commands ran"
    counted = [step.tests for step in steps if step.tests]
    tests = f", {sum(tests.total for tests in counted)} tests" if counted else ""
    return f"{ran}{tests}.\n{steps[-1].output_tail}".strip()
