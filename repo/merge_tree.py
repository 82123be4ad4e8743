"""Two commits become one tree, or a conflict with everything that is known of it. What git says, as a value."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .scratch import Scratch
from .wording import as_text

Allowed = Callable[[str], bool]  # may whoever made a patch edit this path?

BASE, OURS, THEIRS = 1, 2, 3  # git's numbers for the versions of a path in conflict
MERGE = ("merge-tree", "--write-tree", "-z")
# Whoever resolves a conflict needs to see what both sides started from.
SHOW_BASE = ("merge.conflictStyle=diff3",)


@dataclass(frozen=True, slots=True)
class Version:
    """One side's (or the base's) version of a path in conflict."""

    mode: str
    id: str


@dataclass(frozen=True, slots=True)
class TreeMerge:
    """`tree` has both sides between conflict markers at `paths`, whose versions are in `stages`. `detail` is git's
    account; `kinds` are its words for the sorts of conflict.
    """

    tree: str
    clean: bool
    stages: dict[bytes, dict[int, Version]]
    kinds: frozenset[str] = frozenset()
    detail: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(as_text(path) for path in self.stages))


async def merge_trees(own: Scratch, ours: str, theirs: str) -> TreeMerge:
    """The 3-way merge of two commits against what they have in common."""
    done = await own.git(*MERGE, "--messages", ours, theirs, ok=(0, 1), configuration=SHOW_BASE)
    fields = iter(done.fields)
    tree = next(fields).decode()
    if done.exit_code == 0:
        return TreeMerge(tree, True, {})
    stages = _stages(fields)
    kinds, texts = _messages(fields)
    return TreeMerge(tree, False, stages, frozenset(kinds), "\n".join(texts))


@dataclass(frozen=True, slots=True)
class Strayed:
    """What a merge of a patch would change although its author may not edit it. `outside`: these paths alone;
    `paths`: with the names that they had, if any."""

    outside: tuple[str, ...]
    paths: tuple[str, ...]
    detail: str


async def changed_paths(own: Scratch, before: str, after: str) -> list[str]:
    """Of two trees or commits; both sides of a rename."""
    compare = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after)
    return [as_text(path) for path in (await own.git(*compare)).fields]


async def strayed(own: Scratch, base: str, tip: str, changed: Sequence[str], allowed: Allowed | None) -> Strayed | None:
    """git lets an edit follow a file, or a new file a folder, to where another patch has moved it: `changed` is what
    the merge of a patch of `base` with `tip` changes there, and may be more than the patch itself names."""
    outside = tuple(path for path in changed if not allowed(path)) if allowed else ()
    if not outside:
        return None
    compare = ("diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", base, tip)
    told = [as_text(field) for field in (await own.git(*compare)).fields]
    old = dict(zip(told[2::3], told[1::3], strict=True))
    lines = [
        f"CONFLICT (scope): {f'{old[path]} has become {path}' if path in old else f'this would change {path}'},"
        " which this patch may not change"
        for path in outside
    ]
    paths = {*outside, *(old[path] for path in outside if path in old)}
    return Strayed(outside, tuple(sorted(paths)), "\n".join(lines))


async def version_at(own: Scratch, commit: str, path: bytes) -> Version | None:
    """What a path is in a commit, however it is called; None for what is not there, or is a folder."""
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    listed = await own.git("ls-tree", "-z", "--full-tree", commit, "--", os.fsdecode(path), env=literal)
    about = [entry.partition(b"\t")[0].decode().split(" ") for entry in listed.fields]
    return next((Version(mode, blob) for mode, kind, blob in about if kind == "blob"), None)


async def conflicts_of(own: Scratch, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
    """The paths at which each pair of commits is in conflict by lines: all pairs in one process."""
    if not pairs:
        return []
    asked = "".join(f"{ours} {theirs}\n" for ours, theirs in pairs).encode()
    done = await own.git(*MERGE, "--stdin", "--no-messages", "--name-only", stdin=asked)
    fields = iter(done.fields)
    return [_conflicted(fields) for _ in pairs]


def _conflicted(fields: Iterator[bytes]) -> tuple[str, ...]:
    """Of one pair: two fields, then the paths in conflict, then an empty field."""
    for _ in ("whether it is clean", "the tree"):
        next(fields)
    return tuple(sorted({as_text(name) for name in iter(fields.__next__, b"")}))


def _stages(fields: Iterator[bytes]) -> dict[bytes, dict[int, Version]]:
    """`mode id stage TAB path` up to an empty field."""
    stages: dict[bytes, dict[int, Version]] = {}
    for field in iter(fields.__next__, b""):
        about, _, path = field.partition(b"\t")
        mode, blob, stage = about.decode().split(" ")
        stages.setdefault(path, {})[int(stage)] = Version(mode, blob)
    return stages


def _messages(fields: Iterator[bytes]) -> tuple[list[str], list[str]]:
    """The sorts of conflict, and the texts: a count, so many paths, a sort, the text; and again."""
    kinds: list[str] = []
    texts: list[str] = []
    for count in fields:
        about = [next(fields) for _ in range(int(count))]
        kind, text = next(fields), next(fields)
        if kind.startswith(b"CONFLICT") and about:
            kinds.append(kind.decode())
            texts.append(as_text(text).strip())
    return kinds, texts
