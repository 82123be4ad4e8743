"""What an agent sees of its workspace before its first turn: the files at the top, and where git stands."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.base import WORKSPACE, Command, Sandbox

# Enough to see a project's shape, about 2,000 tokens; larger trees are cut and say so.
MAX_TREE_PATHS = 200
MAX_PATH_CHARS = 300
LOOK_TIMEOUT_S = 20.0  # ripgrep lists a million files in that time

# Folders and files by their depth, then by name: what is cut is the deepest. Ripgrep leaves out what is hidden or
# ignored; the list is made inside, so that a large repository sends no more than is shown.
TREE = rf"""
rg --no-config --no-messages --files --no-require-git --null . | tr '\n\0' '?\n' | awk -F/ '{{
  path = ""
  for (i = 2; i < NF; i++) {{ path = path $i "/"; if (!(path in seen)) {{ seen[path]; print i "\t" path }} }}
  print NF "\t" substr($0, 3)
}}' | LC_ALL=C sort -k1,1n -k2 | head -n {MAX_TREE_PATHS + 1} | cut -f2-
"""
# The lines that say what HEAD is, then one for each changed path, which are only counted.
GIT = ("git", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=normal")


@dataclass(frozen=True, slots=True)
class Git:
    """`branch` is empty when HEAD is at no branch. `changed`: how many paths differ from the commit."""

    commit: str
    branch: str = ""
    changed: int = 0


@dataclass(frozen=True, slots=True)
class Tree:
    """`paths` are relative to the folder, folders with a slash; `more` when there are others."""

    paths: tuple[str, ...] = ()
    more: bool = False


async def tree_of(sandbox: Sandbox, folder: str = WORKSPACE) -> Tree:
    ended = await sandbox.exec(Command(TREE, cwd=folder, timeout_s=LOOK_TIMEOUT_S))
    found = ended.output.decode("utf-8", "backslashreplace").splitlines()
    return Tree(tuple(sorted(path[:MAX_PATH_CHARS] for path in found[:MAX_TREE_PATHS])), len(found) > MAX_TREE_PATHS)


async def git_of(sandbox: Sandbox) -> Git | None:
    """None where there is no repository, or none with a commit."""
    ended = await sandbox.exec(Command(GIT, timeout_s=LOOK_TIMEOUT_S))
    lines = ended.output.decode("utf-8", "backslashreplace").splitlines()
    said = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit = said.get("branch.oid", "(initial)")
    if ended.exit_code or commit == "(initial)":
        return None
    branch = said.get("branch.head", "")
    changed = sum(not line.startswith("#") for line in lines)
    return Git(commit, "" if branch == "(detached)" else branch, changed)
