"""A folder is removed with all that is in it, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from repo.removal import discard_tree, remove_tree

LEVELS = 3000  # their names together are longer than any path may be


def nest(folder: Path) -> None:
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(LEVELS):
        os.mkdir("dd", dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("dd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_however_deep_it_is(tmp_path: Path):
    nest(tmp_path / "deep")

    remove_tree(tmp_path / "deep")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("depth", [0, LEVELS])
def test_what_is_discarded_need_not_be_there(tmp_path: Path, depth: int):
    if depth:
        nest(tmp_path / "deep")

    discard_tree(tmp_path / "deep")

    assert list(tmp_path.iterdir()) == []


def test_links_lead_nowhere(tmp_path: Path):
    other, folder = tmp_path / "other", tmp_path / "folder"
    other.mkdir()
    (other / "kept").write_text("kept")
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/link").symlink_to(other)
    (folder / "link").symlink_to(other)
    os.mkfifo(folder / "inner/pipe")
    (tmp_path / "to").symlink_to(other)

    remove_tree(folder)
    with pytest.raises(NotADirectoryError):
        remove_tree(tmp_path / "to")

    assert not folder.exists()
    assert (other / "kept").read_text() == "kept"


def test_one_that_is_gone_is_said_to_be(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        remove_tree(tmp_path / "gone")


def test_a_folder_that_somebody_moves_away_meanwhile_takes_nobody_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other, folder = tmp_path / "other", tmp_path / "folder"
    (other / "inner").mkdir(parents=True)
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/file").touch()
    unlink = os.unlink

    def moves_it(name: str, **where: Any) -> None:
        unlink(name, **where)
        (other / "inner").rename(tmp_path / "kept")
        (folder / "inner").rename(other / "moved")
        (tmp_path / "kept").rename(other / "inner")

    monkeypatch.setattr(os, "unlink", moves_it)
    with pytest.raises(OSError, match="moved"):
        remove_tree(folder)

    assert (other / "inner").is_dir()
