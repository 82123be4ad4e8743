"""What each of Anthropic's models takes beside words and tools: thinking, effort, temperature. Pure.

By version and not by name, so that next month's model is asked like the last one before it. Rules of
platform.claude.com/docs, seen 2026-11-27: "Troubleshooting thinking" (which kind of thinking a model takes), "Effort",
"Preserved thinking"; defaults as Claude Code 2.1 sends them.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

Json = dict[str, Any]

_NAME = re.compile(
    r"claude-(?:(?P<family>opus|sonnet|haiku|fable|mythos)-)?(?P<major>\d)(?:[-.](?P<minor>\d{1,2}))?(?!\d)"
)
PREVIEW = "claude-mythos-preview"
INTERLEAVED = "interleaved-thinking-2025-05-14"  # thoughts between tool calls, where a budget is given by hand
BINDING = "thinking-binding-controls-2026-08-01"
# What models before 4.6 may think, by effort; the highest is Claude Code's.
_BUDGETS = {"low": 4_000, "medium": 10_000, "high": 31_999, "max": 63_999}
# What is left for the answer writes a file of 30 KB.
MIN_BUDGET_TOKENS, MIN_ANSWER_TOKENS = 1_024, 8_192


class Claude(NamedTuple):
    family: str
    version: tuple[int, int]

    @property
    def takes_temperature(self) -> bool:
        return self.version < (4, 7)

    @property
    def thinks_adaptively(self) -> bool:
        return self.version >= (4, 6)

    @property
    def thinks_by_budget(self) -> bool:
        return (3, 7) <= self.version < (4, 6)

    @property
    def takes_effort(self) -> bool:
        return self.thinks_adaptively or (self.family, self.version) == ("opus", (4, 5))

    def effort(self, wanted: str) -> str:
        """As the model knows it; empty when it knows none. Claude Code asks for `high` where nobody says another."""
        if not self.takes_effort:
            return ""
        effort = {"": "high", "none": "low", "minimal": "low"}.get(wanted, wanted)
        if effort == "xhigh" and self.version < (4, 7):
            return "high"
        return "high" if effort == "max" and not self.thinks_adaptively else effort

    @property
    def checks_prefixes(self) -> bool:
        """Does it refuse thoughts whose conversation has changed?"""
        return self.version >= (5, 1)


def claude_of(model: str) -> Claude | None:
    """None for what is none of theirs, and speaks their format all the same.

    >>> claude_of("claude-opus-4-5-20251101"), claude_of("claude-fable-5.1")
    (Claude(family='opus', version=(4, 5)), Claude(family='fable', version=(5, 1)))
    >>> claude_of("claude-3-7-sonnet-20250219").version, claude_of("claude-sonnet-4-20250514").version
    ((3, 7), (4, 0))
    """
    if PREVIEW in model:
        return Claude("mythos", (4, 7))
    found = _NAME.search(model)
    if found is None:
        return None
    return Claude(found["family"] or "", (int(found["major"]), int(found["minor"] or 0)))


def thinking_for(claude: Claude, effort: str, max_tokens: int, *, at_home: bool) -> tuple[Json, tuple[str, ...]]:
    """The fields of a request that say how hard to think, and the betas that they need.

    `effort` is empty for the model's own. A thought that no longer fits its conversation is to be left out by the
    server, which says so, and must not fail the request.
    """
    if claude.thinks_adaptively:
        thinking: Json = {"type": "adaptive"}
        if claude.version >= (4, 7):
            thinking["display"] = "summarized"  # these show nothing else; people watch what an agent thinks
        binds = claude.checks_prefixes and at_home
        if binds:
            thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        return {"thinking": thinking, "output_config": {"effort": claude.effort(effort)}}, (BINDING,) if binds else ()
    budget = min(_BUDGETS.get(effort, _BUDGETS["high"]), max_tokens - MIN_ANSWER_TOKENS)
    if not claude.thinks_by_budget or budget < MIN_BUDGET_TOKENS:
        return {}, ()
    fields = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if known := claude.effort(effort):
        fields |= {"output_config": {"effort": known}}
    return fields, (INTERLEAVED,) if claude.version >= (4, 0) else ()
