"""The gate: the project's own commands, run by the platform in a fresh sandbox, before a change and after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from typing import Any

from envelope.gate import GateObjection, GateRules
from envelope.ids import BlobRef
from envelope.messages import TaskResult, Workspace
from envelope.recipe import RecipeParams
from envelope.scope import Scope
from envelope.work import COMMIT
from repo.patch import patch_between

from .batch.retries import settled
from .driver import Driver, Work, completed
from .gating.run import Phase, Run
from .gating.text import listed
from .gating.trees import Trees
from .judgement import broken_base, read_run
from .submit import BUILD, RECIPE_SCOPE, VERIFY, keyed, task_request

AGAIN = "again"  # why a run was made that is not the first of its phase


@dataclass(frozen=True, slots=True)
class Gate:
    """The commands of one driver's gate, on one repository. `key` names the repository where there are several.

    `needs_base`: nothing is verified where the gate cannot run on the base; not so of tests that no agent can reach.

    `away`: entered while a run of it is waited for. `scope`: the grants that a person wrote down. Who may edit tests by
    name is not asked why they fail as they were. `onto`: the commit that counts as the base, where `workspace.changes`
    make it of the workspace's own.
    """

    driver: Driver
    commands: tuple[str, ...]
    workspace: Workspace
    min_tests: int
    key: str = ""
    rules: GateRules = field(default_factory=GateRules)
    scope: Scope = ()
    needs_base: bool = True
    away: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    onto: str = ""

    def before(self) -> Work:
        """On the base. That a gate passes there holds for whoever asks, of a commit; that it fails is looked at again,
        unless it excuses nothing."""
        reusable = completed if self.rules.known_failures == "reject" else _passed
        return self._work("before", self.workspace, self._own(self.workspace), reusable)

    def after(self, changes: BlobRef | None, about: str = "") -> Work:
        """On the base with the diff `changes`. Each driver proves its own: a verdict may have been bad luck."""
        workspace = self.workspace.model_copy(update={"changes": changes})
        return self._work("after", workspace, (self.driver.request.task_id, about), completed, about)

    def before_again(self) -> Work:
        """The base once more: what fails there twice may fail after a change."""
        return self._work("before", self.workspace, (self.driver.request.task_id, AGAIN), completed, AGAIN)

    def moved(self, phase: Phase, changes: BlobRef | None, about: str) -> Work:
        """With the clock moved forward: on the base, or with the diff `changes`."""
        workspace = self.workspace.model_copy(update={"changes": changes}) if changes else self.workspace
        own = (self.driver.request.task_id,) if changes else self._own(workspace)
        return self._work(phase, workspace, own, completed if changes else _passed, about, clock=self.rules.clock)

    async def read(self, phase: Phase, result: TaskResult, about: str = "") -> Run:
        """What a run of the gate saw, told to whoever watches; `TaskFailed` when it could not be run."""
        run = read_run(result)
        self.driver.context.metrics.count_gate(result)
        await self.driver.report(run.verdict(phase, about))
        return run

    async def run(self, phase: Phase, work: Work, about: str = "") -> Run:
        async with self.away():
            result = await self._result(work)
        return await self.read(phase, result, about)

    async def _result(self, work: Work) -> TaskResult:
        async with aclosing(settled(self.driver, [work])) as endings:
            [result] = [ended.result async for ended in endings]
        return result

    async def base(self) -> Run:
        """What the gate sees on the base; see `steady`. Before there is anything to merge: nobody is `away`."""
        return await self.steady(await self.read("before", await self._result(self.before())))

    async def steady(self, before: Run) -> Run:
        """Where the gate cannot run on the base, it may be bad luck: a second run counts, unless the first ran out of
        time."""
        if self.refusal(before) is None or any(step.timed_out for step in before.steps):
            return before
        return await self.read("before", await self._result(self.before_again()), AGAIN)

    def refusal(self, before: Run) -> GateObjection | None:
        """Why nobody is to work on this base, whose gate could prove nothing; None where it can, or may go unproved."""
        obstacle = before.obstacle(self.min_tests) if self.needs_base else None
        return broken_base(obstacle) if obstacle and self.rules.broken_base == "reject" else None

    async def trees(self, tree: str) -> Trees:
        bundle = self.workspace.bundle
        mirror = await self.driver.mirror(bundle, self.workspace.base) if bundle and tree else None
        return Trees(mirror, self.onto or self.workspace.base, tree)

    async def stored(self, diff: bytes, trees: Trees, tree: str) -> BlobRef:
        """A diff of what counts as the base, which makes `tree`, as one of the workspace's own, for `after`."""
        if self.onto and trees.mirror is not None:
            diff = (await patch_between(trees.mirror, self.workspace.base, tree)).diff
        return await self.driver.transport.blobs.put(diff)

    def setup_notes(self, after: Run) -> list[str]:
        """What of the setup is as on the base although the gate ran on a change."""
        notes: list[str] = []
        if self.workspace.setup and self.rules.setup == "once":
            notes.append(
                "what setup made is made of the base: the rule setup says that it takes nothing of the project"
            )
        if after.setup_read:
            names = listed(list(after.setup_read))
            notes.append(
                f"what setup installs is as the base has it: the change edits {names}, by which that is chosen"
            )
        return notes

    def _own(self, workspace: Workspace) -> tuple[str, ...]:
        """What tells a run on the base from that of another driver: a branch may have moved between them."""
        return () if COMMIT.fullmatch(workspace.base) else (self.driver.request.task_id,)

    def _asked(self, clock: str = "") -> RecipeParams:
        """Keys are left out where they can be: a worker of yesterday does not know them."""
        asked: dict[str, Any] = {"commands": self.commands}
        if self.rules.junit:
            asked["junit"] = self.rules.junit
        if self.rules.control == "off":
            asked["control"] = False
        if self.rules.timeout_s is not None:
            asked["timeout_s"] = self.rules.timeout_s
        if clock:
            asked["clock"] = clock
        if self.workspace.setup and self.rules.setup == "again":
            asked["repeats_setup"] = True
        return RecipeParams(**asked)

    def _work(
        self,
        phase: Phase,
        workspace: Workspace,
        own: tuple[str, ...],
        reusable: Callable[[TaskResult], bool],
        about: str = "",
        clock: str = "",
    ) -> Work:
        request = task_request(
            parent=self.driver.request,
            agent=VERIFY,
            pool=BUILD,
            params=self._asked(clock).model_dump(mode="json", exclude_unset=True),
            workspace=workspace,
            auth_scope=RECIPE_SCOPE,
            deadline_ms=self.driver.remaining_ms,
            sender=self.driver.request.agent,
        )
        title = " · ".join(filter(None, (f"gate {phase}", about, self.key)))
        return Work(f"{phase}:{self.key}", keyed(request, "gate", phase, *own), title, reusable)


def _passed(result: TaskResult) -> bool:
    return completed(result) and read_run(result).passed
