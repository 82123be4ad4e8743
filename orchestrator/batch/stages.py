"""Steps as tasks: which of them are one, and the request of each."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from envelope.budget import Budget
from envelope.ids import BlobRef, digest_of
from envelope.messages import TaskRequest, Workspace
from envelope.recipe import RecipeParams
from envelope.scope import Scope, common

from ..fanout.items import prompt_for
from ..submit import BUILD, RECIPE, RECIPE_SCOPE, RepositoryInput, keyed, task_request
from .shards import Shard
from .spec import BatchSpec, Shards
from .step import Step, When

SHARD = "shard"  # how the intent of a shard's task begins


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
    prompt, recipe = _filled(stage, shard, repository.name)
    made = task_request(
        driver=driver,
        agent=stage.agent or RECIPE,
        pool=BUILD,
        prompt=prompt,
        params=_told(recipe),
        workspace=Workspace(bundle=repository.bundle, base=repository.base, setup=spec.setup.commands, changes=changes),
        auth_scope=common(_scope_of(stage, spec.shards, shard), driver.auth_scope),
        budget=budget,
        deadline_ms=deadline_ms,
        intent=shard_intent(f"{repository.name}:{shard.key}"),
        model=driver.model,
        sender="batch",
    )
    return keyed(made, "shard", code=_code(shard, repository))


def shard_intent(key: str) -> str:
    """What the tasks of a shard are for, as statistics and lists say it. `key`: with its repository's name."""
    return f"{SHARD} {key}"[:200]


def work_key(shard: Shard, spec: BatchSpec, repository: RepositoryInput) -> str:
    """All that a shard's steps are made of, as one word: when it is the same, there is nothing to do again."""
    return digest_of(
        *_code(shard, repository), *(_work(stage, shard, spec, repository) for stage in stages_of(spec.steps))
    )


def _work(stage: Stage, shard: Shard, spec: BatchSpec, repository: RepositoryInput) -> str:
    prompt, recipe = _filled(stage, shard, repository.name)
    scope = _scope_of(stage, spec.shards, shard)
    return json.dumps([stage.agent, prompt, _told(recipe), spec.setup.commands, scope])


def _code(shard: Shard, repository: RepositoryInput) -> tuple[str, ...]:
    """The same steps on the same content of one repository are done once, whichever commit it is in. An agent may read
    more than its shard is made of: what a fork says beside that stands for no other repository."""
    source = repository.url or repository.origin
    content = shard.content if source else ""
    return repository.name, source, content or repository.base, shard.key


def _told(recipe: RecipeParams | None) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude_unset=True) if recipe else {}


def _filled(stage: Stage, shard: Shard, name: str) -> tuple[str, RecipeParams | None]:
    """The prompt or the commands, with the shard's values in their places; for a shell each is one word."""
    values = {**shard.values, "repository": name}
    if stage.agent:
        return prompt_for(stage.steps[0].prompt or "", values), None
    return "", _recipe(stage, {key: shlex.quote(value) for key, value in values.items()})


def _recipe(stage: Stage, quoted: dict[str, str]) -> RecipeParams:
    first = stage.steps[0]
    commands = tuple(prompt_for(command, quoted) for step in stage.steps for command in step.commands)
    params = RecipeParams(commands=commands, ok_exit_codes=first.accepted)
    return params if first.timeout_s is None else params.model_copy(update={"timeout_s": first.timeout_s})


def _scope_of(stage: Stage, shards: Shards, shard: Shard) -> Scope:
    beside = (f"edit:{pattern}" for pattern in shards.also_edit)
    return (*RECIPE_SCOPE, *(("task:**", "skill:**") if stage.agent else ()), shard.edits, *beside)
