"""What holds for whatever patches come together: all kinds of change, generated, each with a token of its own.

A few examples, always the same ones; with MUSTER_CHAOS=soak many, and new ones each time.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repo.fast_import import Entry, NewCommit, make_commits
from repo.footprint import overlaps
from repo.merge import Merged, merge_patches
from repo.merge_sides import Changeset, Side
from repo.mirror import Mirror
from repo.patch import patch_between
from repo.predict import predict
from repo.scratch import scratch

SOAK = os.environ.get("MUSTER_CHAOS") == "soak"
DATE = "1767225600 +0000"
FILE, EXECUTABLE, LINK, SUBMODULE, GONE = "100644", "100755", "120000", "160000", "000000"
SUBMODULES = ("1" * 40, "2" * 40, "3" * 40)

LINES = [f"line {number}\n" for number in range(12)]
MODULE = """import os


def first():
    return os.sep


class Box:
    def get(self):
        return 1
"""
# path → its head, and what another import and another function look like there
BRACES = {
    "module.ts": ('import os from "os";\n', 'import {{ {} }} from "m";\n', "export function {}(): T {{\n  f();\n}}\n"),
    "module.go": ('package p\n\nimport "os"\n', 'import "{}"\n', "func {}() int {{\n\treturn 1\n}}\n"),
    "module.java": ("import a.Os;\n", "import a.{};\n", "class {} {{\n  int one;\n}}\n"),
    "module.rs": ("use std::io;\n", "use a::{};\n", "fn {}() -> u8 {{\n    1\n}}\n"),
}  # fmt: skip


def braces(path: str, *, imports: tuple[str, ...] = (), functions: tuple[str, ...] = (), word: str = "first") -> bytes:
    head, an_import, function = BRACES[path]
    more = "".join(an_import.format(name) for name in imports)
    return (head + more + "\n" + "\n".join(function.format(name) for name in (word, *functions))).encode()


BASE: dict[str, tuple[str, bytes]] = {
    **{path: (FILE, braces(path)) for path in BRACES},
    **{f"own/{number}.txt": (FILE, b"own\n") for number in range(8)},
    "shared.txt": (FILE, "".join(LINES).encode()),
    "module.py": (FILE, MODULE.encode()),
    "windows.txt": (FILE, "".join(LINES).replace("\n", "\r\n").encode()),
    "moved.txt": (FILE, b"to be moved\n" * 20),
    "picture.bin": (FILE, bytes(range(256)) * 4),
    "run.sh": (FILE, b"exit 0\n"),
    "link": (LINK, b"shared.txt"),
    "submodule": (SUBMODULE, SUBMODULES[0].encode()),
}

Change = dict[str, tuple[str, bytes]]  # what a path becomes


@dataclass(frozen=True)
class Patch:
    key: str
    token: str
    change: Change


def _line(path: str, at: int, token: str, end: str = "\n") -> Change:
    lines = [line.replace("\n", end) for line in LINES]
    lines[at] = f"{token}{end}"
    return {path: (FILE, "".join(lines).encode())}


def _module(old: str, new: str) -> Change:
    assert old in MODULE
    return {"module.py": (FILE, MODULE.replace(old, new).encode())}


def _braces(at: int, token: str) -> Change:
    """One of the files, and one of what may happen to it."""
    path = list(BRACES)[at % 4]
    return {
        path: (
            FILE,
            [braces(path, imports=(token,)), braces(path, functions=(token,)), braces(path, word=token)][at // 4],
        )
    }


def change_of(kind: str, at: int, token: str) -> Change:
    return {
        "own file": lambda: {f"own/{at % 8}.txt": (FILE, f"{token}\n".encode())},
        "new file": lambda: {f"new/{at % 3}.txt": (FILE, f"{token}\n".encode())},
        "folder where a file may be": lambda: {f"new/{at % 3}.txt/deep.txt": (FILE, f"{token}\n".encode())},
        "line": lambda: _line("shared.txt", at, token),
        "CRLF line": lambda: _line("windows.txt", at, token, "\r\n"),
        "same function": lambda: _module("return os.sep", f"return os.sep  # {token}"),
        "new function": lambda: {"module.py": (FILE, f"{MODULE}\n\ndef {token}():\n    return 1\n".encode())},
        "new method": lambda: {"module.py": (FILE, f"{MODULE}\n    def {token}(self):\n        return 1\n".encode())},
        "import": lambda: _module("import os\n", f"import os\nimport {token}\n"),
        "braces": lambda: _braces(at, token),
        "rename": lambda: {"moved.txt": (GONE, b""), f"moved/{token}.txt": BASE["moved.txt"]},
        "edit of what is moved": lambda: {"moved.txt": (FILE, b"to be moved\n" * 20 + f"{token}\n".encode())},
        "delete": lambda: {"moved.txt": (GONE, b""), f"notes/{token}.txt": (FILE, f"{token}\n".encode())},
        "binary": lambda: {"picture.bin": (FILE, bytes(range(256)) * 3 + token.encode())},
        "mode": lambda: {"run.sh": (EXECUTABLE, b"exit 0\n"), f"notes/{token}.txt": (FILE, f"{token}\n".encode())},
        "edit of the script": lambda: {"run.sh": (FILE, f"exit 0 # {token}\n".encode())},
        "link": lambda: {"link": (LINK, f"to/{token}".encode())},
        "file for the link": lambda: {"link": (FILE, f"{token}\n".encode())},
        "submodule": lambda: {
            "submodule": (SUBMODULE, SUBMODULES[1 + at % 2].encode()),
            f"notes/{token}.txt": (FILE, f"{token}\n".encode()),
        },
    }[kind]()


KINDS = (
    *("own file", "new file", "folder where a file may be", "line", "CRLF line", "same function", "new function"),
    *("new method", "import", "rename", "edit of what is moved", "delete", "binary", "mode", "edit of the script"),
    *("link", "file for the link", "submodule", "braces", "braces"),
)


@st.composite
def patch_sets(draw: st.DrawFn) -> list[Patch]:
    kinds = draw(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 11)), min_size=2, max_size=7))
    return [
        Patch(f"k{number}", f"token_{number}_", change_of(kind, at, f"token_{number}_"))
        for number, (kind, at) in enumerate(kinds)
    ]


@dataclass(frozen=True)
class Ground:
    mirror: Mirror
    base: str
    known: dict[bytes, str] = field(default_factory=dict)  # blobs

    async def commit(self, parent: str, change: Change) -> str:
        entries = [Entry(path.encode(), mode, self.blob(mode, content)) for path, (mode, content) in change.items()]
        with scratch(write_to=self.mirror.objects) as own:
            [made] = await make_commits(own, parent, [NewCommit(b"x\n", tuple(entries))], date=DATE, line=True)
        return made

    def blob(self, mode: str, content: bytes) -> str:
        if mode in (GONE, SUBMODULE):
            return content.decode() or "0" * 40
        if content not in self.known:
            self.known[content] = (
                git(self.mirror.git_dir, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
            )
        return self.known[content]

    async def changeset(self, patch: Patch) -> Changeset:
        found = await patch_between(self.mirror, self.base, await self.commit(self.base, patch.change))
        return Changeset(patch.key, found.diff, patch.key, found.files)

    def tree(self, commit: str) -> str:
        return git(self.mirror.git_dir, "rev-parse", f"{commit}^{{tree}}").decode().strip()

    def entries(self, commit: str) -> dict[bytes, bytes]:
        listed = git(self.mirror.git_dir, "ls-tree", "-r", "-z", commit).split(b"\0")[:-1]
        return {path: about for about, _, path in (entry.partition(b"\t") for entry in listed)}

    def content(self, commit: str) -> bytes:
        """Names and contents of all files."""
        entries = self.entries(commit)
        ids = [about.split()[2] for about in entries.values() if not about.startswith(SUBMODULE.encode())]
        blobs = git(self.mirror.git_dir, "cat-file", "--batch", stdin=b"".join(one + b"\n" for one in ids))
        return b"\n".join(entries) + blobs


def git(git_dir: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["git", "--git-dir", str(git_dir), *arguments]
    return subprocess.run(command, check=True, capture_output=True, input=stdin).stdout


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    git_dir = tmp_path_factory.mktemp("ground") / "mirror.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(git_dir)], check=True)
    empty = git(git_dir, "hash-object", "-t", "tree", "-w", "--stdin").decode().strip()
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    root = subprocess.run(
        ["git", "--git-dir", git_dir, *identity, "commit-tree", empty, "-m", "root"], check=True, capture_output=True
    )
    bare = Ground(Mirror(git_dir), root.stdout.decode().strip())
    return replace(bare, base=asyncio.run(bare.commit(bare.base, BASE)))


generated = settings(
    max_examples=int(os.environ.get("MUSTER_MERGE_EXAMPLES", "1000")) if SOAK else 5,
    deadline=None,
    derandomize=not SOAK,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@generated
@given(patches=patch_sets(), data=st.data())
def test_every_patch_lands_whole_or_is_kept_whole(ground: Ground, patches: list[Patch], data: st.DataObject):
    asyncio.run(check_nothing_is_lost(ground, data.draw(st.permutations(patches))))


def keys_of(merged: Merged) -> list[str]:
    return [one.key for one in merged.landed]


async def check_nothing_is_lost(ground: Ground, patches: list[Patch]) -> None:
    changesets = [await ground.changeset(patch) for patch in patches]
    forecast = await predict(ground.mirror, ground.base, changesets)
    merged = await merge_patches(ground.mirror, ground.base, changesets, sides=forecast.sides)

    collided = [collision.key for collision in merged.collisions]
    assert sorted([*keys_of(merged), *collided]) == sorted(patch.key for patch in patches)
    content = ground.content(merged.commit)
    landed = {patch.key for patch in patches if patch.token.encode() in content}
    assert landed == set(keys_of(merged))
    for changeset in changesets:
        side = forecast.sides.of[changeset.key]
        assert isinstance(side, Side)
        kept = await patch_between(ground.mirror, ground.base, side.commit)
        assert kept.diff == changeset.diff
    for collision in merged.collisions:
        assert collision.other_keys and set(collision.other_keys) <= set(keys_of(merged))
        assert collision.paths and collision.detail


@generated
@given(patches=patch_sets(), data=st.data())
def test_patches_that_share_no_path_all_land_and_in_any_order(
    ground: Ground, patches: list[Patch], data: st.DataObject
):
    asyncio.run(check_disjoint(ground, patches, data))


async def check_disjoint(ground: Ground, patches: list[Patch], data: st.DataObject) -> None:
    changesets = [await ground.changeset(patch) for patch in patches]
    meeting = {key for overlap in overlaps(changesets) for key in (overlap.first, overlap.second)}
    apart = [changeset for changeset in changesets if changeset.key not in meeting]

    merged = await merge_patches(ground.mirror, ground.base, apart)
    shuffled = await merge_patches(ground.mirror, ground.base, data.draw(st.permutations(apart)))

    assert merged.collisions == () and len(keys_of(merged)) == len(apart)
    assert ground.tree(merged.commit) == ground.tree(shuffled.commit)
    expected = ground.entries(ground.base)
    for patch in patches:
        if patch.key in keys_of(merged):
            for path, (mode, content) in patch.change.items():
                expected.pop(path.encode(), None)
                if mode != GONE:
                    kind = "commit" if mode == SUBMODULE else "blob"
                    expected[path.encode()] = f"{mode} {kind} {ground.blob(mode, content)}".encode()
    assert ground.entries(merged.commit) == expected
