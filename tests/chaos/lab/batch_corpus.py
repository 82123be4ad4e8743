"""Generated repositories of three shards each, their batch file, and what must be the same of its outcome."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from orchestrator.batch.report import BatchReport

# One in five has a shard whose command fails, one in four shards that collide, one in three a gate that then fails.
BATCH = """
name = "kill"
repositories = [{{ list = "repositories.txt" }}]
shards = {{ glob = "src/*.txt", also_edit = ["NEWS"] }}
steps = [{{ recipe = ["sed -i s/old/new/ {{path}}", "sh fix.sh {{path}}"], timeout_s = {timeout_s} }}]
gate = {{ commands = ["sh check.sh"], min_tests = 0 }}
[limits]
shard_deadline_s = 7200
"""
FIX, CHECK = "true\n", "true\n"
IDENTITY = {f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
DATES = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}

Outcome = dict[str, Any]


def make_repositories(folder: Path, count: int) -> None:
    """With `repositories.txt`, which lists them."""
    names = [f"r{number:03}" for number in range(count)]
    for number, name in enumerate(names):
        _make_repository(folder / name, number)
    (folder / "repositories.txt").write_text("\n".join(names))


def batch_file(folder: Path, name: str, *, timeout_s: int = 600) -> Path:
    """Beside the list. With another `timeout_s` the same work is done anew, also by a fleet that has done it."""
    path = folder / name
    path.write_text(BATCH.format(timeout_s=timeout_s))
    return path


def outcome(found: BatchReport) -> Outcome:
    """What must be the same, whoever was killed: no task's id, no cost, no time."""
    return {
        one.name: (
            one.commit, one.verified, one.reason, [(shard.key, shard.outcome, shard.code) for shard in one.shards],
            [(collision.key, collision.with_keys, collision.paths) for collision in one.collisions],
        )
        for one in found.repositories
    }  # fmt: skip


def _make_repository(root: Path, number: int) -> None:
    files = {f"src/{name}.txt": f"old {name} {number}\n" for name in "abc"}
    files |= {"NEWS": "nothing\n", "fix.sh": FIX, "check.sh": CHECK}
    if number % 5 == 1:
        files["fix.sh"] = 'test "$1" != src/b.txt\n'
    if number % 4 == 2:
        files["fix.sh"] = 'echo "$1" > NEWS\n'
    if number % 3 == 0:
        files["check.sh"] = "! grep -q new src/a.txt\n"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "LC_ALL": "C"} | IDENTITY | DATES
    for words in (["init", "-q", "-b", "main"], ["add", "--all"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(root), *words], check=True, env=environment)
