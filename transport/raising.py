"""A trace's cap as something that people answer: a task that it stops waits for the ask named here."""

from __future__ import annotations

ASK_FOR_MORE = "budget:"


def ask_for_more(cap_microusd: int) -> str:
    """The name of the ask: `will you raise this cap?`"""
    return f"{ASK_FOR_MORE}{cap_microusd}"
