"""What a chat completions reply holds beside its words and calls, and how it goes back to the same model. Pure.

A reply's one item is laid over the message that our own text and calls make: `message` over the message, `calls` over
its calls, by our id. `reasoning_keys` are the names under which the text of its thoughts came. The rules:

- Thoughts go back under the name that they had: z.ai ("Thinking Mode": unmodified, together with the tool results),
  vLLM ("Interleaved Thinking", "Reasoning Outputs": `reasoning`, which was `reasoning_content`). Together uses either
  name, by model ("GLM-5.3 quickstart"); what it and LocalAI read again, we have not found documented.
- DeepSeek ("Thinking Mode") and Moonshot ("Using Thinking Models") refuse a message with calls that lacks
  `reasoning_content`; by bug reports, also where the model thought nothing, so an empty one is sent.
- OpenRouter ("Reasoning Tokens"): `reasoning_details` as one list, in the order in which it came; pieces of a stream
  that have one index are one block. Novita, Snowflake and MiniMax send it, too.
- Mistral ("Reasoning"): `content` with parts of type `thinking` goes back as such parts.
- Gemini's compatible server ("Thought Signatures"): `extra_content` of a message and of a call, at its place.

(Pages as seen 2026-11.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, cast

from .arguments import is_keepable
from .base import ChatMessage, ProviderItems, ToolCall

Json = dict[str, Any]

# How servers call the text of thoughts. Some send it under both names.
REASONING_KEYS = ("reasoning_content", "reasoning")
# What a message has beside the text of thoughts, in this format or laid over it.
OF_MESSAGES = frozenset(("role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal")).union(
    ("reasoning_details", "extra_content", "thinking_blocks", "provider_specific_fields", "cache_control", "audio")
)
THOUGHTS = frozenset({"thinking", "reasoning"})  # parts of content: Mistral's, Databricks'
MAX_PIECES = 8_192  # of thoughts that are kept apart; no reply has a hundred blocks of them
_GROWING = ("text", "summary", "data")


class Extras:
    """What deltas, or a whole message, say beside text, thoughts and calls."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._details: list[tuple[int, Json]] = []  # each with the number of its delta
        self._parts: list[tuple[int, Json]] = []
        self._message: Json = {}
        self._deltas = 0

    def add(self, delta: Mapping[str, Any], reasoning_keys: Sequence[str] = REASONING_KEYS) -> None:
        self._deltas += 1
        self._keys.update((key, None) for key in reasoning_keys if isinstance(delta.get(key), str))
        if details := delta.get("reasoning_details"):
            self._details = _bounded(self._details, ((self._deltas, dict(detail)) for detail in details))
        if extra := delta.get("extra_content"):
            self.lay_over("extra_content", extra)
        if content := delta.get("content"):
            self._parts = _bounded(self._parts, ((self._deltas, part) for part in parts_of(content)))

    def lay_over(self, name: str, value: Any) -> None:
        """Over the message, whenever it goes back."""
        self._message[name] = value

    def items(self, model: str, calls: Sequence[ToolCall], of_calls: Mapping[str, Json]) -> ProviderItems | None:
        """None where words and calls say it all. A call's id goes back where it is no other call's, too."""
        given = [call.provider_id or call.id for call in calls]
        times = Counter(given)
        laid_over = {
            call.id: ({"id": own} if own != call.id and times[own] == 1 else {}) | of_calls.get(call.id, {})
            for call, own in zip(calls, given, strict=True)
        }
        message = dict(self._message)
        if self._details:
            message["reasoning_details"] = _joined(self._details)
        if any(part.get("type") in THOUGHTS for _, part in self._parts):
            message["content"] = _joined(self._parts)
        keys = [] if self._details else list(self._keys)
        item = {
            "message": message,
            "reasoning_keys": keys,
            "calls": {one: over for one, over in laid_over.items() if over},
        }
        kept = {name: value for name, value in item.items() if value}
        return ProviderItems(model=model, items=(kept,)) if kept and is_keepable([kept]) else None


def item_of(message: ChatMessage, model: str) -> Json:
    """What this model gets back of its reply beside words and calls; nothing for any other model."""
    items = message.provider_items
    return dict(items.items[0]) if items and items.model == model else {}


def parts_of(content: object) -> Iterator[Json]:
    """A message's content, which is a text or a list of parts."""
    for part in [content] if isinstance(content, str) else cast(Sequence[object], content):
        yield {"type": "text", "text": part} if isinstance(part, str) else dict(cast(Json, part))


def text_of(part: Mapping[str, Any]) -> str:
    """The words of a part of content, or of a thought in it: a text, or a list of parts again."""
    if part.get("type") not in ("text", *THOUGHTS, "summary_text", "output_text"):
        return ""
    said: object = part.get("text") or part.get("thinking") or part.get("summary") or ""
    return said if isinstance(said, str) else "".join(map(text_of, parts_of(said)))


def _bounded(pieces: list[tuple[int, Json]], more: Iterable[tuple[int, Json]]) -> list[tuple[int, Json]]:
    """All of them, joined now and then: a piece of one letter takes a hundred times its size."""
    pieces.extend(islice(more, MAX_PIECES))
    if len(pieces) < MAX_PIECES:
        return pieces
    last, _ = pieces[-1]
    # numbered from before the next delta on, each apart: what comes next may belong to the last of them
    joined = [(last, block) for block in _joined(pieces)]
    if len(joined) > MAX_PIECES // 2:
        raise ValueError(f"a reply of more than {MAX_PIECES // 2} blocks")
    return joined


def _joined(pieces: Sequence[tuple[int, Json]]) -> list[Json]:
    """Neighbours of one type and index are one block, where they came in different deltas."""
    whole: list[Json] = []
    for _, group in groupby(pieces, key=lambda piece: (piece[1].get("type"), piece[1].get("index"))):
        blocks = list(group)
        if len({delta for delta, _ in blocks}) < len(blocks):  # a message that came whole
            whole += (block for _, block in blocks)
        else:
            whole.append(_block([block for _, block in blocks]))
    return whole


def _block(pieces: Sequence[Json]) -> Json:
    block: Json = {}
    by_name: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, value in piece.items():
            by_name.setdefault(name, []).append(value)
    for name, values in by_name.items():
        said = [value for value in values if value is not None]
        if name in _GROWING and all(isinstance(one, str) for one in said):
            block[name] = "".join(said) if said else None
        elif name == "thinking" and all(isinstance(one, list) for one in said):
            block[name] = _joined([(number, part) for number, parts in enumerate(said) for part in parts_of(parts)])
        elif name == "thinking" and all(isinstance(one, str) for one in said):
            block[name] = "".join(said)
        else:
            block[name] = said[-1] if said else None
    return block
