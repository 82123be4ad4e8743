"""A recipe's task: its commands, run and told as the agent's file says (see `agents/base.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.errors import ErrorCode
from envelope.messages import ErrorInfo, Output
from envelope.recipe import RecipeOutput, RecipeStep

from ..delivery.attempt import Attempt
from ..delivery.results import TaskOutcome
from ..permissions.guard import Guard
from ..permissions.rules import Action, Rule
from .commands import call_summary, check_scope, failure, parse_recipe, run_recipe
from .setup_again import SetupAgain, set_up_again

# The commands are the caller's own words, not a model's: the scope is the border, and there is nothing to ask.
CALLERS_RULES = (Rule("*", "*", Action.ALLOW),)


async def run_recipe_task(attempt: Attempt) -> TaskOutcome:
    """A command that fails is an error if the agent stops there, and a finding if it goes on (`verify`).

    `BadInput` and `ScopeExceeded` before the first command runs.
    """
    request, agent = attempt.request, attempt.agent
    recipe = parse_recipe(request.input.params)
    check_scope(recipe, Guard(request.auth_scope, CALLERS_RULES))
    tree = await _tree(attempt) if agent.counts_tests else ""
    again = await set_up_again(attempt, recipe.timeout_s) if recipe.repeats_setup else SetupAgain()
    if again.failure:
        told = RecipeOutput(steps=(), tree=tree, setup_failure=again.failure)
        return TaskOutcome(output=Output(text=again.failure, structured=told.model_dump()))
    steps = await run_recipe(
        await attempt.sandbox.opened(),
        recipe,
        attempt.reporter.report,
        subpath=request.workspace.subpath if request.workspace else "",
        counts_tests=agent.counts_tests,
        stops_at_failure=agent.stops_at_failure,
        permit=attempt.sandbox.permit,
        first=1 + again.commands,
    )
    wrong = failure(recipe, steps) if agent.stops_at_failure else ""
    return TaskOutcome(
        output=Output(
            text=_summary_text(len(recipe.commands), steps),
            structured=RecipeOutput(steps=tuple(steps), tree=tree, setup_read=again.read).model_dump(),
        ),
        errors=(ErrorInfo.of(ErrorCode.RECIPE_FAILED, wrong),) if wrong else (),
        tool_calls=tuple(call_summary(recipe, step) for step in steps),
    )


async def _tree(attempt: Attempt) -> str:
    """Which files the commands will run on, by git's id; empty where there is no base to compare with."""
    if not (await attempt.sandbox.prepared()).spec.base:
        return ""
    return (await (await attempt.sandbox.opened()).snapshot()).tree


def _summary_text(commands: int, steps: Sequence[RecipeStep]) -> str:
    counted = [step.tests.total for step in steps if step.tests]
    tests = f", {sum(counted)} tests" if counted else ""
    return f"{len(steps)} of {commands} commands ran{tests}.\n{steps[-1].output_tail}".strip()
