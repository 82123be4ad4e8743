"""What the tests of the loop run with: two real tools without a sandbox, and a loop around a model server's URL.

As a program it finishes sessions that another process began: `agent_kit.py URL SESSION…` prints each finished one as a
line.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from envelope.budget import Budget
from envelope.events import Event
from envelope.messages import TaskResult
from sandbox.base import Sandbox
from workers.agent.history import open_session
from workers.agent.loop import run
from workers.agent.means import Loop
from workers.agent.policy import WindowPolicy
from workers.agent.session import Session
from workers.agent.tills import NO_TILL, Till
from workers.agents.registry import parse_agent
from workers.llm.direct import DirectModel
from workers.llm.prices import Price, cost_microusd
from workers.llm.retry import Retrying, RetryPolicy
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS
from workers.tools.base import ChildRequest, Target, Tool, ToolContext, ToolResult
from workers.tools.dispatch import run_calls

AGENT = parse_agent("tester", "---\ndescription: answers from two tools\nmode: primary\n---\nYou look things up.")
PRICE = Price(input_microusd=3_000_000, output_microusd=15_000_000)
QUICK = RetryPolicy(tries=3, base_ms=1, cap_ms=2)


class Lookup:
    name = "lookup"
    description = "The meaning of a word."
    parameters: ClassVar = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    meanings: ClassVar = {"muster": "to gather", "fence": "a border", "park": "to wait"}

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target("lookup", arguments["word"])]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["word"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        word = arguments["word"]
        return ToolResult(self.meanings.get(word, "not found"), title=word, is_error=word not in self.meanings)


class Note:
    """Keeps what it is given in memory, and in the session's digests, as the file tools do."""

    name = "note"
    description = "Write a note."
    parameters: ClassVar = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    def __init__(self) -> None:
        self.notes: list[str] = []

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target("note", "*")]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return "note"

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.notes.append(arguments["text"])
        context.read_digests["notes"] = str(len(self.notes))
        context.may_have_written = True
        return ToolResult(f"noted {arguments['text']}", title="note")


class NoChildren:
    def in_background(self, agent: str) -> bool:
        raise AssertionError("this agent has no subagents")

    async def start(self, request: ChildRequest) -> str:
        raise AssertionError("this agent has no subagents")

    async def sent_to_background(self, task_ids: Sequence[str]) -> Sequence[str]:
        raise AssertionError("this agent has no subagents")

    async def ended(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        raise AssertionError("this agent has no subagents")

    async def tell(self, session: str, text: str) -> bool:
        raise AssertionError("this agent has no subagents")

    async def ended_by_now(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        raise AssertionError("this agent has no subagents")

    def catalogue(self) -> Mapping[str, str]:
        return {}


async def no_sandbox() -> Sandbox:
    raise AssertionError("these tools need no sandbox")


@dataclass
class Bench:
    """One loop, and what it left behind."""

    url: str
    scope: tuple[str, ...] = ("lookup:**", "note:**")
    chunk_timeout_s: float = 30.0
    events: list[Event] = field(default_factory=list)
    saved: list[bytes] = field(default_factory=list)
    note: Note = field(default_factory=Note)
    exhausted: str = ""
    said: list[str] = field(default_factory=list)  # by people; heard before the next turn
    policy: WindowPolicy = field(default_factory=WindowPolicy)
    till: Till = NO_TILL
    price: Price = PRICE
    outside: frozenset[str] = frozenset()
    model: str = "openai/scripted"

    stopped: bool = False  # is it the task's end that cuts off the loop?

    def loop(self, digests: Mapping[str, str] | None = None) -> Loop:
        tools: dict[str, Tool] = {"lookup": Lookup(), "note": self.note}
        context = ToolContext(sandbox=no_sandbox, children=NoChildren(), read_digests=dict(digests or {}))
        guard = Guard(self.scope, DEFAULTS)
        model = DirectModel(self.model, self.url, "a-key-of-nobody", chunk_timeout_s=self.chunk_timeout_s)
        return Loop(
            model=Retrying(model, self.events.append, QUICK),
            tools=tools,
            run_calls=lambda calls, on_change: run_calls(calls, tools, context, guard, on_change),
            context=context,
            emit=self.events.append,
            save=self._save,
            hear=self._hear,
            price=lambda usage, rank: cost_microusd(self.price, usage, rank),
            exhausted=lambda: self.exhausted,
            policy=self.policy,
            till=self.till,
            is_outside=lambda name: name in self.outside,
            is_stopped=lambda: self.stopped,
        )

    async def run(self, session: Session) -> Session:
        return await run(session, self.loop(session.read_digests))

    async def _save(self, session: Session) -> Session:
        self.saved.append(session.dump())
        return session

    async def _hear(self) -> Sequence[str]:
        heard, self.said = self.said, []
        return heard

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def told(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]


def opened(prompt: str = "What is it?", **budget: int) -> Session:
    return open_session(AGENT, model="openai/scripted", system="You look up.", prompt=prompt, budget=Budget(**budget))


async def finish(url: str, paths: list[str]) -> None:
    for path in paths:
        finished = await Bench(url).run(Session.load(Path(path).read_bytes()))
        sys.stdout.write(finished.dump().decode() + "\n")


if __name__ == "__main__":
    asyncio.run(finish(sys.argv[1], sys.argv[2:]))
