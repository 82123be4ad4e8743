"""The shards of one repository through their steps: each step goes on from what the ones before it have changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, PatchRef, TaskResult
from repo.errors import PatchRefused
from repo.mirror import Mirror
from repo.patch import apply_to_tree

from ..driver import Driver, Ended, Work, completed
from ..errors import TaskFailed
from ..gate import Gate
from ..gating.diff import parts_of
from ..gating.run import Run
from ..judgement import judge, read_run
from ..repositories import reference
from ..submit import RECIPE, VERIFY, RepositoryInput
from ..trial import Proof, accepts, refused
from ..uploads import Weighed
from .fund import Fund
from .refit import refuse_other_files
from .retries import is_short_of_money, is_worth_another_try, settled
from .shards import Shard
from .spec import BatchSpec
from .stages import Stage, stage_request, stages_of
from .step import When


@dataclass(frozen=True, slots=True)
class Line:
    """One shard, as far as it has come. `patch` is all that its steps have changed, those that failed left out."""

    shard: Shard
    ended: Ended | None = None
    patch: PatchRef | None = None

    @property
    def is_good(self) -> bool:
        return self.ended is None or completed(self.ended.result)

    @property
    def has_changed(self) -> bool:
        return self.patch is not None


# The gate's answer is asked for apart, where the rest says that it matters.
HOLDS: Mapping[When, Callable[[Line], bool]] = {
    When.ALWAYS: lambda line: line.is_good,
    When.CHANGED: lambda line: line.is_good and line.has_changed,
    When.UNCHANGED: lambda line: line.is_good and not line.has_changed,
    When.FAILED: lambda line: not line.is_good,
    When.GATE_FAILED: lambda line: line.is_good,
}


@dataclass(slots=True)
class Chains:
    """`before`: what the gate saw on the base, once that is known; `failure`: why it could not be run there; `refusal`:
    why nobody is to be paid for work on it, if an agent would have been."""

    driver: Driver
    spec: BatchSpec
    given: RepositoryInput
    mirror: Mirror
    fund: Fund
    gate: Gate | None
    before: Run | None = None
    failure: ErrorInfo | None = None
    refusal: Proof | None = None

    async def run(self, shards: Sequence[Shard]) -> dict[str, Ended]:
        """How each shard ended, by its key. With a `refusal` only those that no agent was to work on.

        Agents are paid, and begin when the gate is known to run on the base. Beside a recipe that comes first it runs
        at the same time.
        """
        lines = {seat_of(self.given, shard): Line(shard) for shard in shards}
        later = stages_of(self.spec.steps)
        if later[0].agent is None:
            first, *later = later
            await self._do(first, later, lines, list(lines), [self.gate.before()] if self.gate else [])
        await self._settle_base()
        while later:
            stage, *later = later
            if stage.agent and self.refusal is not None:
                break
            wanted = [seat for seat, line in lines.items() if HOLDS[stage.when](line)]
            if stage.when is When.GATE_FAILED:
                wanted = await self._failing(lines, wanted)
            for seat in lines.keys() - set(wanted):
                await self._close_if_done(seat, lines[seat], later)
            await self._do(stage, later, lines, wanted)
        return {line.shard.key: line.ended for line in lines.values() if line.ended is not None}

    async def _settle_base(self) -> None:
        gate = self.gate
        if gate is None or self.failure is not None:
            return
        try:
            self.before = await (gate.base() if self.before is None else gate.steady(self.before))
        except TaskFailed as e:
            self.failure = e.error
            return
        objection = gate.refusal(self.before)
        if objection is not None and any(step.agent is not None for step in self.spec.steps):
            self.refusal = refused(self.before, objection)

    async def _do(
        self,
        stage: Stage,
        later: Sequence[Stage],
        lines: dict[str, Line],
        seats: Sequence[str],
        beside: Sequence[Work] = (),
    ) -> None:
        works, weighed = list[Work](), Weighed()
        for seat in seats:
            works.append(self._work(stage, seat, lines[seat]))
            weighed.add_task(works[-1].request)  # as they are made: too many of large ones are not held, either
        async with aclosing(self._settled([*works, *beside], lines)) as endings:
            async for ended in endings:
                seat, line = ended.work.key, lines[ended.work.key]
                patch = ended.result.patch if completed(ended.result) else line.patch
                lines[seat] = replace(line, ended=ended, patch=patch)
                await self._close_if_done(seat, lines[seat], later)

    async def _close_if_done(self, seat: str, line: Line, later: Sequence[Stage]) -> None:
        if not any(HOLDS[stage.when](line) for stage in later):
            await self.fund.close(seat)

    def _work(self, stage: Stage, seat: str, line: Line) -> Work:
        driver, patch = self.driver, line.patch
        request = stage_request(
            stage,
            line.shard,
            self.spec,
            self.given,
            driver=driver.request,
            budget=self.fund.budget(seat) if stage.agent else Budget(),
            deadline_ms=min(driver.remaining_ms, self.spec.limits.shard_deadline_ms(driver.remaining_ms)),
            changes=patch.diff if patch else None,
        )
        return Work(seat, request, line.shard.key)

    async def _settled(self, works: Sequence[Work], lines: Mapping[str, Line]) -> AsyncGenerator[Ended]:
        """Each shard's work once, when its result can be built upon: what cannot is done again, as its class allows."""
        while works:
            again: list[Ended] = []
            short: list[Ended] = []
            async with aclosing(self.driver.run(works)) as endings:
                async for ended in endings:
                    if ended.work.request.agent == VERIFY:
                        if is_worth_another_try(ended):
                            again.append(ended)
                        else:
                            await self._read_base(ended.result)
                        continue
                    self.fund.spend(ended.work.key, ended.cost_microusd)
                    if is_worth_another_try(ended):
                        (short if is_short_of_money(ended) else again).append(ended)
                        continue
                    try:
                        yield await self._onto(lines[ended.work.key], ended)
                    except PatchRefused as e:
                        if ended.reused:  # made for another commit, and no longer fitting this one
                            again.append(ended)
                        else:
                            yield replace(ended, result=_refused(ended.result, e))
            next_keys = {
                ended.work.key: ended.work.again(ended.result.task_id).request.idempotency_key for ended in short
            }
            funded = await self.fund.grant(next_keys) if short else frozenset[str]()
            for ended in short:
                if ended.work.key in funded:
                    again.append(ended)
                else:
                    yield await self._onto(lines[ended.work.key], ended)
            works = [self._once_more(ended) for ended in again]

    def _once_more(self, ended: Ended) -> Work:
        work = ended.work.again(ended.result.task_id)
        if work.request.agent in (RECIPE, VERIFY):  # which spend nothing
            return work
        return replace(work, request=work.request.model_copy(update={"budget": self.fund.budget(work.key)}))

    async def _read_base(self, result: TaskResult) -> None:
        """A gate that cannot be run proves nothing, and undoes nothing of what the shards have made."""
        assert self.gate is not None
        try:
            self.before = await self.gate.read("before", result)
        except TaskFailed as e:
            self.failure = e.error

    async def _onto(self, line: Line, ended: Ended) -> Ended:
        """With what the steps before have changed, as one patch on our base. `PatchRefused` when it does not fit."""
        before, result = line.ended, ended.result
        reused = ended.reused and (before is None or before.reused)
        ended = replace(ended, cost_microusd=self.fund.spent[ended.work.key])
        if not completed(result):
            return replace(ended, reused=reused)
        patch = result.patch if result.patch is not None and result.patch.files else None
        if patch is None:
            patch = line.patch
        elif before is not None or (ended.reused and patch.base != self.given.base):
            patch = await self._joined(line.patch, patch, reused=ended.reused)
        return replace(ended, reused=reused, result=result.model_copy(update={"patch": patch}))

    async def _joined(self, first: PatchRef | None, second: PatchRef, *, reused: bool) -> PatchRef:
        """`reused`: `second` may have been made for another tree."""
        blobs, tree = self.driver.transport.blobs, self.given.base
        if first is not None:
            tree = await apply_to_tree(self.mirror.git_dir, tree, await blobs.get(first.diff))
        diff = await blobs.get(second.diff)
        if reused:
            await refuse_other_files(self.mirror, tree, await self.driver.aside(lambda: parts_of(diff)))
        tree = await apply_to_tree(self.mirror.git_dir, tree, diff)
        return await reference(self.mirror, blobs, self.given.base, tree, max_files=None)

    async def _failing(self, lines: Mapping[str, Line], keys: Sequence[str]) -> list[str]:
        """Those whose changes, alone on the base, the gate does not accept."""
        if self.gate is None or self.before is None:
            return []
        changed = [key for key in keys if lines[key].has_changed]
        base = judge(
            self.before, self.before, tree=self.before.tree, min_tests=self.gate.min_tests, rules=self.gate.rules
        )
        passing = {key for key in keys if key not in changed and base.verified}
        works: list[Work] = []
        for key in changed:
            patch = lines[key].patch
            assert patch is not None
            works.append(replace(self.gate.after(patch.diff), key=key, title=f"gate · {key}"))
        async with aclosing(settled(self.driver, works)) as endings:
            async for ended in endings:
                patch = lines[ended.work.key].patch
                if patch is not None and await self._accepts(ended.result, patch):
                    passing.add(ended.work.key)
        return [key for key in keys if key not in passing]

    async def _accepts(self, result: TaskResult, patch: PatchRef) -> bool:
        """A gate that could not be run on a shard's changes has not accepted them."""
        assert self.gate is not None and self.before is not None
        try:
            after = read_run(result)
        except TaskFailed:
            return False
        return await accepts(self.gate, self.before, after, changes=patch.diff, tree=patch.tree)


def seat_of(given: RepositoryInput, shard: Shard) -> str:
    """What a shard is called among those of all repositories."""
    return f"{given.name}:{shard.key}"


def _refused(result: TaskResult, refusal: PatchRefused) -> TaskResult:
    error = ErrorInfo.of(ErrorCode.REPOSITORY, f"its change does not fit what its earlier steps made: {refusal}")
    return result.model_copy(update={"status": State.ERROR, "errors": (error,), "patch": None})
