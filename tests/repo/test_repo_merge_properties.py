"""What holds for whatever patches come together: all kinds of change, generated, each with a token of its own.

A few examples, always the same ones; with MUSTER_CHAOS=soak many, and new ones each time, in parts: each has a time
limit of its own, and one sees where it stands.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab.figures import report

from repo.fast_import import Entry, NewCommit, make_commits
from repo.footprint import overlaps
from repo.merge import Collision, Merged, merge_patches
from repo.merge_sides import Changeset, Side, Sides, sides_of
from repo.merge_tree import merge_trees
from repo.mirror import Mirror
from repo.patch import Patch as PatchOf
from repo.patch import patch_between
from repo.predict import predict
from repo.scratch import scratch

from .merge_pairs import Tree, pairs

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

MODULES = (b"module.py", b"module.ts", b"module.go", b"module.java", b"module.rs")
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
    compared: dict[tuple[str, str], PatchOf] = field(default_factory=dict)
    committed: dict[tuple[str, str], str] = field(default_factory=dict)

    async def commit(self, parent: str, change: Change) -> str:
        """Each once: most of the time of a long run would go into making the same ones again."""
        at = parent, repr(change)
        if at not in self.committed:
            self.committed[at] = await self._commit(parent, change)
        return self.committed[at]

    async def between(self, base: str, commit: str) -> PatchOf:
        """A commit is what it is: it is compared once."""
        at = base, commit
        if at not in self.compared:
            self.compared[at] = await patch_between(self.mirror, base, commit)
        return self.compared[at]

    async def _commit(self, parent: str, change: Change) -> str:
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

    async def on(self, base: Tree, *sides: Tree) -> tuple[Ground, list[Changeset]]:
        """Another base, and changes of it."""
        empty = git(self.mirror.git_dir, "rev-list", "--max-parents=0", self.base).decode().strip()
        based = replace(
            self, base=await self.commit(empty, {path: (FILE, text.encode()) for path, text in base.items()})
        )
        made: list[Changeset] = []
        for number, side in enumerate(sides):
            change: Change = {path: (GONE, b"") for path in base if path not in side}
            change |= {path: (FILE, text.encode()) for path, text in side.items() if base.get(path) != text}
            made.append(await based.changeset(Patch(f"k{number}", "", change)))
        return based, made

    def texts(self, tree: str) -> dict[bytes, str]:
        ids = {path: about.split()[2] for path, about in self.entries(tree).items()}
        told = git(self.mirror.git_dir, "cat-file", "--batch", stdin=b"".join(one + b"\n" for one in ids.values()))
        texts: dict[bytes, str] = {}
        for path in ids:  # a line with the length, then so many bytes, and a line's end
            head, _, told = told.partition(b"\n")
            length = int(head.split()[2])
            texts[path], told = told[:length].decode(), told[length + 1 :]
        return texts

    def lines(self, commit: str) -> list[str]:
        shown = (git(self.mirror.git_dir, "cat-file", "blob", f"{commit}:{path.decode()}").decode() for path in MODULES)
        return [line for text in shown for line in text.splitlines()]

    async def changeset(self, patch: Patch) -> Changeset:
        found = await self.between(self.base, await self.commit(self.base, patch.change))
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


# A part takes two or three minutes; on a machine that is busy with other things, ten times that.
EXAMPLES, PARTS = int(os.environ.get("MUSTER_MERGE_EXAMPLES", "1000")), 10 if SOAK else 1
in_parts = pytest.mark.parametrize("part", range(PARTS))
pytestmark = pytest.mark.timeout(3600)
generated = settings(
    max_examples=max(1, EXAMPLES // PARTS) if SOAK else 5,
    deadline=None,
    derandomize=not SOAK,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@in_parts
@generated
@given(patches=patch_sets(), data=st.data())
def test_every_patch_lands_whole_or_is_kept_whole(ground: Ground, part: int, patches: list[Patch], data: st.DataObject):
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
        kept = await ground.between(ground.base, side.commit)
        assert kept.diff == changeset.diff
    for collision in merged.collisions:
        assert collision.other_keys and set(collision.other_keys) <= set(keys_of(merged))
        assert collision.paths and collision.detail


@in_parts
@generated
@given(patches=patch_sets(), data=st.data())
def test_patches_that_share_no_path_all_land_and_in_any_order(
    ground: Ground, part: int, patches: list[Patch], data: st.DataObject
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


TREES = [pair for pair in pairs() if not pair.language]
OF_ONE_FILE = [pair for pair in pairs() if pair.language]
SAMPLE = [*TREES, *OF_ONE_FILE] if SOAK else [*TREES[::16], *OF_ONE_FILE[::400]]


@pytest.fixture(scope="module")
def counts() -> Iterator[Counter[tuple[str, str, str]]]:
    """What Muster and ort have made of pairs, each in both orders; told when all parts are through."""
    found = Counter[tuple[str, str, str]]()
    yield found
    for (who, kind, end), count in sorted(found.items()):
        report("merged pairs", by=who, wanted=kind, outcome=end, count=count)


@in_parts
async def test_pairs_come_to_what_is_written_down(ground: Ground, part: int, counts: Counter[tuple[str, str, str]]):
    """In both orders, whole repositories; the soak test does all of the table, and tells what ort makes of it."""
    wrong: list[str] = []
    for number, pair in enumerate(SAMPLE[part::PARTS]):
        based, sides = await ground.on(pair.base, pair.left, pair.right)
        orders = [sides, sides[::-1]] if SOAK or number % 2 else [sides]
        known = await sides_of(based.mirror, based.base, sides)
        wanted = None if pair.merged is None else {path.encode(): text for path, text in pair.merged.items()}
        kind = "must merge" if pair.must else "merge" if pair.merged else "collision"
        for order in orders:
            merged = await merge_patches(based.mirror, based.base, order, sides=known)
            found = None if merged.collisions else based.texts(merged.commit)
            if found != wanted or not all(map(names_both, merged.collisions, [order[0]])):
                wrong.append(f"{pair.name}\n{pair.why}\n{found}\n{merged.collisions}")
            counts["Muster", kind, "merged" if found is not None else "collision"] += 1
        counts["ort", kind, await by_ort(based, sides, wanted, known)] += len(orders)
    assert not wrong, "\n---\n".join(wrong)


def names_both(collision: Collision, other: Changeset) -> bool:
    return collision.other_keys == (other.key,) and bool(collision.paths) and bool(collision.detail)


async def by_ort(
    ground: Ground, order: list[Changeset], wanted: Mapping[bytes, str] | None, sides: Sides | None = None
) -> str:
    """What git alone makes of it."""
    sides = sides or await sides_of(ground.mirror, ground.base, order)
    commits = [side.commit for key in (one.key for one in order) if isinstance(side := sides.of[key], Side)]
    with scratch(write_to=ground.mirror.objects) as own:
        merged = await merge_trees(own, *commits)
    if not merged.clean:
        return "collision"
    return "merged" if wanted is None or ground.texts(merged.tree) == wanted else "merged otherwise"


async def test_of_many_files_that_may_let_down_others_the_same_are_looked_at_whoever_comes_first(ground: Ground):
    many = {f"m{number}.py": "def lost(a):\n    return a\n" for number in range(25)}
    base = many | {
        "k.py": "def gone():\n    return 1\n",
        "n.py": "".join(f"import m{number}\n" for number in range(25)),
        "z.py": "import k\n",
    }
    renamed = {path: text.replace("lost", "found") for path, text in many.items()}
    one = base | renamed | {"z.py": "import k\n\nprint(k.gone())\n"}
    another = base | {"k.py": "def here():\n    return 1\n", "n.py": base["n.py"] + "\nlost = 1\n"}
    based, sides = await ground.on(base, one, another)
    for order in (sides, sides[::-1]):
        merged = await merge_patches(based.mirror, based.base, order)
        assert [collision.paths for collision in merged.collisions] == [("k.py", "z.py")]


PIECES = {
    "module.py": (
        *("import {n}\n", "from m import {n}\n", "def {n}():\n    return 1\n", "{n} = '{t}'\n", "print({n})\n"),
        *("class {n}:\n    a = '{t}'\n", "try:\n    import {n}\nexcept ImportError:\n    pass\n", "del {n}\n"),
        *("{n}, other = 1, 2\n", "{n} += 1\n", "@app.get('{t}')\ndef {n}():\n    pass\n", "if {n}:\n    b = 1\n"),
        *("__all__ = ['{n}']\n", "def use_{t}():\n    return {n}()\n"),
    ),
    "module.ts": (
        *("import {{ {n} }} from 'm';\n", "export function {n}() {{\n  return '{t}';\n}}\n", "const {n} = '{t}';\n"),
        *("{n}();\n", "export {{ {n} }};\n", "class {n} {{\n  get a() {{\n    return '{t}';\n  }}\n}}\n"),
        "interface {n} {{\n  a: '{t}';\n}}\n",
    ),
    "module.go": (
        *('import "a/{n}"\n', "func {n}() {{\n}}\n", "var {n}, other = 1, f()\n", 'const {n} = "{t}"\n'),
        *("type {n} struct {{\n}}\n", "func (b *Box) {n}() {{\n}}\n"),
    ),
    "module.java": (
        *("import a.{n};\n", "class {n} {{\n  int {n};\n}}\n", "interface {n} {{\n  int {n}(int {t});\n}}\n"),
    ),
    "module.rs": (
        *("use a::{n};\n", "fn {n}() {{\n}}\n", "impl {n} {{\n    fn {t}() {{}}\n}}\n", "mod {n};\n"),
        "run!({n});\n",
    ),
}  # fmt: skip


@st.composite
def neighbours(draw: st.DrawFn, count: int) -> list[Patch]:
    """Changes of one file, most of them at one place, and with names that they share now and then."""
    path = draw(st.sampled_from(sorted(PIECES)))
    made: list[Patch] = []
    for number in range(count):
        text = BASE[path][1].decode()
        for _ in range(draw(st.integers(1, 2))):
            name, piece = draw(st.sampled_from(["aa", "bb", "cc", "dd", "Ee"])), draw(st.sampled_from(PIECES[path]))
            lines = text.splitlines(keepends=True)
            at = draw(st.sampled_from([len(lines), len(lines), min(2, len(lines))]))
            text = "".join([*lines[:at], "\n", piece.format(n=name, t=f"t{number}"), *lines[at:]])
        made.append(Patch(f"k{number}", f"t{number}", {path: (FILE, text.encode())}))
    return made


@in_parts
@settings(generated, max_examples=max(1, EXAMPLES // 10 // PARTS) if SOAK else 1)
@given(patches=neighbours(3))
def test_in_any_order_the_outcome_is_one_tree_or_a_collision_that_names_both_sides(
    ground: Ground, part: int, patches: list[Patch]
):
    asyncio.run(check_orders(ground, patches))


async def check_orders(ground: Ground, patches: list[Patch]) -> None:
    changesets = [await ground.changeset(patch) for patch in patches]
    sides = await sides_of(ground.mirror, ground.base, changesets)
    whole: set[str] = set()
    for order in permutations(changesets):
        merged = await merge_patches(ground.mirror, ground.base, order, sides=sides)
        for collision in merged.collisions:
            assert collision.other_keys and set(collision.other_keys) <= set(keys_of(merged)) and collision.detail
        if not merged.collisions:
            whole.add(ground.tree(merged.commit))
    assert len(whole) <= 1
    for pair in combinations(changesets, 2):  # each in both orders
        merged, turned = [
            await merge_patches(ground.mirror, ground.base, order, sides=sides) for order in (pair, pair[::-1])
        ]
        assert len(merged.collisions) == len(turned.collisions)
        assert merged.collisions or ground.tree(merged.commit) == ground.tree(turned.commit)
        await check_beside_ort(ground, list(pair), merged, sides)


async def check_beside_ort(ground: Ground, pair: list[Changeset], merged: Merged, sides: Sides) -> None:
    """Where git has a result, Muster has that or a collision; where only Muster has one, each line that one side alone
    wrote is in it as often as there, and nothing else."""
    commits = [side.commit for side in map(sides.of.get, [one.key for one in pair]) if isinstance(side, Side)]
    if len(commits) < 2 or merged.collisions:
        return
    with scratch(write_to=ground.mirror.objects) as own:
        alone = await merge_trees(own, *commits)
    if alone.clean:
        assert alone.tree == ground.tree(merged.commit)
        return
    base, *both = (Counter(ground.lines(commit)) for commit in (ground.base, *commits))
    found = Counter(ground.lines(merged.commit))
    for side, other in (both, both[::-1]):
        for line, count in (side - base).items():
            if line.strip() and line not in other and not line.lstrip().startswith(("from ", "import {", "__all__")):
                assert found[line] == count
    assert not {line for line in found - base if line not in both[0] and line not in both[1] and not is_list(line)}


def is_list(line: str) -> bool:
    """One that was written anew: names of both sides."""
    return line.startswith(("from ", "import {", "__all__", "export {", "use "))
