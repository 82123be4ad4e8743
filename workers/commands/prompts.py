"""Prompts of people on their way into a session: those that begin with `/name` are commands, and are expanded; of plain
words the files and subagents that they mention are added below."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from envelope.agent_params import UNDOING
from envelope.events import WarningRaised
from envelope.messages import TaskRequest

from ..agent.calls import answer
from ..agent.compacting import is_request
from ..agent.history import with_open_turn
from ..agent.means import Loop
from ..agent.session import Session
from ..agents.base import Agent
from ..errors import BadInput
from ..front_matter import read_beside
from ..llm.base import ChatMessage, ToolCall
from ..mcp.prompts import ServerPrompt
from ..project.framing import one_line
from ..recording.tape import Tape
from ..tools.errors import ToolError
from .catalogue import Catalogue, Known, catalogue, texts_in_sandbox, texts_of_user
from .expanding import MAX_PROMPT_CHARS, cut, expanded, mentioned, subagents
from .template import mentions, words

_TYPED = re.compile(r"/(\S+)(?:\s+(.*))?", re.DOTALL)
# Who does a command's work as a subtask when its file names nobody, or somebody who is no subagent.
SUBTASK_AGENT = "general"
SUBTASK = (
    "The command above is carried out by a subagent. When its answer is there, pass it on: whole if it is short, else"
    " what matters in it."
)


@dataclass(frozen=True, slots=True)
class Expansion:
    """A command as the model gets it; `subagent` does it, when one is named."""

    name: str
    text: str
    subagent: str = ""


EXPANSION = TypeAdapter(Expansion)
TEXT = TypeAdapter(str)


def is_from_person(request: TaskRequest) -> bool:
    """Words of another agent are no command: `/workspace/a.py` may well be their first one. Agents sign as
    `pool/agent`, drivers of people's goals by their name alone (see `children.py`)."""
    return request.parent_task_id is None or "/" not in request.sender


def is_command(prompt: str) -> bool:
    """
    >>> [is_command(text) for text in ("/review now", " /review", "/ a", "a/b")]
    [True, False, False, False]
    """
    return _TYPED.fullmatch(prompt) is not None


@dataclass(frozen=True, slots=True)
class Prompts:
    """`agents` are all that the worker knows; commands run with the loop's own tools, by its rules. `of_servers`: the
    prompts that MCP servers have now."""

    loop: Loop
    agents: Mapping[str, Agent]
    of_servers: Callable[[], Awaitable[Sequence[ServerPrompt]]]
    tape: Tape
    user_dir: Path | None = None

    async def opened(self, session: Session, said: str) -> Session:
        """The session with its last prompt expanded, and stored: what its commands did is not done again. `said` are
        the person's own words in it: those of what they brought along mention nobody.

        `BadInput` when there is no such command.
        """
        typed = session.messages[-1].content
        if session.outcome is not None:  # its last message is nobody's prompt
            return session
        label = f"command-{len(session.messages)}"
        if not is_command(typed):
            if not (below := await self._mentioned(said, label)):
                return session
            return await self.loop.save(_said(self._having_read(session), f"{typed}\n\n{below}"))
        found = await self.tape.kept("command", EXPANSION, lambda: self._expand(typed, session.agent, label=label))
        if found.subagent:
            return await self._delegated(self._having_read(session), typed, found)
        return await self.loop.save(_said(self._having_read(session), found.text))

    def _having_read(self, session: Session) -> Session:
        return session.model_copy(update={"read_digests": dict(self.loop.context.read_digests)})

    async def heard(self, agent: str) -> Sequence[str]:
        """What people said, commands expanded; one that cannot be is told to the model as it was typed, with why."""
        return [await self._heard(prompt, agent) for prompt in await self.loop.hear() if not self._is_late(prompt)]

    def _is_late(self, prompt: str) -> bool:
        """Is it for a session that has ended, as this one has not? Nobody else would say so: people are told."""
        if is_late := prompt.strip() in UNDOING:
            self.loop.emit(WarningRaised(message=f"{prompt.strip()} was not done: the session is under way"))
        return is_late

    async def _heard(self, prompt: str, agent: str) -> str:
        if is_request(prompt):
            return prompt
        # a session may hear the same words twice, and a long output is kept under its call's id
        label = f"command-{secrets.token_hex(4)}"
        if not is_command(prompt):
            below = await self._mentioned(prompt, label)
            return f"{prompt}\n\n{below}" if below else prompt
        try:
            found = await self._expand(prompt, agent, label=label)
        except BadInput as e:
            return f"{prompt}\n\n(This is taken as it stands: {e}; {e.hint}.)"
        if not found.subagent:
            return found.text
        return f"Let the subagent {found.subagent!r} do this, with one call of `task`:\n\n{found.text}"

    async def _mentioned(self, said: str, label: str) -> str:
        names = mentions(said)
        if not names:
            return ""
        return await self.tape.kept("mentions", TEXT, lambda: mentioned(names, self.loop, label=label))

    async def _expand(self, prompt: str, agent: str, *, label: str) -> Expansion:
        name, arguments = _typed(prompt)
        sandbox = await self.loop.context.sandbox()
        mine, theirs = await asyncio.gather(asyncio.to_thread(texts_of_user, self.user_dir), texts_in_sandbox(sandbox))
        commands = await read_beside(partial(catalogue, repository=theirs, users=mine))
        served = await self._served() if name == "help" or name not in commands.known else {}
        if name in served and name not in commands.known:
            return Expansion(name, await _filled(served[name], arguments))
        known = commands.named(name)
        text = await expanded(
            known.command.template, _arguments(name, known, commands, served, arguments), self.loop, label=label
        )
        return Expansion(name, text, self._subagent(known, agent))

    async def _served(self) -> dict[str, ServerPrompt]:
        return {prompt.command: prompt for prompt in await self.of_servers()}

    def _subagent(self, known: Known, agent: str) -> str:
        """Who does it as a subtask; nobody, when it is none or this session may start nobody."""
        runs_it = self.agents.get(known.command.agent or agent)
        if runs_it is None or not known.command.is_subtask(runs_it.mode):
            return ""
        startable = subagents(self.loop)
        return next((name for name in (known.command.agent, SUBTASK_AGENT) if name in startable), "")

    async def _delegated(self, session: Session, typed: str, found: Expansion) -> Session:
        """The session with the work handed on, as if its model had called `task`: parked, resumed and told as ever."""
        wanted = {"description": f"/{found.name}", "prompt": found.text, "subagent_type": found.subagent}
        # another in one session has another id; after a crash it is the same, which leads to the same child
        call = ToolCall(
            id=f"command-{len(session.messages)}-subtask", name="task", arguments=json.dumps(wanted), input=wanted
        )
        asked = ChatMessage(role="assistant", tool_calls=(call,))
        session = _said(session, f"{typed}\n\n{SUBTASK}")
        session = session.model_copy(update={"messages": (*session.messages, asked)})
        answers = await answer([call], self.loop.run_calls, self.loop.emit, left=None)
        return await self.loop.save(with_open_turn(session, answers, session.read_digests))


def _typed(prompt: str) -> tuple[str, str]:
    found = _TYPED.fullmatch(prompt)
    return (found[1], found[2] or "") if found else ("", prompt)


async def _filled(prompt: ServerPrompt, arguments: str) -> str:
    """What the server makes of it, which is never looked at again: a server runs no command, and attaches nothing."""
    try:
        return cut(await prompt.filled(words(arguments)), MAX_PROMPT_CHARS)
    except ToolError as e:
        raise BadInput(f"/{prompt.command} cannot be used: {e}", hint="say it in your own words, or try again") from e


def _arguments(name: str, known: Known, commands: Catalogue, served: Mapping[str, ServerPrompt], typed: str) -> str:
    """What fills the template's places: in our `/help` the list, which is never looked at again there."""
    if name != "help" or known.source != "builtin":
        return typed
    lines = [one_line(f"/{prompt.command}  {prompt.description} (MCP)") for prompt in served.values()]
    return "\n".join([commands.listing(), *lines])


def _said(session: Session, text: str) -> Session:
    """The session with its last prompt in other words."""
    *before, last = session.messages
    return session.model_copy(update={"messages": (*before, last.model_copy(update={"content": text}))})
