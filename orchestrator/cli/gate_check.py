"""A gate tried out: the project's commands on its last commit, in a sandbox like the one that will judge changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envelope.errors import ExitCode
from envelope.recipe import RecipeParams
from repo.local import LocalRepository

from ..gating.text import verdict_text
from ..judgement import read_run
from ..settings import Settings
from ..submit import BUILD, RECIPE_SCOPE, VERIFY, task_request
from .console import note, warn
from .fleet import open_fleet


async def check_gate(
    settings: Settings, local: LocalRepository, *, setup: Sequence[str], gate: Sequence[str]
) -> ExitCode:
    """0 where the gate passes and its tests can be counted: then it can prove something."""
    if local.dirty:
        note(f"{local.root} has changes that are not committed: the last commit is tried")
    asked: dict[str, Any] = {"commands": gate, **({"repeats_setup": True} if setup else {})}
    async with open_fleet(settings) as muster:
        note("running the gate in a sandbox …")
        request = task_request(
            agent=VERIFY,
            pool=BUILD,
            intent="muster init --check",
            params=RecipeParams(**asked).model_dump(mode="json", exclude_unset=True),
            workspace=await muster.pack(local.place, commit=local.head, setup=setup),
            auth_scope=RECIPE_SCOPE,
            deadline_ms=settings.deadline_ms,
            tenant=settings.tenant,
            sender="cli",
        )
        [result] = await muster.gather([await muster.submit(request)])
    run = read_run(result)
    note(f"gate: {verdict_text(run.verdict('before'))}")
    logs = f"all that it said: muster task logs {result.task_id}"
    if obstacle := run.obstacle(1):
        warn(f"the gate cannot run on the last commit: {obstacle.message}", f"{obstacle.hint}; {logs}")
        return ExitCode.NOT_ACCEPTABLE
    if not run.passed:
        warn("the gate fails on the last commit; what fails there by name is excused after a change", logs)
        return ExitCode.NOT_ACCEPTABLE
    return ExitCode.OK
