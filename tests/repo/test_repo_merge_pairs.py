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


def test_the_table_is_as_large_as_it_has_to_be():
    must = [pair for pair in PAIRS if pair.must]
    assert len(PAIRS) >= 300 and len(must) >= 42 and all(pair.why for pair in PAIRS)
    assert all(pair.merged is not None for pair in must)
