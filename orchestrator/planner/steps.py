"""A step as a task of an agent, and its work on top of the work that it builds on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envelope.agent_params import AgentParams
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import ContextRef, ErrorInfo, PatchRef, TaskResult, Workspace
from repo.weave import Clash, Piece, Weave

from ..driver import Driver, Work
from ..errors import BadInput
from ..repositories import editable, reference
from ..submit import GoalParams, GoalStep, task_request
from .survey import Failure, Run, Survey

PROMPT = (
    "You do one step of a larger piece of work; others do the other steps, before, beside and after you. Do this step"
    " alone, and say at the end what you did, for those who go on from it."
)
MAX_SHOWN_PATHS = 10


def roster_of(params: GoalParams) -> Mapping[str, GoalStep]:
    """Who may do a step, by name."""
    return {params.agent: params} | {step.agent: step for step in params.roster}


@dataclass(slots=True)
class Steps:
    """The steps of one goal. `weave` is None for a goal without a repository."""

    driver: Driver
    roster: Mapping[str, GoalStep]
    weave: Weave | None
    records: bool  # each task keeps a cassette
    _runs: dict[str, Run] = field(default_factory=dict[str, Run])  # those whose work is known, by key

    @classmethod
    async def of(cls, driver: Driver, params: GoalParams) -> Steps:
        """`BadInput` for a workspace whose work could not be put together here."""
        workspace = driver.request.workspace
        if workspace is None:
            return cls(driver, roster_of(params), None, params.record)
        if workspace.bundle is None:
            raise BadInput("the steps of a plan need a repository in a bundle", hint="submit it with `muster run`")
        if workspace.changes is not None:
            raise BadInput("the steps of a plan need a commit as their base", hint="commit the changes first")
        mirror = await driver.mirror(workspace.bundle, workspace.base)
        return cls(driver, roster_of(params), Weave(mirror, workspace.base), params.record)

    async def work(self, run: Run, survey: Survey) -> Work:
        """The task of a run, whose workspace has the work of all that it builds on."""
        request, step = self.driver.request, run.step
        agent = self.roster[step.agent]
        done = [survey.standings[each.step.step_id] for each in run.before]
        deadline_ms = min(step.deadline_ms or self.driver.remaining_ms, self.driver.remaining_ms)
        child = task_request(
            parent=request,
            agent=agent.agent,
            pool=agent.pool,
            prompt=_prompt(request.input.prompt, run, survey),
            params=AgentParams(record=self.records).model_dump(exclude_defaults=True),
            workspace=await self.workspace(run.before),
            auth_scope=agent.auth_scope if step.auth_scope is None else step.auth_scope,
            budget=_budget(step.budget, request.budget),
            deadline_ms=deadline_ms,
            idempotency_key=run.key,
            model=request.model,
            context_refs=(
                *request.context_refs,
                *(ContextRef(type="task", id=one.result.task_id) for one in done if one.result),
            ),
            attachments=request.attachments,
            priority=request.priority,
            sender=request.agent,
        )
        return Work(run.key, child, step.title or step.step_id)

    async def checked(self, run: Run, result: TaskResult) -> TaskResult:
        """The result, which is an error where its patch does not fit or changes what it may not. A worker has checked
        this, too."""
        patch = _patch_of(result)
        if patch is None or result.status is not State.COMPLETED or self.weave is None:
            return result
        diff = await self.driver.transport.blobs.get(patch.diff)
        agent = self.roster[run.step.agent]
        scope = agent.auth_scope if run.step.auth_scope is None else run.step.auth_scope
        title = run.step.title or run.step.step_id
        clash = await self.weave.add(Piece(run.key, title, diff, self._pieces(run.before), editable(scope)))
        if clash is not None:
            why = ErrorInfo.of(ErrorCode.COLLISION, f"its patch does not apply: {clash.detail}")
            return result.model_copy(update={"status": State.ERROR, "errors": (why,)})
        if outside := [path for path in self.weave.paths(run.key) if not editable(scope)(path)]:
            why = ErrorInfo.of(ErrorCode.OUT_OF_SCOPE, f"it changed {min(outside)}, which is not in the step's scope")
            return result.model_copy(update={"status": State.ERROR, "errors": (why,)})
        self._runs[run.key] = run
        return result

    async def collision(self, survey: Survey) -> tuple[str, Failure] | None:
        """A run whose work does not fit beside that of others, where both are needed: by a step that is to be started,
        or in the end."""
        for runs in [run.before for run in survey.wanted] or [survey.done]:
            clash = await self._state(runs)
            if isinstance(clash, Clash):
                return clash.key, self._failure(clash)
        return None

    async def patch(self, runs: Sequence[Run]) -> PatchRef | None:
        """All their work as one change of the base; None where there is none, or it does not fit together."""
        commit = await self._state(runs)
        if self.weave is None or not isinstance(commit, str):
            return None
        base = self.weave.base
        patch = await reference(self.weave.mirror, self.driver.transport.blobs, base, commit)
        return patch if patch.files else None

    async def workspace(self, runs: Sequence[Run]) -> Workspace | None:
        """The goal's, with all their work in it."""
        workspace = self.driver.request.workspace
        patch = await self.patch(runs)
        return workspace and workspace.model_copy(update={"changes": patch.diff if patch else None})

    async def _state(self, runs: Sequence[Run]) -> str | Clash | None:
        return None if self.weave is None else await self.weave.state(self._pieces(runs))

    def _pieces(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Those that have changed anything."""
        return tuple(run.key for run in runs if run.key in self._runs)

    def _failure(self, clash: Clash) -> Failure:
        names = tuple(self._runs[key].step.step_id for key in clash.others)
        own = self._runs[clash.key].step.step_id
        paths = ", ".join(clash.paths[:MAX_SHOWN_PATHS])
        message = f"the work of {own!r} collides with that of {', '.join(map(repr, names))} in {paths}"
        message += f": {clash.detail.splitlines()[0]}" if clash.detail else ""
        hint = "let one depend on the other, or give it on_failure = retry"
        return Failure(ErrorInfo.of(ErrorCode.COLLISION, message, hint), names)


def _budget(wanted: Budget, whole: Budget) -> Budget:
    """Of each limit the smaller one, of the step and of its goal: a model may have written the plan."""

    def smaller(one: int | None, other: int | None) -> int | None:
        return min((each for each in (one, other) if each is not None), default=None)

    return Budget(
        max_cost_microusd=smaller(wanted.max_cost_microusd, whole.max_cost_microusd),
        max_tokens=smaller(wanted.max_tokens, whole.max_tokens),
        max_turns=smaller(wanted.max_turns, whole.max_turns),
        max_tool_calls=smaller(wanted.max_tool_calls, whole.max_tool_calls),
        waits_at_cap=whole.waits_at_cap,
    )


def _patch_of(result: TaskResult) -> PatchRef | None:
    return result.patch if result.patch is not None and result.patch.files else None


def _prompt(goal: str, run: Run, survey: Survey) -> str:
    step = run.step
    if step.goal == goal:  # a plan of one step, which is the goal itself
        return goal
    earlier = [survey.standings[each.step.step_id] for each in run.before]
    lost = [survey.standings[name] for name in step.depends_on if survey.standings[name].failure]
    lines = [f"- {one.step.step_id}: {one.outcome} (task:{one.result.task_id})" for one in earlier if one.result]
    lines += [f"- {one.step.step_id} failed, and was skipped: {one.outcome}" for one in lost]
    parts = [
        PROMPT,
        f"# The whole goal\n{goal}",
        f"# Your step: {step.title}\n{step.goal}",
        "# What was done before\nIts changes are in your workspace.\n" + "\n".join(lines) if lines else "",
    ]
    return "\n\n".join(part for part in parts if part)
