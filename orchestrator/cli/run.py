"""`muster run`: one goal, one agent, one repository."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from envelope.agents import AgentCard
from envelope.budget import Budget as TaskBudget
from envelope.errors import ExitCode
from envelope.messages import TaskRequest, TaskResult
from envelope.scope import Scope
from repo.local import LocalRepository
from repo.publish import require_branch_name

from ..catalogue import agent_named
from ..client import Muster
from ..errors import BadInput
from ..settings import load_settings
from ..submit import BUILD, PLAN, RUN, goal_request, scope_of
from ..trace_view import TraceView, new_view
from .console import answer, data, note
from .fleet import open_fleet
from .follow import follow
from .options import AllowDirty, Budget, Deadline, Detach, Json, NoInput, Repo, ask_terms, microusd
from .outcome import exit_code_after
from .publish import publish_bundle
from .repository import starting_point
from .summary import summary_of_run

BUNDLE = "change.bundle"  # what the driver of a goal calls its commit


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line, as it was meant."""

    goal: str
    repository: Path
    agent: str
    gate: tuple[str, ...]
    setup: tuple[str, ...]
    allow: Scope
    budget_microusd: int | None
    deadline_s: int | None
    model: str
    branch: str
    detach: bool
    as_json: bool
    no_input: bool
    allow_dirty: bool


def run(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done, in plain options.")],
    repo: Repo = Path(),
    agent: Annotated[str, typer.Option(metavar="NAME", help="Who does it.")] = "build",
    gate: Annotated[
        list[str] | None, typer.Option(metavar="COMMAND", help="The project's own tests: they prove the change.")
    ] = None,
    setup: Annotated[
        list[str] | None, typer.Option(metavar="COMMAND", help="Make the project's dependencies available.")
    ] = None,
    budget: Budget = None,
    deadline: Deadline = None,
    model: Annotated[str, typer.Option(metavar="MODEL", help="Use this model instead of the workers' own.")] = "",
    allow: Annotated[
        list[str] | None, typer.Option(metavar="GRANT", help="A grant beyond the agent's own: webfetch:https://…")
    ] = None,
    branch: Annotated[str, typer.Option(metavar="NAME", help="Set this branch to the change, once it is done.")] = "",
    detach: Detach = False,
    as_json: Json = False,
    no_input: NoInput = False,
    allow_dirty: AllowDirty = False,
) -> None:
    """Give an agent a goal in a repository, and prove its change.

    The answer goes to stdout, all else to stderr. Nothing in the repository changes: see the change with
    `muster task diff`, take it with `muster task apply` or --branch.
    """
    options = RunOptions(
        goal, repo, agent, tuple(gate or ()), tuple(setup or ()), _grants(allow or []), microusd(budget), deadline,
        model, branch, detach, as_json, no_input, allow_dirty,
    )  # fmt: skip
    raise typer.Exit(asyncio.run(_run(options)))


def _grants(texts: list[str]) -> Scope:
    try:
        return TypeAdapter[Scope](Scope).validate_python(tuple(texts))
    except ValidationError as e:
        wrong = e.errors()[0]["input"]
        raise BadInput(f"{wrong!r} is not a grant", hint="grants are `tool:pattern`, such as edit:src/**") from e


async def _run(options: RunOptions) -> int:
    if not options.goal.strip():
        raise BadInput("the goal is empty", hint='say what is to be done: muster run "…"')
    if options.branch:
        await require_branch_name(options.branch)  # before anything is paid for
    settings = load_settings()
    local = await starting_point(options.repository, allow_dirty=options.allow_dirty)
    async with open_fleet(settings) as muster:
        workers = await muster.workers()
        card = agent_named(options.agent, workers)
        then = agent_named(BUILD, workers) if card.name == PLAN else None
        request = await _request(muster, options, card, then, local)
        handle = await muster.submit(request)
        if options.detach:
            note(f"it runs; see it with: muster task watch {handle.task_id}")
            data(handle.task_id)
            return ExitCode.OK
        view = new_view(handle.task_id, handle.trace_id, agent=RUN, title=options.goal)
        followed = await follow(muster, view, as_json=options.as_json, may_ask=not options.no_input)
        if followed.result is not None:
            await _conclude(muster, options, request, followed.view, followed.result, local)
        return exit_code_after(followed)


async def _request(
    muster: Muster, options: RunOptions, card: AgentCard, then: AgentCard | None, local: LocalRepository
) -> TaskRequest:
    cap = muster.settings.budget_microusd if options.budget_microusd is None else options.budget_microusd
    return goal_request(
        options.goal,
        agent=card,
        then=then,
        settings=muster.settings,
        workspace=await muster.pack(local.root, commit=local.head, setup=options.setup),
        gate=options.gate,
        auth_scope=(*scope_of(card), *options.allow),
        budget=TaskBudget(max_cost_microusd=cap),
        deadline_ms=options.deadline_s and options.deadline_s * 1000,
        model=options.model,
        asks=ask_terms(muster.settings, (local.root,), no_input=options.no_input),
    )


async def _conclude(
    muster: Muster,
    options: RunOptions,
    request: TaskRequest,
    view: TraceView,
    result: TaskResult,
    local: LocalRepository,
) -> None:
    structured: dict[str, Any] = result.output.structured or {}
    commit = structured.get("commit") if not result.errors else None
    if options.branch and commit:
        await publish_bundle(
            muster, result, name=BUNDLE, repository=local.root, branch=options.branch, commit=str(commit)
        )
    if result.output.text and not options.as_json:
        answer(await muster.answer(result))
    branch = f"{options.branch} at {commit[:12]}" if options.branch and commit else ""
    summary_of_run(view, result, cap_microusd=request.budget.max_cost_microusd, branch=branch).print()
