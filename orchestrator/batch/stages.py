"""Steps as tasks: which of them are one, and the request of each."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from envelope.budget import Budget
from envelope.ids import BlobRef, content_key
from envelope.messages import TaskRequest, Workspace
from envelope.recipe import RecipeParams
from envelope.scope import Scope

from ..fanout.items import prompt_for
from ..submit import BUILD, RECIPE, RECIPE_SCOPE, RepositoryInput, task_request
from .shards import Shard
from .spec import BatchSpec, Shards
from .step import Step, When


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps that are one task. Recipes in a row share its sandbox; an agent's step is always alone."""

    steps: tuple[Step, ...]

    @property
    def when(self) -> When:
        return self.steps[0].when

    @property
    def agent(self) -> str | None:
        return self.steps[0].agent


def stages_of(steps: Sequence[Step]) -> list[Stage]:
    numbered = zip(_stage_numbers(steps), steps, strict=True)
    return [Stage(tuple(step for _, step in group)) for _, group in groupby(numbered, key=lambda each: each[0])]


def _stage_numbers(steps: Sequence[Step]) -> list[int]:
    numbers = [0]
    for before, step in pairwise(steps):
        both_recipes = before.agent is None and step.agent is None
        alike = (before.accepted, before.timeout_s) == (step.accepted, step.timeout_s)
        numbers.append(numbers[-1] + (not (both_recipes and alike and step.when is When.ALWAYS)))
    return numbers


def stage_request(
    stage: Stage,
    shard: Shard,
    spec: BatchSpec,
    repository: RepositoryInput,
    *,
    driver: TaskRequest,
    budget: Budget,
    deadline_ms: int,
    changes: BlobRef | None = None,
) -> TaskRequest:
    """A root in a trace of its own, so that thousands of shards do not share one stream and one budget.

    `changes`: what the stages before this one have made of the base.
    """
    values = {**shard.values, "repository": repository.name}
    prompt = prompt_for(stage.steps[0].prompt or "", values)
    recipe = None if stage.agent else _recipe(stage, {name: shlex.quote(value) for name, value in values.items()})
    params = recipe.model_dump(mode="json", exclude_unset=True) if recipe else {}
    work = [stage.agent, prompt, params, spec.setup.commands, spec.shards.also_edit, driver.model]
    place = (repository.name, shard.content or repository.base, shard.key)
    return task_request(
        agent=stage.agent or RECIPE,
        pool=BUILD,
        prompt=prompt,
        params=params,
        workspace=Workspace(bundle=repository.bundle, base=repository.base, setup=spec.setup.commands, changes=changes),
        auth_scope=_scope_of(stage, spec.shards, shard),
        budget=budget,
        deadline_ms=deadline_ms,
        intent=f"shard {repository.name}:{shard.key}"[:200],
        # made of what the work is: the same steps on the same content are done once
        idempotency_key=content_key("shard", json.dumps(work), *place, changes or ""),
        model=driver.model,
        priority=driver.priority,
        tenant=driver.tenant,
        batch_id=driver.task_id,
        sender="batch",
        asks=driver.asks,
    )


def _recipe(stage: Stage, quoted: dict[str, str]) -> RecipeParams:
    first = stage.steps[0]
    commands = tuple(prompt_for(command, quoted) for step in stage.steps for command in step.commands)
    timeout_s = {} if first.timeout_s is None else {"timeout_s": first.timeout_s}
    return RecipeParams(commands=commands, ok_exit_codes=first.accepted, **timeout_s)


def _scope_of(stage: Stage, shards: Shards, shard: Shard) -> Scope:
    beside = (f"edit:{pattern}" for pattern in shards.also_edit)
    return (*RECIPE_SCOPE, *(("task:**", "skill:**") if stage.agent else ()), shard.edits, *beside)
