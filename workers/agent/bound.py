"""How many tokens a request can have at most. Pure.

An estimate of four characters a token is right on average and wrong for the text that somebody chose: money needs a
bound. No tokenizer makes more tokens than there are bytes. What was sent before is known from the provider's own count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..llm.base import ChatMessage, FilePart, ToolCall, ToolSpec
from ..llm.files import file_tokens, most_tokens, sent_files
from .policy import WindowPolicy
from .session import Session
from .shown import messages_as_shown, shown

# Roles, separators, names of fields: providers add from 3 to about 10 for each message, and some more for each tool.
MESSAGE_TOKENS = 16
TOOL_TOKENS = 32
# What is said of a file, or in its place, beside its name: see `llm.files` and `llm.openai_format`.
FILE_WORDS_TOKENS = 256
# Of all models in the public list, for one whose window nobody knows.
LARGEST_WINDOW_TOKENS = 10_485_760


@dataclass(frozen=True, slots=True)
class Size:
    """Of a request. `tokens`: its words at most, and its files as they usually are; `most`: with its files at most."""

    tokens: int
    most: int


def window_size(session: Session, tools: Sequence[ToolSpec], policy: WindowPolicy) -> Size:
    """Of the session's next request."""
    counted = session.counted
    if counted is None:
        words = request_tokens(shown(session), tools)
    else:
        grown = max(0, tool_tokens(tools) - counted.tool_tokens)  # a server of tools may offer more at any turn
        words = counted.tokens + grown + request_tokens(messages_as_shown(session)[counted.messages :])
    files = _new_files(session, policy)
    window = policy.limits.input or policy.limits.context or LARGEST_WINDOW_TOKENS
    most = words + sum(most_tokens(file, session.model, window) for file in files)
    # what is longer than the window, the provider refuses; that words are counted as bytes is no reason to hope so
    return Size(words + sum(map(file_tokens, files)), min(most, max(words, window)))


def new_documents(session: Session, policy: WindowPolicy) -> tuple[int, ...]:
    """Where the PDFs stand that the next request brings, and that no provider has counted yet: indices of messages."""
    sent = {file.blob for file in sent_files(shown(session), policy.sees) if file.kind == "pdf"}
    known = _counted_files(session)
    fresh = ((n, _uncounted(message.files, known)) for n, message in enumerate(messages_as_shown(session)))
    return tuple(n for n, files in fresh if any(file.blob in sent for file in files))


def _new_files(session: Session, policy: WindowPolicy) -> list[FilePart]:
    """Those of the next request that were not in the counted one. One that had no room there can come back."""
    return _uncounted(sent_files(shown(session), policy.sees), _counted_files(session))


def _counted_files(session: Session) -> Counter[str]:
    return Counter(session.counted.files if session.counted else ())


def _uncounted(files: Sequence[FilePart], known: Counter[str]) -> list[FilePart]:
    """Takes those that are counted out of `known`: a second one with the same content is sent once more, and paid."""
    found: list[FilePart] = []
    for file in files:
        if known[file.blob] > 0:
            known[file.blob] -= 1
        else:
            found.append(file)
    return found


def request_tokens(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> int:
    """The words of a request, without its files."""
    return sum(map(_message, messages)) + tool_tokens(tools)


def tool_tokens(tools: Sequence[ToolSpec]) -> int:
    return sum(map(_tool, tools))


def _message(message: ChatMessage) -> int:
    calls = sum(map(_call, message.tool_calls))
    files = sum(_bytes(file.name) + FILE_WORDS_TOKENS for file in message.files)
    # what a provider gets back as it sent it, it counts itself (`counted`), but for a session that another model made
    items = sum(map(_json_bytes, message.provider_items.items)) if message.provider_items else 0
    return max(items, _bytes(message.content) + _bytes(message.reasoning) + calls) + files + MESSAGE_TOKENS


def _call(call: ToolCall) -> int:
    # Some formats send the object that was read, where 1e15 is written as 1000000000000000.0.
    again = 0 if call.input is None else _json_bytes(call.input, ascii_only=call.repaired)
    return _bytes(call.name) + max(_bytes(call.arguments), again) + MESSAGE_TOKENS


def _tool(tool: ToolSpec) -> int:
    return _bytes(tool.name) + _bytes(tool.description) + _json_bytes(tool.parameters, indent=1) + TOOL_TOKENS


def _json_bytes(value: Any, *, ascii_only: bool = False, indent: int | None = None) -> int:
    """Of the longest way in which it is usually written."""
    return _bytes(json.dumps(value, ensure_ascii=ascii_only, indent=indent))


def _bytes(text: str) -> int:
    """Half a surrogate pair is no character: it goes as an escape, of six."""
    return len(text.encode(errors="backslashreplace"))
