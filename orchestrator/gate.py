"""The gate: the project's own commands, run by the platform in a fresh sandbox, before a change and after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from envelope.events import GateVerdict
from envelope.ids import BlobRef, content_key
from envelope.messages import TaskResult, Workspace
from envelope.recipe import RecipeParams

from .driver import Driver, Work, completed
from .judgement import Judgement, Phase, Run, judge, read_run
from .submit import BUILD, RECIPE_SCOPE, VERIFY, task_request


@dataclass(frozen=True, slots=True)
class Proof:
    """The gate's runs, as far as there were any, and what they prove."""

    judgement: Judgement
    before: GateVerdict | None = None
    after: GateVerdict | None = None


NO_GATE = Proof(Judgement(False, "no gate is configured (muster init guesses one)"))


@dataclass(frozen=True, slots=True)
class Gate:
    """The commands of one driver's gate, on one repository. `key` names the repository where there are several."""

    driver: Driver
    commands: tuple[str, ...]
    workspace: Workspace
    min_tests: int
    key: str = ""

    def before(self) -> Work:
        """On the base. That a gate passes there holds for whoever asks; that it fails is looked at again."""
        key = content_key("gate", "before", *self._about(self.workspace))
        return self._work("before", self.workspace, key, _passed)

    def after(self, changes: BlobRef) -> Work:
        """On the base with the diff `changes`. Each driver proves its own: a verdict may have been bad luck."""
        workspace = self.workspace.model_copy(update={"changes": changes})
        key = content_key("gate", "after", self.driver.request.task_id, *self._about(workspace))
        return self._work("after", workspace, key, completed)

    async def read(self, phase: Phase, result: TaskResult) -> Run:
        """What a run of the gate saw, told to whoever watches; `TaskFailed` when it could not be run."""
        run = read_run(result)
        await self.driver.report(run.verdict(phase))
        return run

    async def prove(self, before: Run, *, changes: BlobRef | None, tree: str) -> Proof:
        """Run the gate on the base with `changes`, whose tree is `tree`, and judge. Without any the base is judged."""
        after = before
        if changes is not None:
            async with aclosing(self.driver.run([self.after(changes)])) as endings:
                async for ended in endings:
                    after = await self.read("after", ended.result)
        judgement = judge(before, after, tree=tree, min_tests=self.min_tests)
        self.driver.context.metrics.count_verdict(verified=judgement.verified)
        return Proof(judgement, before.verdict("before"), after.verdict("after"))

    def _about(self, workspace: Workspace) -> tuple[str, str]:
        return workspace.model_dump_json(), json.dumps(self.commands)

    def _work(self, phase: Phase, workspace: Workspace, key: str, reusable: Callable[[TaskResult], bool]) -> Work:
        request = task_request(
            parent=self.driver.request,
            agent=VERIFY,
            pool=BUILD,
            params=RecipeParams(commands=self.commands).model_dump(mode="json", exclude_unset=True),
            workspace=workspace,
            auth_scope=RECIPE_SCOPE,
            deadline_ms=self.driver.remaining_ms,
            idempotency_key=key,
            sender=self.driver.request.agent,
        )
        title = f"gate {phase} · {self.key}" if self.key else f"gate {phase}"
        return Work(f"{phase}:{self.key}", request, title, reusable)


def _passed(result: TaskResult) -> bool:
    return completed(result) and read_run(result).passed
