"""A change before a gate whose commands run as plain processes: what `orchestrator.trial` concludes of it."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from envelope.gate import GateEvidence, GateRules
from envelope.recipe import RecipeParams
from orchestrator.gate import Gate
from orchestrator.gating.run import Phase, Run
from orchestrator.trial import Trial
from repo.mirror import Mirror
from workers.recipes.commands import run_recipe

from .bare import BareSandbox

IDENTITY = {f"GIT_{who}_{what}": "t@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
Files = Mapping[str, str | None]  # path → text; None takes the file away, "-> calc" makes a link to calc


@dataclass
class Desk:
    """One base project, its repository, and what its gate said of it: each command and its rules once."""

    folder: Path
    python: Path
    files: Files
    scope: Sequence[str] = ("edit:**",)
    _numbers: Any = field(default_factory=itertools.count)
    _before: dict[str, Run] = field(default_factory=dict[str, Run])

    def __post_init__(self) -> None:
        self.repository = self.folder / "repository"
        self.repository.mkdir(parents=True)
        write(self.repository, self.files)
        self._git("init", "--quiet", "--initial-branch=main")
        self.base = self._commit()

    def _git(self, *words: str, given: bytes = b"") -> bytes:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **IDENTITY}
        command = ["git", "-C", str(self.repository), *words]
        return subprocess.run(command, env=env, input=given, check=True, capture_output=True).stdout

    def _commit(self) -> str:
        self._git("add", "--all", "--force")
        self._git("commit", "--quiet", "--allow-empty", "-m", "x")
        return self._git("rev-parse", "HEAD").decode().strip()

    async def run(self, params: RecipeParams, tree: str) -> Run:
        workspace = self.folder / f"run{next(self._numbers)}"
        workspace.mkdir()
        archive = self._git("archive", tree)
        subprocess.run(["tar", "-x", "-C", str(workspace)], input=archive, check=True)
        sandbox = BareSandbox(workspace, self.python)
        try:
            steps = await run_recipe(sandbox, params, lambda _: None, counts_tests=True, stops_at_failure=False)
        finally:
            sandbox.close()
            shutil.rmtree(workspace)
        return Run(steps=tuple(steps), tree=tree)

    async def judge(
        self, change: Files, command: str, *, rules: GateRules = GateRules(), scope: Sequence[str] | None = None
    ) -> GateEvidence:
        write(self.repository, change)
        changed = self._commit()
        diff = self._git("diff", "-p", "-M", "--binary", "--full-index", self.base, changed)
        tree = self._git("rev-parse", f"{changed}^{{tree}}").decode().strip()
        self._git("reset", "--quiet", "--hard", self.base)
        gate = LocalGate(self, command, rules, tuple(scope or self.scope), diff)
        trial = Trial(gate, await gate.before_run())
        await trial.judge_change("diff", tree)  # pyright: ignore[reportArgumentType]
        return trial.proof(()).evidence


def write(folder: Path, files: Files) -> None:
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.unlink(missing_ok=True)
            path.symlink_to(text.removeprefix("-> "))
        else:
            path.write_text(text)


class LocalGate(Gate):
    """The gate itself, but that its runs are made here at once and not by a fleet."""

    def __init__(self, desk: Desk, command: str, rules: GateRules, scope: tuple[str, ...], diff: bytes) -> None:
        blobs = _Blobs({"diff": diff})
        super().__init__(
            driver=SimpleNamespace(transport=SimpleNamespace(blobs=blobs), aside=asyncio.to_thread),  # pyright: ignore[reportArgumentType]
            commands=(command,), workspace=SimpleNamespace(subpath="", setup=()), min_tests=1, rules=rules, scope=scope,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
        object.__setattr__(self, "_desk", desk)
        object.__setattr__(self, "_blobs", blobs)

    __slots__ = ("_blobs", "_desk")

    async def before_run(self) -> Run:
        key = self._asked().model_dump_json()
        known = self._desk._before
        if key not in known:
            known[key] = await self._desk.run(self._asked(), self._desk.base)
        return known[key]

    def after(self, changes: Any, about: str = "") -> Any:
        return changes, ""

    def before_again(self) -> Any:
        return None, ""

    def moved(self, phase: Phase, changes: Any, about: str) -> Any:
        return changes, self.rules.clock

    async def run(self, phase: Phase, work: Any, about: str = "") -> Run:
        changes, clock = work
        tree = self._desk.base
        if changes is not None:
            self._desk._git("apply", "--index", "--binary", "-", given=await self._blobs.get(changes))
            tree = self._desk._git("write-tree").decode().strip()
            self._desk._git("reset", "--quiet", "--hard", self._desk.base)
        return await self._desk.run(self._asked(clock), tree)

    async def trees(self, tree: str) -> Any:
        from orchestrator.gating.change import Trees

        return Trees(Mirror(self._desk.repository / ".git"), self._desk.base, tree)


class _Blobs(dict[str, bytes]):
    async def get(self, key: str) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self[key]

    async def put(self, content: bytes) -> str:
        self[key := f"blob{len(self)}"] = content
        return key
