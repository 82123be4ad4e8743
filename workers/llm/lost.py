"""Tries of a model call that began to answer and never ended: providers bill what they had sent by then."""

from __future__ import annotations

import math
from typing import Protocol

from .base import CallDelta, CallStarted, Completed, Failed, HiddenReasoning, ModelEvent, Reasoning, Text

# Right on average; nobody tells how many tokens the beginning of a reply had.
BYTES_PER_TOKEN = 4


class LostTries(Protocol):
    """Who pays for a call."""

    def add(self, output_tokens: int) -> None:
        """A try had said so much when it failed, or was cut off. Not told of tries that said nothing."""
        ...

    async def may_go_on(self) -> bool:
        """Is there money for one more try, after the last one that was told of?"""
        ...


class NobodyPays:
    """For models without a price, and for those who count themselves."""

    def add(self, output_tokens: int) -> None: ...

    async def may_go_on(self) -> bool:
        return True


NOBODY_PAYS = NobodyPays()


def said_bytes(event: ModelEvent) -> int:
    """Of a reply that is still growing."""
    match event:
        case Text(text) | Reasoning(text) | CallDelta(_, text):
            return len(text.encode(errors="replace"))
        case CallStarted(_, name):
            return len(name.encode(errors="replace"))
        case HiddenReasoning(size_bytes):
            return size_bytes
        case Completed() | Failed():
            return 0


def tokens_of_bytes(size_bytes: int) -> int:
    """
    >>> [tokens_of_bytes(size) for size in (0, 1, 4, 5)]
    [0, 1, 1, 2]
    """
    return math.ceil(size_bytes / BYTES_PER_TOKEN)
