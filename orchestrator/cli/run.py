"""`muster run`: one goal, one agent, one repository."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

import typer

from envelope.agents import AgentCard, CommandCard, WorkerCard
from envelope.budget import Budget as TaskBudget
from envelope.errors import ExitCode
from repo.errors import BranchRefused
from repo.local import LocalRepository

from ..agent_files import project_cards
from ..approvals import ask_terms
from ..catalogue import agent_named, agents_of, default_agent
from ..client import Muster
from ..errors import BadInput
from ..goals import doers_of, goal_for
from ..looking import GATES, SETS_UP, require_looking
from ..planner.files import mode_or_plan
from ..planner.modes import PlanMode
from ..planner.team import require_other
from ..project.file import Defaults
from ..project.gate_rules import gate_rules
from ..settings import Settings
from ..submit import GoalFields, scope_of
from ..trust import TrustStore, trusted_digest
from .console import note
from .estimate import Spending, agreed
from .fleet import open_fleet
from .leaving import leave, require_lasting
from .options import (
    Allow,
    AllowDirty,
    Budget,
    Deadline,
    Detach,
    Gate,
    Json,
    Model,
    NoInput,
    ReadOnly,
    Repo,
    Setup,
    Yes,
    grants,
    microusd,
    settings_for,
    task_words,
)
from .person import person
from .report_forms import Report, wanted_reports
from .repository import project_defaults, starting_point
from .run_options import (
    Agent,
    Branch,
    File,
    GateRule,
    Goal,
    How,
    Key,
    OfTask,
    Record,
    Resume,
    RunOptions,
    require_alone,
)
from .slash import agent_for, command_of, is_help, model_for, of_session, print_commands


def run(
    goal: Goal,
    repo: Repo = Path(),
    agent: Agent = "",
    gate: Gate = None,
    gate_rule: GateRule = None,
    setup: Setup = None,
    budget: Budget = None,
    deadline: Deadline = None,
    model: Model = "",
    allow: Allow = None,
    file: File = None,
    branch: Branch = "",
    detach: Detach = False,
    as_json: Json = False,
    no_input: NoInput = False,
    allow_dirty: AllowDirty = False,
    record: Record = False,
    plan: How = PlanMode.NONE,
    yes: Yes = False,
    task: OfTask = "",
    key: Key = "",
    resume: Resume = "",
    report: Report = None,
    read_only: ReadOnly = False,
) -> None:
    """Give an agent a goal in a repository, and prove its change.

    The answer goes to stdout, all else to stderr. Nothing in the repository changes: see the change with
    `muster task diff`, take it with `muster task apply` or --branch.
    """
    if task:
        raise typer.Exit(of_session(goal, task))
    if resume:
        require_alone(resume, {
            "--repo": repo != Path(), "--agent": agent, "--file": file, "--branch": branch,
            "--allow-dirty": allow_dirty, "--record": record, "--plan": plan != PlanMode.NONE, "--key": key,
        })  # fmt: skip
        from .resuming import Resuming, resume_options, resumed

        now = resume_options(
            budget, deadline, gate=gate, gate_rule=gate_rule, setup=setup, model=model, allow=allow, no_input=no_input
        )
        settings = settings_for(read_only=read_only)
        if settings.read_only:
            require_looking({GATES: gate, SETS_UP: setup}, now.allow)
        reports = wanted_reports(report)
        wish = Resuming(task_words(resume), goal, now, detach, as_json, yes, settings, reports)
        raise typer.Exit(asyncio.run(resumed(wish)))
    options = RunOptions(
        goal, repo, agent, tuple(gate or ()), tuple(setup or ()), grants(allow), microusd(budget), deadline,
        model, branch, detach, as_json, no_input, allow_dirty, record, *mode_or_plan(plan), yes, tuple(file or ()), key,
        wanted_reports(report), tuple(gate_rule or ()), read_only=read_only,
    )  # fmt: skip
    raise typer.Exit(asyncio.run(_run(options)))


async def _run(options: RunOptions) -> int:
    _require_usable(options)
    command = await command_of(options.goal, options.repository)
    if is_help(command):
        await print_commands(options.repository)
        return ExitCode.OK
    settings = settings_for(read_only=options.read_only)
    if settings.read_only:
        _require_looking(options, command)
    if options.detach:
        require_lasting(settings)
    local = await starting_point(options.repository, allow_dirty=options.allow_dirty)
    refusal = await _refusal(options, settings, local)
    store = TrustStore(settings.state_dir)
    trusted = "" if settings.read_only else await trusted_digest(store, local.root, local.git_dir, local.head)
    options = replace(options, model=model_for(command, options.model, is_trusted=bool(trusted)))
    options = _completed(options, await project_defaults(local, settings, is_trusted=bool(trusted)))
    async with open_fleet(settings) as muster:
        workers = await muster.workers()
        card, project = await _card(muster, options, command, local, trusted, workers)
        plan, given_plan = options.plan, options.given_plan
        doers = doers_of(
            card,
            workers,
            plan=plan,
            given_plan=given_plan,
            commit=local.head,
            tenant=settings.tenant,
            project=project,
        )
        request = goal_for(options.goal, doers, settings, **await _fields(muster, options, card, local))
        spending = Spending(
            options.goal, options.model or card.model, request.budget.max_cost_microusd, may_ask=_waits(options)
        )
        if not await agreed(spending, workers, ask_above_microusd=settings.ask_above_microusd):
            note("nothing was submitted")
            return ExitCode.CANCELLED
        handle = await muster.submit_repeatable(request)
        if handle.existing:
            note(f"its key is known: this is {handle.task_id}")
        elif refusal is not None:
            await muster.cancel(handle.task_id, "its branch cannot be set", by=person())
            raise refusal
        if options.detach:
            if options.branch:
                where = f"--repo {quote(str(local.root))} --branch {quote(options.branch)}"
                note(f"once it is done, set its branch with: muster publish {handle.task_id} {where}")
            return leave(settings, handle, "muster task watch")
        # imported now: the agent is at it meanwhile
        from .run_shown import Shown, follow_run

        may_ask = not options.no_input
        shown = Shown(options.goal, options.branch, local.root, options.as_json, may_ask, options.reports)
        return await follow_run(muster, request, handle, shown)


def _require_usable(options: RunOptions) -> None:
    if not options.goal.strip():
        raise BadInput("the goal is empty", hint='say what is to be done: muster run "…"')
    require_other(options.plan, options.agent)
    for missing in (path for path in options.files if not path.is_file()):
        raise BadInput(f"there is no file {missing}", hint="--file takes what is to go along, one file each time")


async def _refusal(options: RunOptions, settings: Settings, local: LocalRepository) -> BranchRefused | None:
    """Of a branch that could not be set in the end: raised before anything is paid for. Only the fleet knows whether a
    key is of work that is done, and whose branch may well be as it was left."""
    if not options.branch:
        return None
    from .publish import Target, require_free  # few goals need what it imports

    try:
        await require_free(settings, Target(local.root, options.branch), local.head)
    except BranchRefused as e:
        if not options.key:
            raise
        return e
    return None


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


def _require_looking(options: RunOptions, command: CommandCard | None) -> None:
    asked = {
        "--branch would set a branch": options.branch,
        GATES: options.gate,
        SETS_UP: options.setup,
        "a command of a repository is no plain words": command,
    }
    require_looking(asked, options.allow)


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
    project = [] if muster.settings.read_only else await project_cards(local, trusted, wanted=wanted)
    commit, tenant = local.head, muster.settings.tenant
    if name:
        return agent_named(name, workers, commit=commit, tenant=tenant, project=project), project
    default = default_agent(wanted, workers, commit=commit, tenant=tenant, project=project)
    agents = agents_of(workers, commit=commit, tenant=tenant) | {card.name: card for card in project}
    return agent_for(command, default, agents), project


async def _fields(muster: Muster, options: RunOptions, card: AgentCard, local: LocalRepository) -> GoalFields:
    settings = muster.settings
    cap = settings.budget_microusd if options.budget_microusd is None else options.budget_microusd
    return {
        "workspace": await muster.pack(local.place, commit=local.head, setup=options.setup),
        "gate": options.gate,
        "gate_rules": options.rules,
        "auth_scope": (*scope_of(card), *options.allow),
        "budget": TaskBudget(max_cost_microusd=cap, waits_at_cap=not options.no_input),
        "deadline_ms": options.deadline_s and options.deadline_s * 1000,
        "model": options.model,
        "idempotency_key": options.key,
        "record": options.record,
        "attachments": tuple([await muster.attach(path) for path in options.files]),
        "asks": ask_terms(settings, (local.root,), no_input=options.no_input),
    }
