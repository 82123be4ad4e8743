"""The table of pairs of changes, from the files in `pairs/`: what each pair must come to, and why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from repo.syntaxes import SUFFIXES

FILES = ("python.toml", "braces.toml", "trees.toml", "pulls.toml", "history.toml", "strangers.toml")
ENDS = {"Python": "py", "JavaScript": "js", "TypeScript": "ts", "Go": "go", "Java": "java", "Rust": "rs"}
Tree = Mapping[str, str]


@dataclass(frozen=True)
class Pair:
    """`merged` is the whole tree; None: a collision. `must`: whoever looks closely would merge it. `paths`: those that
    the collision names, where that is not the one file."""

    name: str
    why: str
    base: Tree
    left: Tree
    right: Tree
    merged: Tree | None
    must: bool = False
    language: str = ""
    paths: tuple[str, ...] = field(default=())


def pairs() -> list[Pair]:
    found = [
        pair for name in FILES for pair in _pairs(tomllib.loads((Path(__file__).parent / "pairs" / name).read_text()))
    ]
    assert len({pair.name for pair in found}) == len(found)
    return found


def _pairs(told: Mapping[str, Any]) -> Iterator[Pair]:
    for number, group in enumerate([*told.get("ways", ()), *told.get("apart", ())]):
        yield from _of_group(group, number)
    for number, one in enumerate(told.get("pair", ())):
        language, base = one.get("language", "Python"), one["base"]
        merged = one.get("merged")
        if merged == "git":
            merged = _changed(_changed(base, one["left"]), one["right"])
        texts = [base, _changed(base, one["left"]), _changed(base, one["right"]), merged]
        yield _pair(f"{language} {number}: {one['why']}", one["why"], language, texts, must=one.get("must", False))
    for one in told.get("tree", ()):
        base = told["base"][one["base"]] if isinstance(one["base"], str) else one["base"]
        left, right, merged = _tree(base, one["left"]), _tree(base, one["right"]), one.get("merged")
        if merged is not None:
            merged = _tree(left, one["right"]) if merged == "both" else _tree(base, merged)
        name = f"{min(base)}: {one['why']}"
        language = SUFFIXES.get(f".{min(base).rpartition('.')[2]}", "") if len({*base, *left, *right}) == 1 else ""
        must, paths = one.get("must", False), tuple(one.get("paths", ()))
        yield Pair(name, one["why"], base, left, right, merged, must, language, paths)


def _of_group(group: Mapping[str, Any], number: int) -> Iterator[Pair]:
    language, base, is_apart = group.get("language", "Python"), group["base"].lstrip("\n"), "must" in group
    made = {name: ("", text) for name, text in group.get("texts", {}).items()}
    made |= {name: ("}\n", text + "}\n") for name, text in group.get("members", {}).items()}
    made |= {name: tuple(edit) for name, edit in group.get("edits", {}).items()}
    for (one, first), (other, second) in combinations(made.items(), 2):
        name = f"{language} {'apart' if is_apart else 'ways'} {number}: {one}, {other}"
        both = _last(_last(base, first), second) if is_apart else None
        yield _pair(name, group["why"], language, [base, _last(base, first), _last(base, second), both], must=is_apart)


def _pair(name: str, why: str, language: str, texts: list[str | None], *, must: bool) -> Pair:
    path = f"made.{ENDS[language]}"
    base, left, right, merged = ({path: text} if text is not None else None for text in texts)
    assert base is not None and left is not None and right is not None
    return Pair(name, why, base, left, right, merged, must, language)


def _last(text: str, edit: tuple[str, str]) -> str:
    """The last place of the old text becomes the new one; no old text: the end."""
    old, new = edit
    at = text.rindex(old) if old else len(text)
    return text[:at] + new + text[at + len(old) :]


def _changed(base: str, change: str | list[list[str]]) -> str:
    if isinstance(change, str):
        return base + change
    for old, new in change:
        assert base.count(old) >= 1, (base, old)
        at = base.rindex(old) if old.endswith("}\n") and len(old) < 9 else base.index(old)
        base = base[:at] + new + base[at + len(old) :]
    return base


def _tree(base: Tree, change: Mapping[str, str | bool | list[list[str]]]) -> Tree:
    """`false`: the file is gone. A list: what takes the place of what."""
    made = {path: _changed(base[path], new) if isinstance(new, list) else new for path, new in change.items()}
    return {path: text for path, text in {**base, **made}.items() if isinstance(text, str)}
