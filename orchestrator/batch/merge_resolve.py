"""Conflicts that lines and functions do not settle, given to an agent; what it makes of them is checked, then proved.

Its task has a content key: who merges the same again meets the same resolution, and pays for none.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, field

from envelope.budget import Budget
from envelope.ids import content_key
from envelope.messages import TaskResult, Workspace
from envelope.pattern import MAX_PATTERN_CHARS
from repo.errors import PatchRefused
from repo.merge import Collision, Merged
from repo.merge_resolve import Conflict, land_resolved, open_conflict
from repo.merge_sides import Side

from ..driver import Driver, Ended, Work, completed
from ..repositories import reference
from ..submit import BUILD, RECIPE_SCOPE, RepositoryInput, task_request
from .merge import Material, Resolution
from .spec import BatchSpec

MAX_PATHS = 20  # in conflict at once: more than that is a plan, not a conflict
PROMPT = """\
Two changes were made apart from each other and meet in the files below, where each conflict stands between markers: \
behind `<<<<<<<` what landed first, behind `|||||||` what both started from, behind `=======` the other change, up to \
`>>>>>>>`. Rewrite these places so that both changes do what they were meant to do, and no marker is left. Change \
nothing else. If the two contradict each other, leave the markers and say why: a person will decide.

Files: {paths}
What landed: {others}
The other change: {title}
"""
TESTS = "Afterwards these commands are run, and must pass: {commands}\n"
NOTHING_TO_MARK = "one side removed or renamed what the other changed, or it is no text"


@dataclass(slots=True)
class Resolver:
    """Of one repository. `left_microusd`: what its shards have not spent of their part; None: there is no limit."""

    driver: Driver
    spec: BatchSpec
    given: RepositoryInput
    material: Material
    left_microusd: int | None
    resolutions: dict[str, Resolution] = field(default_factory=dict[str, Resolution])
    _costs: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])  # task: its key and cost

    @property
    def spent_microusd(self) -> int:
        return sum(cost for _, cost in self._costs.values())

    async def merge(self, without: Collection[str]) -> Merged:
        merged = await self.material.merge(without=without)
        if self.spec.merge.resolve == "agent":
            for collision in merged.collisions:
                merged = await self._resolve(merged, collision)
        return merged

    async def _resolve(self, merged: Merged, collision: Collision) -> Merged:
        """Each on top of the one before."""
        side = self.material.forecast.sides.of[collision.key]
        if not isinstance(side, Side):
            return merged
        conflict = await open_conflict(self.material.mirror, merged.commit, side.commit)
        if conflict is None or not _can_be_asked(conflict):
            return self._left(merged, collision, "", NOTHING_TO_MARK)
        budget = self._budget()
        if budget.max_cost_microusd == 0:
            return self._left(merged, collision, "", "the batch's budget is spent")
        ended = await self._ask(collision, conflict, budget)
        result = ended.result
        self._costs[result.task_id] = (collision.key, ended.cost_microusd)
        try:
            diff = await self._diff(result)
            patch, date = self.material.patches[collision.key], self.material.forecast.sides.date
            resolved = await land_resolved(self.material.mirror, merged, patch, conflict, diff, date=date)
        except PatchRefused as e:
            return self._left(merged, collision, result.task_id, str(e))
        return self._left(resolved, collision, result.task_id, "")

    def _left(self, merged: Merged, collision: Collision, task_id: str, failure: str) -> Merged:
        cost_microusd = sum(cost for key, cost in self._costs.values() if key == collision.key)
        self.resolutions[collision.key] = Resolution(task_id, cost_microusd, failure)
        return merged

    def _budget(self) -> Budget:
        own = self.driver.request.budget
        if self.left_microusd is None:
            return own
        left_microusd = max(0, self.left_microusd - self.spent_microusd)
        return own.model_copy(update={"max_cost_microusd": left_microusd})

    async def _ask(self, collision: Collision, conflict: Conflict, budget: Budget) -> Ended:
        given, request, rules = self.given, self.driver.request, self.spec.merge
        blobs = self.driver.transport.blobs
        shown = await reference(self.material.mirror, blobs, given.base, conflict.tree)
        prompt = self._prompt(collision, conflict)
        child = task_request(
            parent=request,
            agent=rules.agent,
            pool=BUILD,
            prompt=prompt,
            workspace=Workspace(
                bundle=given.bundle, base=given.base, changes=shown.diff, setup=self.spec.setup.commands
            ),
            auth_scope=(*RECIPE_SCOPE, *(f"edit:{path}" for path in conflict.paths)),
            budget=budget,
            deadline_ms=self.driver.remaining_ms,
            intent=f"resolve {given.name}:{collision.key}"[:200],
            idempotency_key=content_key(
                "resolve", given.name, given.base, conflict.tree, rules.agent, request.model, prompt
            ),
            model=request.model,
            priority=request.priority,
            sender=request.agent,
        )
        work = Work(f"resolve:{collision.key}", child, f"resolve {collision.key}")
        async with aclosing(self.driver.run([work])) as endings:
            async for ended in endings:
                return ended
        raise AssertionError("`run` ends after every work has")

    def _prompt(self, collision: Collision, conflict: Conflict) -> str:
        patches = self.material.patches
        others = "; ".join(patches[key].title for key in collision.other_keys)
        asked = PROMPT.format(
            paths=", ".join(f"`{path}`" for path in conflict.paths),
            others=others,
            title=patches[collision.key].title,
        )
        commands = self.spec.gate.commands if self.spec.gate else ()
        return asked + (TESTS.format(commands=", ".join(f"`{command}`" for command in commands)) if commands else "")

    async def _diff(self, result: TaskResult) -> bytes:
        if not completed(result):
            raise PatchRefused(result.errors[0].message if result.errors else f"its task ended: {result.status}")
        if result.patch is None or not result.patch.files:
            raise PatchRefused("it changed nothing")
        return await self.driver.transport.blobs.get(result.patch.diff)


def _can_be_asked(conflict: Conflict) -> bool:
    longest = max(len(path) for path in conflict.paths) + len("edit:")
    return len(conflict.paths) <= MAX_PATHS and longest <= MAX_PATTERN_CHARS
