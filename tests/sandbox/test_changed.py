"""A patch that looks at what the overlay wrote down says the same as one that looks at every file."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from repo.bundle import bundle
from repo.checkout import checkout, index_of
from repo.mirror import Mirror, mirror_of
from repo.patch import Patch, apply_to_tree, extract_patch
from repo.seed import seed_of
from sandbox import changed
from sandbox.changed import touched_paths

TREE = """
mkdir -p src/deep/er lib/one docs vendor
echo 1 > src/a.py; echo 2 > src/deep/b.py; echo 3 > src/deep/er/c.py; printf '#!/bin/sh\\n' > run.sh; chmod +x run.sh
for n in $(seq 20); do echo $n > lib/one/f$n; done; printf 'a\\nb\\n' > docs/t.txt; ln -s a.py src/link
printf '*.log\\nbuild/\\n!keep.log\\n' > .gitignore; printf 'x\\r\\n' > w.crlf
echo '*.crlf text eol=crlf' > .gitattributes
git init -q; git add -A; echo kept > kept.log; git add -f kept.log
git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,vendor/sub
git -c user.name=t -c user.email=t@localhost commit -qm first
"""

# What the overlay tells by itself.
PLAIN = {
    "nothing": "true",
    "touched alone": "touch src/a.py; chmod 700 src",
    "written": "echo 9 > src/a.py; echo 9 >> src/deep/er/c.py",
    "added": "mkdir -p new/est; echo 1 > new/est/x; echo 1 > src/new; : > empty",
    "removed": "rm src/a.py lib/one/f3",
    "a folder removed": "rm -r src/deep",
    "a folder made anew": "rm -r src/deep; mkdir src/deep; echo 7 > src/deep/b.py; echo 8 > src/deep/z",
    "a folder made anew, one below too": "rm -r src; mkdir -p src/deep; echo 7 > src/deep/b.py",
    "moved": "mv lib/one/f7 lib/moved; mv src/deep src/shallow",
    "modes": "chmod -x run.sh; chmod +x src/a.py",
    "links": "ln -sf deep/b.py src/link; ln -s /etc/passwd out; ln src/a.py src/twin",
    "a file for a link": "rm src/link; echo file > src/link",
    "a link for a file": "rm src/a.py; ln -s link src/a.py",
    "ignored": "mkdir build deeper; echo 1 > build/x.py; echo 1 > a.log; echo 1 > deeper/keep.log; echo 2 > kept.log",
    "rules that change": "echo '*.py' >> .gitignore; echo 1 > new.py; mkdir in; echo '*' > in/.gitignore",
    "attributes": "printf 'y\\r\\n' > w.crlf; printf 'z\\r\\n' > v.crlf; echo '*.py filter=evil' >> .gitattributes",
    "odd names": "echo 1 > \"$(printf 'a\\nb')\"; echo 1 > \"$(printf 'caf\\351')\"; echo 1 > ':(glob)*'; : > -x",
    "binary": "head -c 3000 /dev/urandom > src/a.py; printf '\\0' > zero",
    "its own git": "rm -rf .git/hooks; git status; echo 9 > src/a.py; git add -A; git commit -qm x",
    "a submodule's folder removed": "rmdir vendor/sub",
    "a submodule's parent removed": "rm -r vendor",
    "back again": "mv src/a.py x; mv x src/a.py; rm docs/t.txt; printf 'a\\nb\\n' > docs/t.txt",
}
# What it does not tell: somebody has to look.
ODD = {
    "a file for a folder": "rm -r src/deep; echo 1 > src/deep",
    "a folder for a file": "rm src/a.py; mkdir src/a.py; echo 1 > src/a.py/x",
    "a link for a folder": "rm -r src/deep; ln -s ../lib src/deep",
    "a repository inside": "git init -q nest; echo 1 > nest/x",
    "a git file inside": "mkdir nest; echo gitdir: /etc > nest/.git; echo 1 > nest/x",
    "a pipe": "mkfifo pipe; echo 1 > src/a.py",
    "too large": "truncate -s 65M large; echo 1 > src/a.py",
}
# It tells, and git has its doubts.
DOUBTED = {
    "a name that git refuses": "mkdir .GIT; echo 1 > .GIT/x; echo 1 > src/a.py",
    "a file in a submodule": "echo 1 > vendor/sub/x; echo 2 > src/a.py",
}


class Overlay:
    """A work tree over a checkout, as a sandbox has it."""

    def __init__(self, mirror: Mirror, lower: Path, folder: Path) -> None:
        self.mirror, self.lower = mirror, lower
        self.upper, self.work, self.merged = folder / "upper", folder / "work", folder / "merged"
        for part in (self.upper, self.work, self.merged):
            part.mkdir()
        layers = f"nosuid,nodev,lowerdir={lower},upperdir={self.upper},workdir={self.work}"
        subprocess.check_call(["mount", "-t", "overlay", "overlay", "-o", layers, self.merged])

    def change(self, line: str) -> None:
        said = subprocess.run(["/bin/sh", "-c", f"set -e; {line}"], cwd=self.merged, env=ENV, capture_output=True)
        assert said.returncode == 0, said.stderr

    async def patch(self, *, quick: bool) -> Patch:
        touched = touched_paths(self.upper, self.lower) if quick else None
        assert touched is not None or not quick
        return await self.whole_patch(touched=touched)

    async def whole_patch(self, **options: object) -> Patch:
        commit, seed = self.lower.name, index_of(self.lower)
        return await extract_patch(
            git_dir=self.mirror.git_dir,
            base=commit,
            work_tree=self.merged,
            index_seed=seed,
            **options,  # pyright: ignore[reportArgumentType]
        )


IDENTITY = {f"GIT_{who}_{what}": "t@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mirror, Path]:
    folder = tmp_path_factory.mktemp("project")
    root = folder / "root"
    root.mkdir()
    subprocess.run(["/bin/sh", "-ec", TREE], cwd=root, env=ENV, check=True, stdout=subprocess.DEVNULL)
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=root, text=True).strip()
    return asyncio.run(_checked_out(root, commit, folder))


async def _checked_out(root: Path, commit: str, folder: Path) -> tuple[Mirror, Path]:
    await bundle(root, commit, folder / "bundle")
    mirror = await mirror_of(folder / "cache", bundle=folder / "bundle", commit=commit)
    return mirror, await checkout(mirror, commit, folder / "cache")


@pytest.fixture
def overlay(project: tuple[Mirror, Path], tmp_path: Path) -> Iterator[Overlay]:
    made = Overlay(*project, tmp_path)
    yield made
    subprocess.check_call(["umount", made.merged])


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in (PLAIN | DOUBTED).items()])
async def test_the_quick_patch_is_the_whole_one(overlay: Overlay, line: str):
    overlay.change(line)

    assert await overlay.patch(quick=True) == await overlay.patch(quick=False)


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in ODD.items()])
async def test_nothing_is_said_of_what_only_a_look_can_tell(overlay: Overlay, line: str):
    overlay.change(line)

    assert touched_paths(overlay.upper, overlay.lower) is None


@pytest.mark.parametrize("seed", range(3))
async def test_they_agree_on_what_nobody_thought_of(overlay: Overlay, seed: int):
    lines, chance = sorted((PLAIN | DOUBTED).values()), random.Random(seed)
    told = 0
    for _ in range(5):
        for line in chance.sample(lines, 2):
            # some fail: what came before may have taken away what they are about
            subprocess.run(["/bin/sh", "-c", line], cwd=overlay.merged, env=ENV, capture_output=True)
        touched = touched_paths(overlay.upper, overlay.lower)
        told += touched is not None
        assert await overlay.whole_patch(touched=touched) == await overlay.patch(quick=False)
    assert told


# After a base of which a.py is another, x is new, b.py is moved, kept.log is gone.
ON_ANOTHER_BASE = {
    "nothing": "true",
    "written": "echo 9 > src/a.py; echo 9 > lib/one/f1",
    "what came is gone without a trace": "rm new/x",
    "what went is back, and ignored": "echo 9 > kept.log",
    "what went is back": "echo 2 > src/deep/b.py; rm src/deep/z.py",
    "what came is ignored": "echo new/ >> .gitignore; echo 9 > new/x; echo 9 > new/y",
    "all as it was": "git checkout -q -- .; git clean -qfd",
}


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in ON_ANOTHER_BASE.items()])
async def test_what_was_made_part_of_the_base_is_not_in_the_quick_patch_either(
    overlay: Overlay, line: str, tmp_path: Path
):
    overlay.change("echo 8 > src/a.py; mkdir new; echo 8 > new/x; git mv src/deep/b.py src/deep/z.py; rm kept.log")
    given = await overlay.whole_patch()
    commit, index = overlay.lower.name, index_of(overlay.lower)
    git_dir = overlay.mirror.git_dir
    base = await apply_to_tree(git_dir, commit, given.diff)
    seed = await seed_of(git_dir, base, checkout_base=commit, checkout_index=index, target=tmp_path / "index")
    overlay.change(line)

    touched = touched_paths(overlay.upper, overlay.lower)
    assert touched is not None
    options = {"git_dir": git_dir, "base": base, "work_tree": overlay.merged}
    quick = await extract_patch(**options, index_seed=seed.index, touched=seed.seen_from_base(touched))

    assert quick == await extract_patch(**options, index_seed=index)
    assert quick.empty == (line in {"true", "echo 9 > kept.log"})


async def test_a_folder_that_shows_another_is_not_believed(overlay: Overlay):
    overlay.change("mkdir shown")
    assert touched_paths(overlay.upper, overlay.lower) is not None

    os.setxattr(overlay.upper / "shown", "trusted.overlay.redirect", b"/src")

    assert touched_paths(overlay.upper, overlay.lower) is None


async def test_nothing_is_said_without_the_right_to_read_the_kernels_notes(overlay: Overlay, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setxattr", refuse)

    assert touched_paths(overlay.upper, overlay.lower) is None


async def test_nothing_is_said_of_what_is_deep_or_much(overlay: Overlay, monkeypatch):
    overlay.change("mkdir -p " + "/".join(["d"] * (changed.MAX_DEPTH - 1)))
    assert touched_paths(overlay.upper, overlay.lower) is not None
    overlay.change("mkdir -p " + "/".join(["d"] * changed.MAX_DEPTH))
    assert touched_paths(overlay.upper, overlay.lower) is None

    overlay.change("rm -r d lib")
    assert touched_paths(overlay.upper, overlay.lower) is not None
    monkeypatch.setattr(changed, "MAX_PATHS", 10)
    assert touched_paths(overlay.upper, overlay.lower) is None
