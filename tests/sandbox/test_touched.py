"""The stamps by which a sandbox's snapshot is known to be as it was."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sandbox import touched
from sandbox.touched import stamps_of


@pytest.fixture
def upper(tmp_path: Path, monkeypatch) -> Path:
    """A folder whose files count as old from the start."""
    monkeypatch.setattr(touched, "YOUNG_NS", -3600 * 10**9)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    return tmp_path


def test_what_nobody_touches_keeps_its_stamps(upper: Path):
    stamps = stamps_of(upper)

    assert stamps is not None and {*stamps} == {"/", "/src/", "/src/a.py"}
    assert stamps_of(upper) == stamps


@pytest.mark.parametrize("name", ["src/a.py", "src/b.py", "c.py"])
def test_a_change_changes_them_whatever_times_are_set(upper: Path, name: str):
    before = stamps_of(upper)

    (upper / name).write_text("22")
    os.utime(upper / name, ns=(0, 0))

    assert stamps_of(upper) != before


def test_nothing_is_said_of_what_is_young(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(touched, "YOUNG_NS", time.time_ns())
    (tmp_path / "a").write_text("1")

    assert stamps_of(tmp_path) is None


def test_nothing_is_said_of_what_is_large_deep_or_gone(upper: Path, monkeypatch):
    deep = upper / "/".join(["d"] * (touched.MAX_DEPTH + 1))
    deep.mkdir(parents=True)
    assert stamps_of(upper) is None

    monkeypatch.setattr(touched, "MAX_DEPTH", 100)
    assert stamps_of(upper) is not None
    monkeypatch.setattr(touched, "MAX_ENTRIES", 10)
    assert stamps_of(upper) is None
    assert stamps_of(upper / "nothing") is None


def test_links_are_not_followed(upper: Path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (upper / "link").symlink_to(outside)
    before = stamps_of(upper)

    (outside / "new").write_text("1")

    assert stamps_of(upper) == before is not None
    assert stamps_of(upper / "link") is None
