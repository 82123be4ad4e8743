"""The first layer of a system prompt: an agent's own words, or ours with what serves the model's family. Pure."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from ..agents.base import Agent
from ..agents.registry import builtin

# Part of a model's name → its family; the first row that is found counts.
FAMILIES: tuple[tuple[str, str], ...] = (
    (r"claude|anthropic", "anthropic"),
    (r"codex", "codex"),
    (r"gpt-oss", "default"),  # an open model that is trained otherwise
    (r"gpt-|\bo[134]\b", "gpt"),
    (r"gemini|gemma", "gemini"),
)


def family_of(model: str) -> str:
    """
    >>> [family_of(name) for name in ("anthropic/claude-opus-4", "openai/gpt-5-codex", "openai/o3-mini", "qwen3")]
    ['anthropic', 'codex', 'gpt', 'default']
    """
    return next((family for part, family in FAMILIES if re.search(part, model.lower())), "default")


def first_layer(agent: Agent, model: str) -> str:
    """The words of an agent's file stand alone. Who has none works by those of `build`, which suit any model once the
    habits of its family are added; and so does `build`."""
    ours = builtin()["build"].prompt
    words = agent.prompt or ours
    return f"{words}\n\n{_habits(family_of(model))}" if words == ours else words


@cache
def _habits(family: str) -> str:
    return (files("workers.agent") / "families" / f"{family}.md").read_text("utf-8").strip()
