"""Shards that the files alone do not tell: what a command prints, and what an earlier batch left undone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, cast

from envelope.ids import content_key
from envelope.messages import PatchRef, TaskResult, Workspace
from envelope.recipe import RecipeParams
from repo.content import blobs_of, file_at
from repo.mirror import Mirror
from repo.patch import apply_to_tree

from ..driver import Driver, Work, completed
from ..errors import BadInput, TaskFailed
from ..globs import matching
from ..submit import BUILD, RECIPE, RECIPE_SCOPE, RepositoryInput, task_request
from .report import BatchReport
from .request import BatchParams
from .shards import WHOLE, Found, folders_of
from .spec import BatchSpec

# The command's output leaves its sandbox as a file of its own, in its patch.
OUTPUT = "muster-shards.out"
MAX_OUTPUT_BYTES = 8 * 1024 * 1024  # a hundred thousand lines of a path
UNDONE = ("failed", "set_aside", "collision")


async def found_in(driver: Driver, params: BatchParams, given: RepositoryInput, mirror: Mirror) -> Found | None:
    """None where the files tell. `BadInput` for what names no file or folder of the repository."""
    spec = params.spec
    if params.found is not None:
        return params.found.get(given.name, {})
    if spec.shards.command is None:
        return None
    lines = await _printed(driver, spec, given, mirror)
    return _keyed(lines, await blobs_of(mirror.git_dir, given.base), spec, given.name)


def undone_in(report: BatchReport) -> dict[str, dict[str, dict[str, str]]]:
    """By repository and key, with why."""
    return {
        repository.name: {
            shard.key: {"failure": shard.detail} for shard in repository.shards if shard.outcome in UNDONE
        }
        for repository in report.repositories
    }


async def _printed(driver: Driver, spec: BatchSpec, given: RepositoryInput, mirror: Mirror) -> list[str]:
    """By the command, in a sandbox of its own and at the base: never on this machine."""
    works = [_work(driver, spec, given)]
    async with aclosing(driver.run(works)) as endings:
        [result] = [ended.result async for ended in endings]
    if not completed(result):
        raise TaskFailed(result.errors[0])
    if result.patch is None:
        return []
    return (await _output(driver, mirror, given, result, result.patch)).splitlines()


async def _output(driver: Driver, mirror: Mirror, given: RepositoryInput, result: TaskResult, patch: PatchRef) -> str:
    diff = await driver.transport.blobs.get(patch.diff)
    tree = await apply_to_tree(mirror.git_dir, given.base, diff)
    content = await file_at(mirror.git_dir, tree, OUTPUT, max_bytes=MAX_OUTPUT_BYTES)
    if content is None:
        hint = f"see it with: muster task logs {result.task_id}"
        raise BadInput(f"what shards.command printed for {given.name} did not come back", hint=hint)
    return content.decode("utf-8", "replace")


def _work(driver: Driver, spec: BatchSpec, given: RepositoryInput) -> Work:
    command = f"rm -f {OUTPUT}; ( {spec.shards.command}\n) > {OUTPUT}"
    request = task_request(
        parent=driver.request,
        agent=RECIPE,
        pool=BUILD,
        params=RecipeParams(commands=(command,)).model_dump(mode="json", exclude_unset=True),
        workspace=Workspace(bundle=given.bundle, base=given.base, setup=spec.setup.commands),
        auth_scope=(*RECIPE_SCOPE, f"edit:{OUTPUT}"),
        deadline_ms=driver.remaining_ms,
        intent=f"shards of {given.name}",
        idempotency_key=content_key("shards", command, *spec.setup.commands, given.name, given.base),
        sender="batch",
    )
    return Work(f"shards:{given.name}", request, f"shards of {given.name}")


def _keyed(lines: Iterable[str], files: Iterable[str], spec: BatchSpec, name: str) -> Found:
    """Each line is a path, or a JSON object with a `path` (or `file`) and whatever else the steps may say."""
    files = set(files)
    folders = folders_of(files)
    found: dict[str, dict[str, str]] = {}
    for line in filter(None, map(str.strip, lines)):
        values = _values(line)
        path = values.get("path", values.get("file", "")).removeprefix("./")
        if path != WHOLE and path not in files and path.rstrip("/") not in folders:
            hint = "print one path a line, relative to the repository's root, of what is committed"
            raise BadInput(f"shards.command printed {path[:100]!r}, which {name} does not have", hint=hint)
        key = path if path in files or path == WHOLE else f"{path.rstrip('/')}/"
        found.setdefault(key, values)
    kept = set(matching("**", (key.rstrip("/") for key in found), exclude=spec.shards.exclude))
    return {key: values for key, values in found.items() if key.rstrip("/") in kept}


def _values(line: str) -> dict[str, str]:
    if not line.startswith("{"):
        return {"path": line}
    try:
        fields = cast("dict[str, Any]", json.loads(line))
    except (json.JSONDecodeError, RecursionError):
        return {"path": line}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
