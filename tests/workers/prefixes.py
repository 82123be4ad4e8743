"""Is what a model has been shown ever changed? Compares the requests that a scripted server was asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from workers.agent.compaction import SUMMARY_ASKED

Json = dict[str, Any]


def said(body: Json) -> list[str]:
    """All that a request says, a line for each block, item or message: neighbours of a side may be one message."""
    head = [body.get(name) for name in ("system", "instructions", "tools", "prompt_cache_key")]
    lines = [json.dumps(_unmarked(head))]
    for message in body.get("messages") or body.get("input") or ():
        content = message.get("content")
        blocks = content if isinstance(content, list) and "system" in body else [message]
        lines += [json.dumps({"role": message.get("role"), **_unmarked(block)}) for block in blocks]
    return lines


def changed_prefixes(bodies: Iterable[Json]) -> list[str]:
    """The first line that was said and then changed, of each conversation: one model, the same tools and first prompt.

    A conversation may be forked, or made again from a checkpoint: then a request begins with an earlier one's words. A
    summary begins anew.
    """
    found: list[str] = []
    conversations: dict[str, list[list[str]]] = {}
    for body in bodies:
        lines = said(body)
        if any(SUMMARY_ASKED.content in line for line in lines):
            continue
        key = json.dumps([body.get("model"), *lines[:3]])
        conversations.setdefault(key, []).append(lines)
    for requests in conversations.values():
        for before, now in pairwise(requests):
            if now[: len(before)] != before and before[: len(now)] != now:
                at = next(n for n, (old, new) in enumerate(zip(before, now, strict=False)) if old != new)
                found.append(f"{before[at][:300]}\n became {now[at][:300]}")
    return found


def _unmarked(value: Any) -> Any:
    """Without cache marks, which move and are no part of what is cached."""
    if isinstance(value, Mapping):
        return {name: _unmarked(part) for name, part in value.items() if name != "cache_control"}
    return [_unmarked(part) for part in value] if isinstance(value, list) else value
