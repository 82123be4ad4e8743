"""Whether an agent is offered the tools of a server that does not run yet: all of them in one line."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from envelope.agents import ToolOffer

from ..agents.base import Agent
from ..permissions.guard import Guard
from ..permissions.rules import hidden
from .hub import is_reached, names_tool_of


def explain_servers(
    agent: Agent, guard: Guard, servers: Collection[str], capabilities: Collection[str] | None
) -> Iterator[ToolOffer]:
    """`docs_*` for each server; what it has is known when it runs."""
    for server in sorted(servers):
        tools = f"{server}_*"
        named = capabilities is None or names_tool_of(server, capabilities)
        said = {
            "switch": "" if names_tool_of(server, agent.tools) else f"tools: {', '.join(agent.tools)}",
            "capabilities": "" if named else "the request names none of them",
            "scope": "" if is_reached(server, guard.scope) else "there is no grant for any of them",
            "fixed": f"{tools}: *: deny, for ever" if hidden(guard.fixed, tools) else "",
            "rule": f"{tools}: *: deny" if hidden(guard.rules, tools) else "",
        }
        layer, why = next(((layer, why) for layer, why in said.items() if why), ("", ""))
        offered = layer == ""
        yield ToolOffer(tool=tools, offered=offered, layer=layer or "rule", why=why or "which, is known when it runs")
