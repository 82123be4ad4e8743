"""How fast patches come together, beside `git am` and a loop of `git apply` and `git commit` in a work tree.

    python -m benchmarks.merge [--quick] [--no-peers] [--json FILE]

All in one run on the same generated repository and patches: of texts, which git alone merges, and of Python, whose
merges are looked at. CPU is what git's processes and this one took together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from repo.changes import FileChange
from repo.merge import merge_patches
from repo.merge_sides import Changeset
from repo.mirror import Mirror
from repo.predict import predict

FILES, QUICK_FILES = 20_000, 1_000
PATCHES, QUICK_PATCHES = 200, 20
LINES = 60
TEXT, PYTHON = ".txt", ".py"
IDENTITY = {f"GIT_{who}_{what}": "bench@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

Row = dict[str, float]


class Stopwatch(AbstractContextManager["Stopwatch"]):
    """Wall time, and CPU of this process and of its children that have ended."""

    def __enter__(self) -> Stopwatch:
        self._wall, self._cpu = time.perf_counter(), _cpu_s()
        return self

    def __exit__(self, *_: object) -> None:
        self.row: Row = {
            "wall_s": round(time.perf_counter() - self._wall, 2),
            "cpu_s": round(_cpu_s() - self._cpu, 2),
        }


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C"} | IDENTITY
    command = ["git", "-C", str(folder), "-c", "gc.auto=0", *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, input=stdin).stdout


def make_repository(root: Path, files: int) -> str:
    """Half of the files are texts, half are Python: each line is a statement, or a function of its own."""
    for number in range(files):
        for suffix in (TEXT, PYTHON) if number < files // 2 else ():
            path = root / path_of(number, suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# file {number}\n" + "".join(line(suffix, at) for at in range(LINES)))
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "base")
    return git(root, "rev-parse", "HEAD").decode().strip()


def path_of(number: int, suffix: str) -> str:
    return f"p{number % 100}/f{number}{suffix}"


def line(suffix: str, number: int, value: str = "0") -> str:
    if suffix == PYTHON:
        return f"def line_{number}():\n    return {value!r}\n\n\n"
    return f"line {number} of {value}\n"


def make_patches(root: Path, base: str, edits: dict[str, dict[str, Callable[[str], str]]]) -> list[Changeset]:
    """One for each key: what it does to files."""
    made: list[Changeset] = []
    for key, edit in edits.items():
        for path, change in edit.items():
            (root / path).write_text(change((root / path).read_text()))
        diff = git(root, "diff", "-M", "--binary", "--full-index", base)
        files = tuple(FileChange(path, "M", None, 1, 1, "100644") for path in edit)
        made.append(Changeset(key, diff, f"Change {key}", files))
        git(root, "checkout", "--quiet", "--", ".")
    return made


def changed(suffix: str, number: int, value: str) -> Callable[[str], str]:
    return lambda text: text.replace(line(suffix, number), line(suffix, number, value))


def disjoint(count: int, suffix: str) -> dict[str, dict[str, Callable[[str], str]]]:
    return {f"k{n:04}": {path_of(n, suffix): changed(suffix, 7, "1")} for n in range(count)}


def overlapping(count: int, suffix: str) -> dict[str, dict[str, Callable[[str], str]]]:
    """All of them change one file beside their own, each in another place, or (one in ten) in the same."""
    shared = path_of(count, suffix)
    return {
        f"k{n:04}": {
            path_of(n, suffix): changed(suffix, 7, "1"),
            shared: changed(suffix, 0 if n % 10 == 0 else 3 * (n % 18) + 3, str(n)),
        }
        for n in range(count)
    }


def with_am(root: Path, base: str, patches: list[Changeset]) -> None:
    mails = b"".join(
        b"From %s Mon Sep 17 00:00:00 2001\nFrom: b <b@localhost>\nDate: Thu, 1 Jan 2026 00:00:00 +0000\n"
        b"Subject: [PATCH] %s\n\n---\n%s\n" % (base.encode(), patch.key.encode(), patch.diff)
        for patch in patches
    )
    git(root, "am", "--quiet", stdin=mails)


def with_apply(root: Path, base: str, patches: list[Changeset]) -> None:
    for patch in patches:
        git(root, "apply", "--index", "-", stdin=patch.diff)
        git(root, "commit", "--quiet", "-m", patch.title)


async def measured(work: Callable[[], Awaitable[object]]) -> Row:
    with Stopwatch() as watch:
        await work()
    return watch.row


async def bench(files: int, count: int, *, peers: bool) -> dict[str, Row]:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        root = Path(folder) / "repository"
        root.mkdir()
        base = make_repository(root, files)
        mirror = Mirror(root / ".git")
        rows: dict[str, Row] = {}
        apart: list[Changeset] = []
        for suffix in (PYTHON, TEXT):
            apart = make_patches(root, base, disjoint(count, suffix))
            close = make_patches(root, base, overlapping(count, suffix))
            rows |= {
                f"merge of {count} disjoint, {suffix}": await measured(partial(merge_patches, mirror, base, apart)),
                f"prediction for {count} disjoint, {suffix}": await measured(partial(predict, mirror, base, apart)),
                f"merge of {count} in one file, {suffix}": await measured(partial(merge_patches, mirror, base, close)),
                f"prediction for {count} in one file, {suffix}": await measured(partial(predict, mirror, base, close)),
            }
        for name, peer in (("git am", with_am), ("git apply, git commit", with_apply)) if peers else ():
            git(root, "reset", "--quiet", "--hard", base)
            with Stopwatch() as watch:
                peer(root, base, apart)
            rows[f"{name}: {count} disjoint, {TEXT}"] = watch.row
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small repository and a few patches")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    size = (QUICK_FILES, QUICK_PATCHES) if given.quick else (FILES, PATCHES)
    rows = asyncio.run(bench(*size, peers=not given.no_peers))
    for name, row in rows.items():
        print(f"{name:40} wall {row['wall_s']:6.2f} s   CPU {row['cpu_s']:6.2f} s")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
