"""Conflicts that lines and functions do not settle, given to an agent; what it makes of them is checked, then proved.

Its task has a content key: who merges the same again meets the same resolution, and pays for none.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, field

from envelope.messages import TaskRequest, TaskResult, Workspace
from envelope.pattern import MAX_PATTERN_CHARS
from repo.errors import PatchRefused
from repo.merge import Collision, Merged
from repo.merge_resolve import Conflict, land_resolved, open_conflict
from repo.merge_sides import Side

from ..driver import Driver, Ended, Work, completed
from ..repositories import reference
from ..submit import BUILD, RECIPE_SCOPE, RepositoryInput, keyed, task_request
from .fund import Fund
from .merge import Material, Resolution
from .spec import BatchSpec
from .turns import Turn

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
    """Of one repository. Each of its tasks may spend what is left of the batch's money, for as long as it runs."""

    driver: Driver
    spec: BatchSpec
    given: RepositoryInput
    material: Material
    fund: Fund
    turn: Turn
    resolutions: dict[str, Resolution] = field(default_factory=dict[str, Resolution])
    _costs: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])  # task: its key and cost
    _answers: dict[str, Ended] = field(default_factory=dict[str, Ended])  # a conflict met again is not paid for again

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
        allowed = self.material.patches[collision.key].allowed
        try:
            conflict = await open_conflict(self.material.mirror, merged.commit, side.commit, allowed)
        except PatchRefused as e:
            return merged if str(e) == collision.detail else self._left(merged, collision, "", str(e))
        if conflict is None or not _can_be_asked(conflict):
            return self._left(merged, collision, "", NOTHING_TO_MARK)
        ended = await self._answer(collision, conflict)
        if ended is None:
            return self._left(merged, collision, "", "the batch's budget is spent")
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

    async def _answer(self, collision: Collision, conflict: Conflict) -> Ended | None:
        """None where there is no money to ask."""
        asked = await self._request(collision, conflict)
        known = self._answers.get(asked.idempotency_key)
        if known is not None:
            return known
        async with self.turn.away():
            ended = await self._paid_for(collision, asked)
        if ended is not None:
            self._answers[asked.idempotency_key] = ended
        return ended

    async def _paid_for(self, collision: Collision, asked: TaskRequest) -> Ended | None:
        # Of all repositories: what a task holds is found under its work's key.
        seat = f"resolve {self.given.name}:{collision.key}"
        cost_microusd = 0
        budget = await self.fund.take_spare(seat, asked.idempotency_key)
        try:
            if budget.max_cost_microusd == 0:
                return None
            work = Work(seat, asked.model_copy(update={"budget": budget}), f"resolve {collision.key}")
            async with aclosing(self.driver.run([work])) as endings:
                async for ended in endings:
                    cost_microusd = ended.cost_microusd
                    return ended
        finally:
            await self.fund.close(seat, spent_microusd=cost_microusd)
        raise AssertionError("`run` ends after every work has")

    async def _request(self, collision: Collision, conflict: Conflict) -> TaskRequest:
        """A root like a shard: its cap is that of a ledger of its own, and it is stopped with the batch."""
        given, request, rules = self.given, self.driver.request, self.spec.merge
        blobs = self.driver.transport.blobs
        shown = await reference(self.material.mirror, blobs, given.base, conflict.tree)
        prompt = self._prompt(collision, conflict)
        made = task_request(
            driver=request,
            agent=rules.agent,
            pool=BUILD,
            prompt=prompt,
            workspace=Workspace(
                bundle=given.bundle, base=given.base, changes=shown.diff, setup=self.spec.setup.commands
            ),
            auth_scope=(*RECIPE_SCOPE, *(f"edit:{path}" for path in conflict.paths)),
            deadline_ms=self.driver.remaining_ms,
            intent=f"resolve {given.name}:{collision.key}"[:200],
            model=request.model,
            sender=request.agent,
        )
        return keyed(made, "resolve", given.name)

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
