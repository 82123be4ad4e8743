"""What an agent sees of its workspace before its first turn: an outline of its files, and where git stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.base import WORKSPACE, Command, Sandbox

# The project's shape in about 200 tokens (docs/agents/prompt.md has the measurements): for more a model looks itself.
MAX_TREE_ENTRIES = 60
MAX_NAME_CHARS = 100
LOOK_TIMEOUT_S = 20.0  # ripgrep lists a million files in that time

# What an entry is. Folders at the top count most, then files at the top, then the folders in those folders; among
# folders the larger one does.
TOP_FOLDER, TOP_FILE, SUBFOLDER = 1, 2, 3
# One line for each: what it is, how many files are in it at any depth, its path. Ripgrep leaves out what is hidden or
# ignored; the counting is done inside, so that a large repository sends no more than is shown.
TREE = rf"""
rg --no-config --no-messages --files --no-require-git --null . | tr '\n\0' '?\n' | awk -F/ '
  NF == 2 {{ print "{TOP_FILE}\t0\t" $2 }}
  NF > 2 {{ top[$2]++ }}
  NF > 3 {{ below[$2 "/" $3]++ }}
  END {{
    for (path in top) print "{TOP_FOLDER}\t" top[path] "\t" path
    for (path in below) print "{SUBFOLDER}\t" below[path] "\t" path
  }}
' | LC_ALL=C sort -t "$(printf '\t')" -k1,1n -k2,2nr -k3 | head -n {MAX_TREE_ENTRIES + 1}
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
    """`paths`: a line for each folder at the top, with its own folders, then one for the files; `more` when there are
    others than these."""

    paths: tuple[str, ...] = ()
    more: bool = False


async def tree_of(sandbox: Sandbox, folder: str = WORKSPACE) -> Tree:
    ended = await sandbox.exec(Command(TREE, cwd=folder, timeout_s=LOOK_TIMEOUT_S))
    lines = (line.split(b"\t", 2) for line in ended.output.split(b"\n") if line)
    return outline((int(kind), int(count), path) for kind, count, path in lines)


def outline(entries: Iterable[tuple[int, int, bytes]]) -> Tree:
    """What it is, how many files are in it, its path, by their order in `TREE`.

    >>> outline([(TOP_FOLDER, 9, b"src"), (TOP_FILE, 0, b"a.py"), (TOP_FILE, 0, b"b.py"), (SUBFOLDER, 7, b"src/app")])
    Tree(paths=('src/ (9): app/ (7)', 'a.py, b.py'), more=False)
    """
    ordered = sorted(entries, key=lambda entry: (entry[0], -entry[1], entry[2]))
    shown = ordered[:MAX_TREE_ENTRIES]
    own = {
        kind: [(path, count) for is_, count, path in shown if is_ == kind] for kind in (TOP_FOLDER, TOP_FILE, SUBFOLDER)
    }
    inside: dict[bytes, list[str]] = {}
    for path, count in sorted(own[SUBFOLDER]):
        top, _, name = path.partition(b"/")
        inside.setdefault(top, []).append(f"{_name(name)}/ ({count})")
    lines = [
        f"{_name(path)}/ ({count})" + (f": {', '.join(inside[path])}" if path in inside else "")
        for path, count in sorted(own[TOP_FOLDER])
    ]
    files = ", ".join(_name(path) for path, _ in own[TOP_FILE])
    return Tree((*lines, *([files] if files else [])), len(ordered) > MAX_TREE_ENTRIES)


def _name(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")[:MAX_NAME_CHARS]


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
