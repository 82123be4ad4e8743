"""What pairs of changes come to, in both orders: the tree that is written down, or a collision."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from repo.entities import contradict, unite

from .merge_pairs import pairs

PAIRS = pairs()
OF_ONE_FILE = [pair for pair in PAIRS if pair.language]
# All that are named one by one, and of those that are made from lists every ninth. The soak test does all.
SAMPLE = [pair for at, pair in enumerate(OF_ONE_FILE) if at % 9 == 0 or not re.search(" (ways|apart) ", pair.name)]


def by_lines(folder: Path, *texts: bytes) -> bytes | None:
    """git's merge of two versions; None where they are in conflict."""
    files = [folder / name for name in ("ours", "base", "theirs")]
    for file, text in zip(files, (texts[1], texts[0], texts[2]), strict=True):
        file.write_bytes(text)
    done = subprocess.run(["git", "merge-file", "-p", *files], capture_output=True)
    return done.stdout if done.returncode == 0 else None


@pytest.mark.parametrize("language", sorted({pair.language for pair in OF_ONE_FILE}))
def test_a_pair_comes_to_what_is_written_down(tmp_path: Path, language: str):
    """Without a repository around it. (The soak test does them with one.)"""
    wrong: list[str] = []
    for pair in SAMPLE:
        if pair.language == language:
            [base], [left], [right] = (
                [text.encode() for text in tree.values()] for tree in (pair.base, pair.left, pair.right)
            )
            expected = next(iter(pair.merged.values())).encode() if pair.merged else None
            for sides in ((left, right), (right, left)):
                found = by_lines(tmp_path, base, *sides)
                if found is None:
                    found = unite(base, *sides, language=language)
                elif contradict(base, *sides, found, language=language):
                    found = None
                if found != expected:
                    wrong.append(f"{pair.name}\n{pair.why}\n{(found or b'collision').decode()}")
    assert not wrong, "\n---\n".join(wrong)


# What has nothing to do with anything, put behind both versions: then git has a conflict, and entities decide.
BESIDE = {
    "Python": "\n\ndef {}():\n    return 1\n",
    **dict.fromkeys(("JavaScript", "TypeScript", "TSX"), "\nfunction {}() {{\n  return 1;\n}}\n"),
    "Go": "\nfunc {}() int {{\n\treturn 1\n}}\n",
    "Java": "\nclass {} {{\n    int one;\n}}\n",
    "Rust": "\nfn {}() -> u8 {{\n    1\n}}\n",
}


def test_what_collides_where_git_merges_collides_by_entities_too(tmp_path: Path):
    merged: list[str] = []
    for pair in OF_ONE_FILE:
        if pair.merged is None and not re.search(" (ways|apart) ", pair.name):
            [base], [left], [right] = (list(tree.values()) for tree in (pair.base, pair.left, pair.right))
            versions = (
                base,
                *(text + BESIDE[pair.language].format(name) for text, name in ((left, "l_"), (right, "r_"))),
            )
            texts = [text.encode() for text in versions]
            if by_lines(tmp_path, *texts) is None and unite(*texts, language=pair.language) is not None:
                merged.append(f"{pair.name}\n{pair.why}")
    assert not merged, "\n---\n".join(merged)


def test_the_table_is_as_large_as_it_has_to_be():
    must = [pair for pair in PAIRS if pair.must]
    assert len(PAIRS) >= 1_100 and len(must) >= 180 and all(pair.why for pair in PAIRS)
    assert all(pair.merged is not None for pair in must)
