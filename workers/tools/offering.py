"""Why an agent is offered a tool, or is not: which layer decided."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from envelope.agents import ToolOffer
from envelope.pattern import match
from envelope.scope import GOVERNED_BY, offers

from ..agents.base import Agent
from ..permissions.guard import Guard
from ..permissions.rules import Rule, hidden
from .plan_file import WRITERS, plans
from .registry import all_tools, names_of, unused_editors
from .web import WEB_TOOLS
from .websearch import WebSearch


def explain(
    agent: Agent,
    guard: Guard,
    capabilities: Collection[str] | None,
    *,
    starts_others: bool,
    searches: bool,
    model: str = "",
) -> Iterator[ToolOffer]:
    """Each tool, by name. `registry.offered` shows the model those that are offered here.

    `starts_others`: is there anybody whom `task` could start? `searches`: is there a service for `websearch`?
    """
    unused = unused_editors(guard, model)
    own_file = WRITERS if plans(guard) else frozenset[str]()
    for tool in sorted([*all_tools({"somebody": ""}), *WEB_TOOLS]):
        names = names_of(tool)
        switch = next((switch for switch in agent.tools for name in sorted(names) if match(switch, name)), "")
        permission = GOVERNED_BY.get(tool, tool)
        said = {
            "model": "this model edits with other tools" if tool in unused else "",
            "catalogue": "there is nobody to start" if tool == "task" and not starts_others else "",
            "settings": "no search_url is set" if tool == WebSearch.name and not searches else "",
            "switch": "" if switch else f"tools: {', '.join(agent.tools)}",
            "capabilities": "the request does not name it" if _is_missing(names, capabilities) else "",
            "scope": "" if tool in own_file or offers(guard.scope, tool) else "there is no grant for it",
            "fixed": f"{permission}: *: deny, for ever" if tool not in own_file and hidden(guard.fixed, tool) else "",
            "rule": f"{permission}: *: deny" if tool not in own_file and hidden(guard.rules, tool) else "",
        }
        layer, why = next(((layer, why) for layer, why in said.items() if why), ("", ""))
        if layer:
            yield ToolOffer(tool=tool, offered=False, layer=layer, why=why)
        else:
            why = "its plan file only" if tool in own_file else _how_freely(guard.rules, permission)
            yield ToolOffer(tool=tool, offered=True, layer="rule", why=why)


def _is_missing(names: Collection[str], capabilities: Collection[str] | None) -> bool:
    return capabilities is not None and not set(names) & set(capabilities)


def _how_freely(rules: Collection[Rule], permission: str) -> str:
    """What the rules say about it, the last first, down to the one on everything."""
    told: list[str] = []
    for rule in reversed([*rules]):
        if match(rule.permission, permission):
            told.append(f"{rule.pattern}: {rule.action}")
            if rule.pattern == "*":
                break
    return ", ".join(dict.fromkeys(told)) or "*: ask"
