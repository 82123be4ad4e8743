"""Usage and limits as other programs write them. Pure.

Beside our own values, maps and objects are read that name their parts as OpenCode does (`{total?, input, output,
cache: {read, write}}`, `{limit: {context, input?, output}}`) or as we do (`input_tokens`, …).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..duck import first
from .limits import ModelLimits

TOTAL = ("total_tokens", "total")
# Where there is no total, these make one. Ours has one: its `input_tokens` are all that was sent.
PARTS = (
    ("input_tokens", "input"),
    ("output_tokens", "output"),
    ("cache_read_tokens", "cached_tokens", "cache_tokens", "cache_read", "cache"),
    ("cache_write_tokens", "cache_write"),
)


def tokens_of(usage: object) -> int:
    """What a call took of the window.

    >>> tokens_of({"input": 3, "output": 4, "cache": {"read": 50, "write": 600}}), tokens_of({"total": 9, "input": 3})
    (657, 9)
    """
    return _number(first(usage, *TOTAL)) or sum(_number(first(usage, *names)) for names in PARTS)


def limits_of(model: object) -> ModelLimits:
    """
    >>> limits_of({"limit": {"context": 200_000, "output": 8_000}})
    ModelLimits(context=200000, output=8000, input=None)
    """
    if isinstance(model, ModelLimits):
        return model
    limits = first(model, "limit", "limits") or model
    return ModelLimits(
        context=_number(first(limits, "context", "context_window", "context_limit")),
        output=_number(first(limits, "output", "output_limit", "max_output_tokens")),
        input=_number(first(limits, "input", "input_limit")) or None,
    )


def _number(written: object) -> int:
    """A number; the sum of several; 0 for what is none."""
    if isinstance(written, Mapping):
        return sum(map(_number, cast(Mapping[Any, object], written).values()))
    return max(0, written) if isinstance(written, int) else 0
