"""Results that become a branch or a change in the user's own repository. Only the command line writes there."""

from __future__ import annotations

import tempfile
from pathlib import Path

from envelope.messages import TaskResult
from repo.errors import PatchRefused
from repo.git import git
from repo.local import describe, locate
from repo.mirror import mirror_of
from repo.publish import publish_branch

from ..client import Muster


async def publish_bundle(
    muster: Muster, result: TaskResult, *, name: str, repository: Path, branch: str, commit: str
) -> None:
    """Set `branch` of `repository` to `commit`, which comes in the result's bundle `name`.

    `BranchRefused` when the branch holds other work or is checked out; nothing is changed then.
    """
    with tempfile.TemporaryDirectory(prefix="muster-publish-") as folder:
        packed = Path(folder) / "merged.bundle"
        packed.write_bytes(await muster.attachment(result, name))
        mirror = await mirror_of(Path(folder), bundle=packed, commit=commit)
        await publish_branch(repository, mirror, branch, commit)


async def apply_diff(diff: bytes, repository: Path, *, check_only: bool = False) -> tuple[str, ...]:
    """Apply a diff to the files of a work tree, all of it or nothing; what else was changed there is named.

    `PatchRefused` when it does not fit the files as they are now.
    """
    place = await locate(repository)
    before = await describe(repository)
    words = ("apply", "--whitespace=nowarn", *(["--check"] if check_only else []), "-")
    done = await git(
        *words, git_dir=place.git_dir, work_tree=place.root, cwd=place.root, stdin=diff, ok=(0, 1, 128)
    )
    if done.exit_code:
        why = (done.stderr.strip().splitlines() or ["git gives no reason"])[0].removeprefix("error: ")
        hint = "look at it with `muster task diff`, and check out the commit that it was made from"
        raise PatchRefused(f"the change does not fit the files in {place.root}: {why}", hint=hint)
    return before.dirty
