"""How the merges that people made in a repository's history come out here, beside git's own.

    python -m benchmarks.merge_history REPOSITORY [--count N] [--skip N] [--any] [--json FILE]

Merges of two commits with one common ancestor, of which both sides changed a file (`--any`: or none), no more than 60
files each, spread evenly over the main line. Both sides are merged as patches, in both orders. One line for each
outcome, and one for each merge that Muster refuses though git's merge is the one that people made, or for which it has
a result of its own. REPOSITORY is read; what is made goes into a copy of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from repo.merge import Merged, merge_patches
from repo.merge_sides import Changeset, Side, sides_of
from repo.merge_tree import merge_trees
from repo.mirror import Mirror
from repo.patch import patch_between
from repo.scratch import scratch

MAX_FILES = 60  # of a side: a release branch that comes home is no patch


@dataclass(frozen=True, slots=True)
class Outcome:
    """`muster`: `theirs` (the tree that people made), `git's`, `its own`, or `refused`; `git`: `theirs`, `other` or
    `conflict`."""

    merge: str
    muster: str
    git: str
    detail: str = ""


def git(git_dir: Path, *arguments: str) -> str:
    command = ["git", "--git-dir", str(git_dir), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "replace").strip()


def merges(git_dir: Path, count: int, skip: int, *, any_files: bool) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """The merge, the common ancestor, and both sides."""
    listed = git(git_dir, "rev-list", "--merges", "--max-parents=2", "--parents", "HEAD").splitlines()
    for line in listed[skip :: max(1, len(listed) // (count * 12))]:
        merge, first, second = line.split()
        bases = subprocess.run(
            ["git", "--git-dir", str(git_dir), "merge-base", "--all", first, second], capture_output=True, text=True
        ).stdout.split()
        if len(bases) != 1 or bases[0] in (first, second):
            continue
        changed = [
            set(git(git_dir, "diff", "--name-only", "--no-renames", bases[0], side).splitlines())
            for side in (first, second)
        ]
        is_small = all(0 < len(files) <= MAX_FILES for files in changed)
        if is_small and (any_files or changed[0] & changed[1]):
            yield merge, bases[0], (first, second)


async def outcome_of(mirror: Mirror, merge: str, base: str, sides: tuple[str, str]) -> Outcome | None:
    """None where a side's patch cannot be made one."""
    changesets: list[Changeset] = []
    for key, side in zip(("first", "second"), sides, strict=True):
        patch = await patch_between(mirror, base, side)
        changesets.append(Changeset(key, patch.diff, key, patch.files))
    known = await sides_of(mirror, base, changesets)
    commits = [side.commit for one in changesets if isinstance(side := known.of[one.key], Side)]
    if len(commits) != 2 or not all(commits):
        return None
    orders = [await merge_patches(mirror, base, order, sides=known) for order in (changesets, changesets[::-1])]
    with scratch(write_to=mirror.objects) as own:
        alone = await merge_trees(own, *commits)
    theirs = git(mirror.git_dir, "rev-parse", f"{merge}^{{tree}}")
    trees = {_tree(mirror, merged) for merged in orders}
    if len(trees) > 1:
        raise AssertionError(f"{merge}: the order decides")
    [tree] = trees
    muster = "refused" if not tree else "theirs" if tree == theirs else "git's" if tree == alone.tree else "its own"
    by_git = "conflict" if not alone.clean else "theirs" if alone.tree == theirs else "other"
    return Outcome(merge, muster, by_git, orders[0].collisions[0].detail if orders[0].collisions else "")


def _tree(mirror: Mirror, merged: Merged) -> str:
    return "" if merged.collisions else git(mirror.git_dir, "rev-parse", f"{merged.commit}^{{tree}}")


async def look_at(repository: Path, count: int, skip: int, *, any_files: bool) -> list[Outcome]:
    """The outcomes of `count` merges at most, after the first `skip` of the main line."""
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="muster-merges-") as folder:
        copy = Path(folder) / "copy.git"
        subprocess.run(["git", "clone", "--quiet", "--bare", "--shared", str(repository), str(copy)], check=True)
        for merge, base, sides in merges(copy, count, skip, any_files=any_files):
            if len(found) == count:
                break
            if (one := await outcome_of(Mirror(copy), merge, base, sides)) is not None:
                found.append(one)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--skip", type=int, default=0, help="so many merges, for another sample")
    parser.add_argument("--any", action="store_true", help="also merges whose sides share no file")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = asyncio.run(look_at(given.repository, given.count, given.skip, any_files=given.any))
    for (muster, by_git), number in Counter((one.muster, one.git) for one in found).most_common():
        print(f"{number:5}  Muster: {muster:8} git: {by_git}")
    for one in found:
        if (one.muster, one.git) == ("refused", "theirs") or one.muster == "its own":
            print(f"{one.merge[:12]} {one.muster}: {' '.join(one.detail.split())[:160]}")
    if given.json:
        given.json.write_text("".join(f"{json.dumps(asdict(one))}\n" for one in found))


if __name__ == "__main__":
    main()
