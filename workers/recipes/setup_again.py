"""A gate's setup, once more: what a setup has made of the project is the base's, and no proof of a change to it.

The commands that may have taken something of the project are done again in the gate's own sandbox, on the very files
that it tests. They may be a change's own words: so they have no network, and nothing of the image is theirs to write,
or a change could put its own runner there (docs/decisions/0045).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envelope.recipe import RecipeParams, RecipeStep
from repo.content import blobs_of, contents_of
from repo.errors import OutputTooLarge, RepoError
from repo.patch import changes_by
from sandbox.base import Command, Sandbox

from ..delivery.attempt import Attempt
from .commands import run_recipe, succeeded
from .setup_reach import SetupReach, reach_of

MAX_MANIFEST_BYTES = 16 * 1024 * 1024  # a lock file of a large project has two
TOO_LARGE = b'./too-large "path"'  # in the place of a larger one: no reader takes that for a plain one
SAID_CHARS = 200  # of the line that mostly says what was lacking
PREPARE_TIMEOUT_S = 600.0
# What installers leave in the folder stays; the rest is made anew, so that nothing stale is tested.
INSTALLED = ("node_modules", ".venv", "venv", "vendor", "*.egg-info", "*version*.py")
# Without a network each of them says so at once.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_offline": "true"}
# A folder that its own user cannot list may still be read by who knows the names in it.
FORGET = (
    'for place in /tmp /dev/shm "$HOME"; do'
    ' find "$place" -mindepth 1 -type d -exec chmod u+rwx {} \\; && find "$place" -mindepth 1 -delete || exit 1; done'
)


@dataclass(frozen=True, slots=True)
class SetupAgain:
    """`failure`: why it could not be done, in one sentence. `read`: what the base's setup went by, and the change
    edits. `commands`: how many were done."""

    failure: str = ""
    read: tuple[str, ...] = ()
    commands: int = 0


async def set_up_again(attempt: Attempt, timeout_s: float) -> SetupAgain:
    prepared, workspace = await attempt.sandbox.prepared(), attempt.request.workspace
    spec = prepared.spec
    if workspace is None or spec.git_dir is None or not workspace.setup:
        return SetupAgain()
    reach = await _reach(workspace.setup, spec.git_dir, spec.base)
    changes = await changes_by(spec.git_dir, spec.base, prepared.request_diff) if prepared.request_diff else ()
    read = tuple(sorted({os.fsdecode(path) for change in changes for path in change.paths} & reach.read))
    if not reach.again:
        return SetupAgain(read=read)
    added = [os.fsdecode(change.path) for change in changes if change.status in ("A", "R")]
    return SetupAgain(await _do(attempt, reach.again, added, timeout_s), read, len(reach.again))


async def _reach(commands: Sequence[str], git_dir: Path, base: str) -> SetupReach:
    blobs = {path: told.split()[2] for path, told in (await blobs_of(git_dir, base)).items()}
    manifests = [path for path in blobs if path.rpartition("/")[2] == "package.json"]
    try:  # of a large repository there are thousands
        contents = await contents_of(git_dir, [blobs[path] for path in manifests], max_bytes=MAX_MANIFEST_BYTES)
    except OutputTooLarge:
        contents = [TOO_LARGE] * len(manifests)
    known = dict(zip(manifests, contents, strict=True))

    async def read(path: str) -> str | None:
        if path not in known and path in blobs:
            try:
                [known[path]] = await contents_of(git_dir, [blobs[path]], max_bytes=MAX_MANIFEST_BYTES)
            except OutputTooLarge:
                known[path] = TOO_LARGE
        return known[path].decode("utf-8", "replace") if path in known else None

    return await reach_of(commands, read, manifests)


async def _do(attempt: Attempt, commands: Sequence[str], added: Sequence[str], timeout_s: float) -> str:
    """Why it failed, in one sentence; empty where it did not."""
    sandbox, permit = await attempt.sandbox.opened(), attempt.sandbox.permit
    kept = [f"!{name}" for name in INSTALLED] + [f"!/{_literal(path)}" for path in added]
    clean = ["git", "clean", "-ffdXq", *(f"--exclude={pattern}" for pattern in kept)]
    async with permit():
        cleaned = await sandbox.exec(Command(clean, timeout_s=PREPARE_TIMEOUT_S))
    if cleaned.exit_code != 0:
        return f"what setup had made cannot be removed: {_end(cleaned.output)}"
    recipe = RecipeParams(commands=tuple(commands), timeout_s=timeout_s)
    steps = await run_recipe(sandbox, recipe, attempt.reporter.report, permit=permit, env=OFFLINE)
    if not succeeded(recipe, steps[-1]):
        return _said(steps[-1])
    await sandbox.kill_all()
    async with permit():
        forgot = await sandbox.exec(Command(FORGET, timeout_s=PREPARE_TIMEOUT_S))
    if forgot.exit_code != 0:
        return f"what it left in temporary folders cannot be removed: {_end(forgot.output)}"
    return await _undo(sandbox)


def _end(output: bytes) -> str:
    return output.decode(errors="replace").strip()[-SAID_CHARS:]


def _said(step: RecipeStep) -> str:
    how = "took too long" if step.timed_out else f"ended with {step.exit_code}"
    lines = [line.strip() for line in step.output_tail.splitlines() if line.strip()]
    said = next((line for line in lines if line.lower().startswith(("error:", "npm err"))), lines[-1] if lines else "")
    return f"the command `{step.command}` {how}{f': {said[:SAID_CHARS]}' if said else ''}"


async def _undo(sandbox: Sandbox) -> str:
    """Take back what it wrote of files that git does not ignore: that is thrown away of any setup."""
    try:
        wrote = await sandbox.snapshot()
        if wrote.empty:
            return ""
        apply = ["git", "apply", "--reverse", "--binary", "--whitespace=nowarn", "-"]
        await sandbox.exec(Command(apply, stdin=wrote.diff, timeout_s=PREPARE_TIMEOUT_S))
        await sandbox.kill_all()
        left = await sandbox.snapshot()
    except RepoError as error:
        return f"what it wrote cannot be told: {error}"
    if left.empty:
        return ""
    return f"it wrote {left.files[0].path}, which git does not ignore, and which cannot be taken back"


def _literal(path: str) -> str:
    """As a pattern that stands for this path alone."""
    return "".join(f"\\{sign}" if sign in "\\*?[ " else sign for sign in path)
