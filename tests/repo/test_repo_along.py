"""A patch from the trees along what was touched is the one that a look at everything gives."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace

import pytest

from repo import along, patch
from repo.collect import Touched
from repo.patch import apply_to_tree, extract_patch

LONG = "".join(f"line {n}\n" for n in range(30))
FILES = {
    ".gitattributes": "*.dos text eol=crlf\n*.auto text=auto\nsub/* -text\n",
    ".gitignore": "*.log\nbuild/\n",
    "top.txt": LONG,
    "a/one.py": LONG,
    "a/two.dos": "x\ny\n",
    "a/b/c/deep.auto": b"mixed\r\nlines\n",
    "a/b/c/other.auto": "plain\n",
    "a-b": "sorts before a/\n",
    "a.txt": "and this, too\n",
    "alone/only.txt": "one\n",
    "sub/x.auto": b"kept\r\n",
    'we ird\t"name"': "odd\n",
    os.fsdecode(b"latin-\xe9"): "not UTF-8\n",
}
KINDS = ["edit", "crlf", "remove", "mode", "link", "move", "binary", "same"]
NEW = ["new.txt", "a/new.dos", "a/b/new/er.auto", "far/away/from/all.py", "seen.log", "build/out", "sub/y"]


def all_files(root):
    """Each with what is known of it without a look inside."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] != ".git" and (path.is_symlink() or not path.is_dir())
    }


def change(root, path, chance):
    """In one of many ways, and the folder above it goes with its last file."""
    place = root / path
    kinds = ["edit", "remove"] if place.name.startswith(".git") else KINDS  # else git complains, which is another way
    match chance.choice(kinds):
        case "edit":
            place.write_text((place.read_text(errors="replace") if place.is_file() else "") + "more\n")
        case "crlf":
            place.write_bytes(b"one\r\ntwo\n")
        case "mode" if place.is_file():
            place.chmod(0o755)
        case "link":
            place.unlink(missing_ok=True)
            place.symlink_to("../elsewhere")
        case "move" if place.is_file():
            target = root / f"moved/{chance.randrange(3)}/{place.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            place.rename(target)
        case "binary":
            place.write_bytes(bytes(range(256)))
        case "remove":
            place.unlink(missing_ok=True)
        case _:
            return
    while place != root and not any(place.parent.iterdir()):
        place = place.parent
        place.rmdir()


def touched_between(before, after):
    written = {path for path in before if after.get(path) != before[path]}
    return Touched(tracked=sorted(map(os.fsencode, written)), new=sorted(map(os.fsencode, after.keys() - before)))


async def both(work, touched, allowed=None):
    asked = {"git_dir": work.mirror.git_dir, "base": work.base, "work_tree": work.tree, "allowed": allowed}
    whole = await extract_patch(**asked, index_seed=work.seed)
    return whole, await extract_patch(**asked, index_seed=work.seed, touched=touched)


@pytest.fixture
def no_index(monkeypatch):
    """Nobody takes another way in silence."""

    async def refuse(*_):
        raise AssertionError("the whole index was wanted")

    monkeypatch.setattr(patch, "_take_touched", refuse)


@pytest.mark.usefixtures("no_index")
@pytest.mark.parametrize("seed", range(8))
async def test_any_change_is_the_same_patch(work_on, seed):
    work = await work_on(FILES, link="top.txt")
    before, chance = all_files(work.tree), random.Random(seed)
    for path in chance.sample([*sorted(before), *NEW], 9):
        (work.tree / path).parent.mkdir(parents=True, exist_ok=True)
        change(work.tree, path, chance)
    touched = touched_between(before, all_files(work.tree))

    whole, along_paths = await both(work, touched)
    barred, barred_along = await both(work, touched, lambda path: path.startswith("a"))
    assert along_paths == replace(whole, warnings=along_paths.warnings)
    assert barred_along == replace(barred, warnings=barred_along.warnings)
    assert await apply_to_tree(work.mirror.git_dir, work.base, along_paths.diff) == along_paths.tree


@pytest.mark.usefixtures("no_index")
async def test_everything_may_go(work_on):
    work = await work_on({"a/b": "1\n", "c": "2\n"})
    shutil.rmtree(work.tree / "a")
    (work.tree / "c").unlink()
    whole, along_paths = await both(work, Touched(tracked=[b"a/b", b"c"], new=[]))
    assert along_paths == whole and [change.status for change in whole.files] == ["D", "D"]


@pytest.mark.parametrize(
    ("kind", "touched"),
    [
        ("a file where a folder was", Touched(tracked=[b"a/b", b"a/c"], new=[b"a"])),
        ("a folder where a file was", Touched(tracked=[b"f"], new=[b"f/g"])),
        ("a line's end in a folder's name", Touched(tracked=[], new=[b"n\nn/x"])),
    ],
)
async def test_what_is_not_plain_is_looked_at_as_a_whole(work_on, monkeypatch, kind, touched):
    work = await work_on({"a/b": "1\n", "a/c": "1\n", "f": "2\n"})
    told = []
    ask = along.tree_along

    async def seen(*asked):
        told.append(await ask(*asked))
        return told[-1]

    monkeypatch.setattr(patch, "tree_along", seen)
    for path in touched.tracked:
        (work.tree / os.fsdecode(path)).unlink()
    if kind.startswith("a file"):
        (work.tree / "a").rmdir()
    for path in touched.new:
        (work.tree / os.fsdecode(path)).parent.mkdir(exist_ok=True)
        (work.tree / os.fsdecode(path)).write_text("new\n")

    whole, other = await both(work, touched)

    assert told == [None] and other == whole and not whole.empty
