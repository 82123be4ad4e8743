"""Shards that the files alone do not tell: what a command prints, and what an earlier batch left undone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from envelope.artifacts import FOLDER
from envelope.messages import Workspace
from envelope.recipe import RecipeParams
from repo.content import blobs_of
from repo.mirror import Mirror

from ..driver import Driver, Work, completed
from ..errors import BadInput, TaskFailed
from ..globs import matching
from ..submit import BUILD, RECIPE, RECIPE_SCOPE, RepositoryInput, keyed, task_request
from .report import BatchReport
from .request import BatchParams
from .retries import settled
from .shards import WHOLE, Found, folders_of
from .spec import BatchSpec

# The command's output is an attachment of its task: as a file of its patch, a project's .gitignore might stop it.
OUTPUT = "muster-shards"
MAX_OUTPUT_BYTES = 10 * 1024 * 1024
UNDONE = ("failed", "set_aside", "collision")


async def found_in(driver: Driver, params: BatchParams, given: RepositoryInput, mirror: Mirror) -> Found | None:
    """None where the files tell. `BadInput` for what names no file or folder of the repository."""
    spec = params.spec
    if params.found is not None:
        return params.found.get(given.name, {})
    if spec.shards.command is None:
        return None
    printed = await _printed(driver, spec, given)
    files = await blobs_of(mirror.git_dir, given.base)
    return await driver.aside(partial(_keyed, printed, files, spec, given.name))


def undone_in(report: BatchReport) -> dict[str, dict[str, dict[str, str]]]:
    """By repository and key, with why."""
    return {
        repository.name: {
            shard.key: {"failure": shard.detail} for shard in repository.shards if shard.outcome in UNDONE
        }
        for repository in report.repositories
    }


async def _printed(driver: Driver, spec: BatchSpec, given: RepositoryInput) -> bytes:
    """By the command, in a sandbox of its own and at the base: never on this machine."""
    works = [_work(driver, spec, given)]
    async with aclosing(settled(driver, works)) as endings:
        [result] = [ended.result async for ended in endings]
    if not completed(result):
        raise TaskFailed(result.errors[0])
    printed = next((one for one in result.attachments if one.name == OUTPUT), None)
    content = await driver.transport.blobs.get(printed.blob) if printed else b""
    if printed is None or len(content) > MAX_OUTPUT_BYTES:  # a worker that we know lets no more through
        hint = f"it may print no more than 10 MiB; see: muster task logs {result.task_id}"
        raise BadInput(f"what shards.command printed for {given.name} did not come back", hint=hint)
    return content


def _work(driver: Driver, spec: BatchSpec, given: RepositoryInput) -> Work:
    command = f"mkdir -p {FOLDER}; ( {spec.shards.command}\n) > {FOLDER}/{OUTPUT}"
    request = task_request(
        parent=driver.request,
        agent=RECIPE,
        pool=BUILD,
        params=RecipeParams(commands=(command,)).model_dump(mode="json", exclude_unset=True),
        workspace=Workspace(bundle=given.bundle, base=given.base, setup=spec.setup.commands),
        auth_scope=RECIPE_SCOPE,
        deadline_ms=driver.remaining_ms,
        intent=f"shards of {given.name}",
        sender="batch",
    )
    return Work(f"shards:{given.name}", keyed(request, "shards", given.name), f"shards of {given.name}")


def _keyed(printed: bytes, files: Iterable[str], spec: BatchSpec, name: str) -> Found:
    """Each line is a path, or a JSON object with a `path` (or `file`) and whatever else the steps may say."""
    files = set(files)
    folders = folders_of(files)
    found: dict[str, dict[str, str]] = {}
    for line in filter(None, map(str.strip, printed.decode("utf-8", "replace").splitlines())):
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
    except (ValueError, RecursionError):
        return {"path": line}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
