"""`muster run`: one goal, one agent, one repository."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from envelope.agents import AgentCard, CommandCard, WorkerCard
from envelope.budget import Budget as TaskBudget
from envelope.errors import ExitCode
from envelope.gate import GateRules
from envelope.messages import TaskRequest
from envelope.plan import Plan
from envelope.scope import Scope
from repo.local import LocalRepository
from repo.publish import require_branch_name

from ..agent_files import project_cards
from ..catalogue import agent_named, agents_of, default_agent
from ..client import Muster
from ..errors import BadInput
from ..planner.files import mode_or_plan
from ..planner.modes import PlanMode
from ..planner.team import planning_of, require_other
from ..settings import load_settings
from ..submit import BUILD, PLAN, Planning, goal_request, scope_of
from ..trust import TrustStore, trusted_digest
from .completing import agent_names
from .console import data, note
from .estimate import Spending, agreed
from .fleet import open_fleet
from .gate_rules import gate_rules
from .options import AllowDirty, Budget, Deadline, Detach, Json, NoInput, Repo, Yes, ask_terms, microusd, task_words
from .project_file import Defaults, project_defaults
from .repository import starting_point
from .slash import agent_for, command_of, is_help, model_for, of_session, print_commands


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
    record: bool
    plan: PlanMode
    given_plan: Plan | None
    yes: bool
    files: tuple[Path, ...]
    gate_rule: tuple[str, ...] = ()
    rules: GateRules = field(default_factory=GateRules)
    default_agent: str = ""  # the repository's


def run(
    goal: Annotated[
        str, typer.Argument(metavar="GOAL", help="What is to be done, in plain words, or a command: /review.")
    ],
    repo: Repo = Path(),
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=agent_names,
            help="Who does it; plan asks first [default: the setting default_agent, or build].",
        ),
    ] = "",
    gate: Annotated[
        list[str] | None, typer.Option(metavar="COMMAND", help="The project's own tests: they prove the change.")
    ] = None,
    gate_rule: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="What the gate asks for beside: min_coverage=80.")
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
    file: Annotated[
        list[Path] | None, typer.Option(metavar="PATH", help="A file that goes along: a log, a screenshot, an archive.")
    ] = None,
    branch: Annotated[str, typer.Option(metavar="NAME", help="Set this branch to the change, once it is done.")] = "",
    detach: Detach = False,
    as_json: Json = False,
    no_input: NoInput = False,
    allow_dirty: AllowDirty = False,
    record: Annotated[bool, typer.Option("--record", help="Keep what `muster replay` needs.")] = False,
    plan: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="How it is planned: layered, light, on-demand, living; or by the steps in a .toml or .json file.",
        ),
    ] = PlanMode.NONE,
    yes: Yes = False,
    task: Annotated[
        str, typer.Option(metavar="TASK", help="Whose session /undo, /redo, /compact or /share is about.")
    ] = "",
    resume: Annotated[
        str,
        typer.Option(metavar="TASK", help="Go on with the session of this one, which has ended; GOAL is said to it."),
    ] = "",
) -> None:
    """Give an agent a goal in a repository, and prove its change.

    The answer goes to stdout, all else to stderr. Nothing in the repository changes: see the change with
    `muster task diff`, take it with `muster task apply` or --branch.
    """
    if task:
        raise typer.Exit(of_session(goal, task))
    if resume:
        from .trees import resumed

        told = task_words(resume), goal, microusd(budget), deadline
        raise typer.Exit(asyncio.run(resumed(*told, is_detached=detach, as_json=as_json)))
    options = RunOptions(
        goal, repo, agent, tuple(gate or ()), tuple(setup or ()), _grants(allow or []), microusd(budget), deadline,
        model, branch, detach, as_json, no_input, allow_dirty, record, *mode_or_plan(plan), yes, tuple(file or ()),
        tuple(gate_rule or ()),
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
    require_other(options.plan, options.agent)
    for missing in (path for path in options.files if not path.is_file()):
        raise BadInput(f"there is no file {missing}", hint="--file takes what is to go along, one file each time")
    command = await command_of(options.goal, options.repository)
    if is_help(command):
        await print_commands(options.repository)
        return ExitCode.OK
    settings = load_settings()
    local = await starting_point(options.repository, allow_dirty=options.allow_dirty)
    trusted = await trusted_digest(TrustStore(settings.state_dir), local.root, local.git_dir, local.head)
    options = replace(options, model=model_for(command, options.model, is_trusted=bool(trusted)))
    options = _completed(options, await project_defaults(local, settings, is_trusted=bool(trusted)))
    async with open_fleet(settings) as muster:
        workers = await muster.workers()
        card, project = await _card(muster, options, command, local, trusted, workers)
        planning = planning_of(options.plan, card, workers, commit=local.head, project=project, plan=options.given_plan)
        then = agent_named(BUILD, workers) if card.name == PLAN else None
        request = await _request(muster, options, card, then, planning, local)
        spending = Spending(
            options.goal, options.model or card.model, request.budget.max_cost_microusd, may_ask=_waits(options)
        )
        if not await agreed(spending, workers, ask_above_microusd=settings.ask_above_microusd):
            note("nothing was submitted")
            return ExitCode.CANCELLED
        handle = await muster.submit(request)
        if options.detach:
            note(f"it runs; see it with: muster task watch {handle.task_id}")
            data(handle.task_id)
            return ExitCode.OK
        # imported now: the agent is at it meanwhile
        from .run_shown import Shown, follow_run

        shown = Shown(options.goal, options.branch, local.root, options.as_json, may_ask=not options.no_input)
        return await follow_run(muster, request, handle, shown)


def _completed(options: RunOptions, known: Defaults) -> RunOptions:
    """What the command line leaves open, the repository's `muster.toml` may say."""
    return replace(
        options,
        default_agent=known.agent,
        model=options.model or known.model,
        setup=options.setup or known.setup,
        gate=options.gate or known.gate,
        rules=gate_rules(options.gate_rule, known.gate_rules),
        budget_microusd=known.budget_microusd if options.budget_microusd is None else options.budget_microusd,
        deadline_s=options.deadline_s or known.deadline_s,
    )


def _waits(options: RunOptions) -> bool:
    """Is there somebody who would answer?"""
    return not (options.yes or options.no_input or options.detach or options.as_json)


async def _card(
    muster: Muster,
    options: RunOptions,
    command: CommandCard | None,
    local: LocalRepository,
    trusted: str,
    workers: Sequence[WorkerCard],
) -> tuple[AgentCard, list[AgentCard]]:
    """Who does it: whom the person named, else whom the command names: of the workers, or of the repository, whose
    agents come with it."""
    name = options.agent
    wanted = name or options.default_agent or muster.settings.default_agent
    project = await project_cards(local, trusted, wanted=wanted)
    if name:
        return agent_named(name, workers, commit=local.head, project=project), project
    default = default_agent(wanted, workers, commit=local.head, project=project)
    agents = agents_of(workers, commit=local.head) | {card.name: card for card in project}
    return agent_for(command, default, agents), project


async def _request(
    muster: Muster,
    options: RunOptions,
    card: AgentCard,
    then: AgentCard | None,
    planning: Planning | None,
    local: LocalRepository,
) -> TaskRequest:
    cap = muster.settings.budget_microusd if options.budget_microusd is None else options.budget_microusd
    return goal_request(
        options.goal,
        agent=card,
        then=then,
        settings=muster.settings,
        workspace=await muster.pack(local.place, commit=local.head, setup=options.setup),
        gate=options.gate,
        gate_rules=options.rules,
        auth_scope=(*scope_of(card), *options.allow),
        budget=TaskBudget(max_cost_microusd=cap, waits_at_cap=not options.no_input),
        deadline_ms=options.deadline_s and options.deadline_s * 1000,
        model=options.model,
        record=options.record,
        planning=planning,
        attachments=tuple([await muster.attach(path) for path in options.files]),
        asks=ask_terms(muster.settings, (local.root,), no_input=options.no_input),
    )
