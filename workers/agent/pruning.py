"""Pruning: old outputs of tools are cleared to make room, without a model and without a summary. Pure.

Off unless somebody turns it on: it changes old messages, and with them the start of the request that providers cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..llm.base import ChatMessage
from .compaction import estimate_tokens, is_prompt, is_summary

CLEARED = "(this output was cleared to make room; make the call again if you need it)"

KEPT_TURNS = 2
# Of the outputs before those turns, the newest stay: about as much as a long look through a code base.
KEPT_TOKENS = 40_000
# Less is not worth a prefix that the provider must read anew.
MIN_GAIN_TOKENS = 20_000
# A skill is an instruction, and holds for the whole session.
PROTECTED_TOOLS = frozenset({"skill"})


def prune(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """The messages with old outputs cleared, or as they were when that would gain too little."""
    found = [*_clearable(messages)]
    if sum(estimate_tokens(messages[index].content) for index in found) <= MIN_GAIN_TOKENS:
        return tuple(messages)
    cleared = frozenset(found)
    return tuple(
        message.model_copy(update={"content": CLEARED, "files": ()}) if index in cleared else message
        for index, message in enumerate(messages)
    )


def _clearable(messages: Sequence[ChatMessage]) -> Iterator[int]:
    """Where the outputs stand that may go, the newest first; up to a summary, or to where the last pruning came."""
    prompts = [index for index, message in enumerate(messages) if is_prompt(message)]
    seen_tokens = 0
    for index in reversed(range(prompts[-KEPT_TURNS] if len(prompts) >= KEPT_TURNS else 0)):
        message = messages[index]
        if is_summary(message) or message.content == CLEARED:
            return
        if message.role != "tool" or message.is_error or message.name.lower() in PROTECTED_TOOLS:
            continue
        seen_tokens += estimate_tokens(message.content)
        if seen_tokens > KEPT_TOKENS:
            yield index
