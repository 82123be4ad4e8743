"""Goals that begin with `/name`: which agent and model do them. Workers read and expand commands; here they are only
routed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from envelope.agents import AgentCard, CommandCard
from envelope.errors import ExitCode, ScopeExceeded
from envelope.scope import Scope, narrow, split
from repo.local import locate

from ..catalogue import PEOPLE_START
from ..command_cards import command_cards
from ..errors import BadInput, UnknownName, near_miss
from ..submit import scope_of
from .console import data, note, plain
from .session import session_of

# What a person says about a session → the command that does it.
OF_SESSIONS: Mapping[str, tuple[str, ...]] = {
    "/undo": ("task", "undo"),
    "/redo": ("task", "unrevert"),
    "/compact": ("task", "compact"),
    "/share": ("task", "export", "--sanitize"),
}
HELP = "help"
# Tools that do nothing but ask a person.
ONLY_ASKING = frozenset({"question", "plan_exit"})
_TYPED = re.compile(r"/(\S+)(?:\s.*)?", re.DOTALL)


def of_session(goal: str, task: str) -> int:
    """Carry out a command about the session of a task; its exit code. `BadInput` for other goals."""
    words = OF_SESSIONS.get(goal.strip())
    if words is None:
        raise BadInput(
            f"--task is for {', '.join(OF_SESSIONS)}", hint=f"say all else with: muster task prompt {task} …"
        )
    from .commands import build_app  # which imports all that a command line may name

    told = [*words, task]
    return build_app(told)(args=told, prog_name="muster", standalone_mode=False, obj=session_of) or ExitCode.OK


async def command_of(goal: str, path: Path) -> CommandCard | None:
    """The command that the goal names, for the repository around `path`; None for plain words, and where no worker's
    package is there to ask.

    `UnknownName` with the nearest for one that is not there.
    """
    typed = _TYPED.fullmatch(goal)
    if typed is None or not (known := {card.name: card for card in await _cards(path)}):
        return None
    if typed[1] not in known and ":" in typed[1]:
        return None  # an MCP server's prompt, `/server:prompt`: only the worker, where the server is, can tell
    if typed[1] not in known:
        near = near_miss(typed[1], known)
        raise UnknownName(
            f"there is no command /{typed[1]}",
            hint=f"{near} (see `muster commands list`; put a space before words that are no command)",
        )
    if known[typed[1]].of_session:
        raise BadInput(f"/{typed[1]} is for a session that there is", hint=f"muster run /{typed[1]} --task TASK")
    return known[typed[1]]


def is_help(command: CommandCard | None) -> bool:
    """Ours lists the commands, which needs no model."""
    return command is not None and command.name == HELP and command.source == "builtin"


async def print_commands(path: Path) -> None:
    for card in await _cards(path):
        data(plain(f"/{card.name}  {card.description}"))


def agent_for(command: CommandCard | None, default: AgentCard, agents: Mapping[str, AgentCard]) -> AgentCard:
    """Who does the goal of somebody who named no agent: whom the command names, else the `default`.

    A subagent does a command as a subtask, which the worker sees to. A repository is not trusted to choose an agent
    that may do more than the default.
    """
    if command is None or not command.agent:
        return default
    card = agents.get(command.agent)
    if card is None:
        raise UnknownName(
            f"the command /{command.name} is for the agent {command.agent!r}, which is not there",
            hint=f"{near_miss(command.agent, agents)}; or name another with --agent",
        )
    if card.mode not in PEOPLE_START or card.hidden:
        return default
    if command.source == "repository" and not _is_within(scope_of(card), scope_of(default)):
        wish = f"the repository wants /{command.name} done by {card.name!r}"
        note(f"{wish}, which may do more than {default.name!r}: refused")
        return default
    return card


def model_for(command: CommandCard | None, named: str, *, is_trusted: bool) -> str:
    """The model that the person `named`, else the command's own; empty: the agent's.

    A repository that nobody trusts spends nobody's money on a model of its choice.
    """
    if named or command is None or not command.model:
        return named
    if command.source == "repository" and not is_trusted:
        wish = f"the repository wants /{command.name} done by the model {command.model!r}"
        note(f"{wish}, and is not trusted: not used; name it with --model, or see: muster trust")
        return ""
    return command.model


def _is_within(scope: Scope, ceiling: Scope) -> bool:
    try:
        narrow(ceiling, tuple(grant for grant in scope if split(grant)[0] not in ONLY_ASKING))
    except ScopeExceeded:
        return False
    return True


async def _cards(path: Path) -> list[CommandCard]:
    return command_cards((await locate(path)).root)
