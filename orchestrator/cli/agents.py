"""`muster agents`: who there is, what each may use, what is wrong with their files, and a new one from a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from envelope.agents import AgentDetail, AgentFault, ToolOffer
from envelope.errors import ExitCode

from ..agent_files import agent_files
from ..errors import UnknownName, near_miss
from ..settings import load_settings
from ..submit import FULL_SCOPE
from .agents_here import Place, catalogue_here, is_for_people, place_of
from .completing import agent_names
from .console import answer, data, note, people, plain, warn
from .generate import generate_agent
from .options import Budget, JsonLines, Repo, microusd

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_agents(
    repo: Repo = Path(),
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that nobody starts: hidden ones, and recipes.")
    ] = False,
    as_json: JsonLines = False,
) -> None:
    """List the agents of this machine and of the repository: name, mode, pool, model, where from."""
    found = asyncio.run(catalogue_here(repo))
    shown = [agent for agent in found.agents if everything or is_for_people(agent)]
    if as_json:
        for agent in shown:
            data(agent.model_dump_json(exclude={"prompt"}))
        return
    table = Table.grid(padding=(0, 2))
    for agent in shown:
        mode = f"{agent.mode}, hidden" if agent.hidden else agent.mode
        pool = "-" if agent.hidden else agent.pool  # they run where the session is
        table.add_row(agent.name, mode, pool, agent.model or "-", plain(agent.origin) or "built-in")
    people().print(table)
    _warn(found.faults)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=agent_names, help="The agent.")],
    repo: Repo = Path(),
    tools: Annotated[bool, typer.Option("--tools", help="Each tool, whether it is offered, and what decided.")] = False,
    capability: Annotated[
        list[str] | None, typer.Option(metavar="TOOL", help="With --tools: as if a request named only these.")
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Show what an agent is and may do."""
    if capability and not tools:
        raise typer.BadParameter("--capability goes with --tools")
    place = asyncio.run(place_of(repo))
    agent = asyncio.run(_agent(place, name))
    if not tools:
        data(agent.model_dump_json()) if as_json else _print_agent(agent)
        return
    asked = agent_files().tools(
        place.git_dir,
        place.commit,
        place.trusted,
        name,
        inherited=FULL_SCOPE,
        capabilities=capability,
        model=load_settings().model,
    )
    _print_tools(asyncio.run(asked), as_json=as_json)


@app.command("check")
def check(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...", help="Files or folders.")] = None,
    as_json: JsonLines = False,
) -> None:
    """Check agent files: those given, else yours and those in the folders here, committed or not."""
    for path in paths or []:
        if not path.exists():
            raise typer.BadParameter(f"there is no {path}")
    count, faults = agent_files().check(paths or [], Path())
    if as_json:
        for fault in faults:
            data(fault.model_dump_json())
    else:
        _warn(faults)
    if faults:
        raise typer.Exit(ExitCode.USAGE)
    note(f"{count} agent file(s), nothing wrong")


@app.command("generate")
def generate(
    description: Annotated[str, typer.Argument(metavar="DESCRIPTION", help="What the agent is for.")],
    repo: Repo = Path(),
    name: Annotated[str, typer.Option(metavar="NAME", help="What to call it, instead of a name of the model's.")] = "",
    model: Annotated[str, typer.Option(metavar="MODEL", help="Ask this model instead of the workers' own.")] = "",
    budget: Budget = None,
    as_json: JsonLines = False,
) -> None:
    """Have a model write a new agent, and put it into .muster/agents of the repository. Nothing is overwritten."""
    taken = {agent.name for agent in asyncio.run(catalogue_here(repo)).agents}
    written = asyncio.run(generate_agent(description, repo, name, taken, model=model, budget_microusd=microusd(budget)))
    if as_json:
        data(written.model_dump_json())
    else:
        note(f"the agent {written.name!r} is written; it counts once it is committed: git add {written.path}")
        data(written.path)


async def _agent(place: Place, name: str) -> AgentDetail:
    found = await agent_files().catalogue(place.git_dir, place.commit, place.trusted)
    if fault := found.unusable.get(name):
        raise UnknownName(f"{fault.path}: {fault.message}", hint=fault.hint)
    agents = {agent.name: agent for agent in found.agents}
    if name not in agents:
        raise UnknownName(f"there is no agent {name!r}", hint=near_miss(name, agents))
    return agents[name]


def _print_agent(agent: AgentDetail) -> None:
    facts = {
        "agent": f"{agent.name}, {agent.mode}, pool {agent.pool}, from {agent.origin or 'Muster itself'}",
        "use": agent.description,
        "model": ", then ".join((agent.model or "the workers' own", *agent.fallback_models)),
        **({"effort": agent.variant} if agent.variant else {}),
        "tools": ", ".join(agent.tools),
        "scope": ", ".join(agent.auth_scope) or "its caller's",
    }
    table = Table.grid(padding=(0, 2))
    for what, value in facts.items():
        table.add_row(what, plain(value))
    for permission, pattern, action in agent.rules:
        table.add_row("rule", plain(f"{permission}: {pattern}: {action}"))
    people().print(table)
    answer(agent.prompt)


def _print_tools(offers: Iterable[ToolOffer], *, as_json: bool) -> None:
    table = Table.grid(padding=(0, 2))
    for offer in offers:
        if as_json:
            data(offer.model_dump_json())
        table.add_row(offer.tool, "offered" if offer.offered else "not offered", offer.layer, plain(offer.why))
    if not as_json:
        people().print(table)


def _warn(faults: Iterable[AgentFault]) -> None:
    for fault in faults:
        warn(f"{fault.path}: {fault.message}", fault.hint)
