"""From the files of a repository to shards: what each one may edit, and the task that does it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from envelope.budget import Budget
from envelope.ids import content_key
from envelope.messages import TaskRequest, Workspace
from envelope.pattern import MAX_PATTERN_CHARS
from envelope.recipe import RecipeParams
from envelope.scope import Scope

from ..errors import BadInput
from ..globs import matching
from ..submit import BUILD, RECIPE, RECIPE_SCOPE, RepositoryInput, task_request
from .spec import BatchSpec, Shards, Step

WHOLE = "."  # the key of a shard that is a whole repository


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard before it is a task. `key` sorts, and is unique in its repository; a folder's ends in `/`."""

    key: str

    @property
    def path(self) -> str:
        return self.key.rstrip("/")

    @property
    def edits(self) -> str:
        if self.key == WHOLE:
            return "edit:**"
        return f"edit:{self.path}/**" if self.key.endswith("/") else f"edit:{self.path}"


def shards_of(files: Iterable[str], shards: Shards, *, max_shards: int, name: str) -> list[Shard]:
    """The shards of one repository, sorted by key. `BadInput` when there are none, or too many."""
    if shards.whole:
        return [Shard(WHOLE)]
    keys, what = _keys(list(files), shards)
    if not keys:
        raise BadInput(
            f"{what} matches nothing of {name} at its base commit",
            hint="paths are relative to the repository's root; only committed files count",
        )
    if len(keys) > max_shards:
        raise BadInput(
            f"{what} makes {len(keys)} shards of {name}, over the limit of {max_shards}",
            hint="say it more narrowly, or raise limits.max_shards",
        )
    found = [Shard(key) for key in keys]
    if long := next((shard.path for shard in found if len(shard.edits) > MAX_PATTERN_CHARS), None):
        raise BadInput(f"the path {long[:60]}… is too long for a shard")
    return found


def _keys(files: list[str], shards: Shards) -> tuple[list[str], str]:
    """The keys, sorted, and how to call what chose them."""
    if shards.files is not None:
        wanted = set(shards.files)
        chosen = matching("**", filter(wanted.__contains__, files), exclude=shards.exclude)
        return chosen, "the list of files"
    if shards.directories is not None:
        folders = {str(folder) for file in files for folder in PurePosixPath(file).parents} - {WHOLE}
        found = matching(shards.directories.rstrip("/"), folders, exclude=shards.exclude)
        return [f"{folder}/" for folder in found], f"the glob of folders {shards.directories!r}"
    return matching(shards.glob or "", files, exclude=shards.exclude), f"the glob {shards.glob!r}"


def refuse_unknown_files(shards: Shards, found: Iterable[Shard]) -> None:
    """A file that was named and is in no repository would be left out in silence."""
    wanted = matching("**", shards.files or (), exclude=shards.exclude)
    if missing := sorted(set(wanted) - {shard.key for shard in found}):
        hint = "commit it, or take it off the list"
        raise BadInput(f"no repository of the batch has the file {missing[0]!r} at its base commit", hint=hint)


def shard_request(
    shard: Shard, spec: BatchSpec, repository: RepositoryInput, *, driver: TaskRequest, budget: Budget, deadline_ms: int
) -> TaskRequest:
    """A shard is a root in a trace of its own, so that thousands of them do not share one stream and one budget."""
    step = spec.steps[0]
    agent = step.agent or RECIPE
    return task_request(
        agent=agent,
        pool=BUILD,
        prompt=step.prompt.replace("{path}", shard.path) if step.prompt else "",
        params=_recipe_params(spec.steps, shard).model_dump(mode="json", exclude_unset=True) if step.recipe else {},
        workspace=Workspace(bundle=repository.bundle, base=repository.base, setup=spec.setup.commands),
        auth_scope=_scope_of(step, spec.shards, shard),
        budget=budget,
        deadline_ms=deadline_ms,
        intent=f"shard {repository.name}:{shard.key}"[:200],
        idempotency_key=shard_key(shard, spec, repository, model=driver.model),
        model=driver.model,
        priority=driver.priority,
        tenant=driver.tenant,
        batch_id=driver.task_id,
        sender="batch",
        asks=driver.asks,
    )


def shard_key(shard: Shard, spec: BatchSpec, repository: RepositoryInput, *, model: str) -> str:
    """Made of what the shard's work is: the same steps on the same file at the same commit are done once."""
    steps = [step.model_dump(mode="json") for step in spec.steps]
    work = json.dumps([steps, spec.setup.commands, spec.shards.also_edit, model])
    return content_key("shard", work, repository.name, repository.base, shard.key)


def _recipe_params(steps: Sequence[Step], shard: Shard) -> RecipeParams:
    path = shlex.quote(shard.path)
    commands = tuple(command.replace("{path}", path) for step in steps for command in step.recipe or ())
    params = RecipeParams(commands=commands, ok_exit_codes=steps[0].ok_exit_codes)
    return params if steps[0].timeout_s is None else params.model_copy(update={"timeout_s": steps[0].timeout_s})


def _scope_of(step: Step, shards: Shards, shard: Shard) -> Scope:
    beside = (f"edit:{pattern}" for pattern in shards.also_edit)
    return (*RECIPE_SCOPE, *(("task:**", "skill:**") if step.agent else ()), shard.edits, *beside)
