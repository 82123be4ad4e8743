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

from ..catalogue import agent_named
from ..client import Muster
from ..errors import BadInput
from ..session import Session, new_session
from ..settings import load_settings
from ..submit import FULL_SCOPE, RUN, goal_request
from .attend import attend
from .console import data, note
from .fleet import open_fleet
from .options import AllowDirty, Budget, Deadline, Detach, Json, NoInput, Repo, microusd
from .outcome import exit_code_after
from .publish import publish_bundle
from .repository import starting_point
from .summary import summary_of_run

BUNDLE = "change.bundle"  # what the driver of a goal calls its commit


@dataclass(frozen=True, slots=True)
class Words:
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
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What is to be done, in plain words.")],
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
    words = Words(
        goal, repo, agent, tuple(gate or ()), tuple(setup or ()), _grants(allow or []), microusd(budget), deadline,
        model, branch, detach, as_json, no_input, allow_dirty,
    )  # fmt: skip
    raise typer.Exit(asyncio.run(_run(words)))


def _grants(words: list[str]) -> Scope:
    try:
        return TypeAdapter[Scope](Scope).validate_python(tuple(words))
    except ValidationError as e:
        wrong = e.errors()[0]["input"]
        raise BadInput(f"{wrong!r} is not a grant", hint="grants are `tool:pattern`, such as edit:src/**") from e


async def _run(words: Words) -> int:
    if not words.goal.strip():
        raise BadInput("the goal is empty", hint='say what is to be done: muster run "…"')
    settings = load_settings()
    local = await starting_point(words.repository, allow_dirty=words.allow_dirty)
    async with open_fleet(settings) as muster:
        card = agent_named(words.agent, await muster.workers())
        request = await _request(muster, words, card, local)
        handle = await muster.submit(request)
        if words.detach:
            note(f"it runs; see it with: muster task watch {handle.task_id}")
            data(handle.task_id)
            return ExitCode.OK
        session = new_session(handle.task_id, handle.trace_id, agent=RUN, title=words.goal)
        attended = await attend(muster, session, as_json=words.as_json, may_ask=not words.no_input)
        if attended.result is not None:
            await _conclude(muster, words, request, attended.session, attended.result, local)
        return exit_code_after(attended)


async def _request(muster: Muster, words: Words, card: AgentCard, local: LocalRepository) -> TaskRequest:
    own = card.auth_scope or FULL_SCOPE
    cap = muster.settings.budget_microusd if words.budget_microusd is None else words.budget_microusd
    return goal_request(
        words.goal,
        agent=card,
        settings=muster.settings,
        workspace=await muster.pack(local.root, commit=local.head, setup=words.setup),
        gate=words.gate,
        auth_scope=(*own, *words.allow),
        budget=TaskBudget(max_cost_microusd=cap),
        deadline_ms=words.deadline_s and words.deadline_s * 1000,
        model=words.model,
    )


async def _conclude(
    muster: Muster, words: Words, request: TaskRequest, session: Session, result: TaskResult, local: LocalRepository
) -> None:
    told: dict[str, Any] = result.output.structured or {}
    commit = told.get("commit") if not result.errors else None
    if words.branch and commit:
        await publish_bundle(
            muster, result, name=BUNDLE, repository=local.root, branch=words.branch, commit=str(commit)
        )
    if result.output.text and not words.as_json:
        data(result.output.text)
    branch = f"{words.branch} at {commit[:12]}" if words.branch and commit else ""
    summary_of_run(session, result, cap_microusd=request.budget.max_cost_microusd, branch=branch).print()
