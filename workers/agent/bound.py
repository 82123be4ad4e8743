"""How many tokens a request can have at most. Pure.

An estimate of four characters a token is right on average and wrong for the text that somebody chose: money needs a
bound. No tokenizer makes more tokens than there are bytes. What was sent before is known from the provider's own count.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic_core import PydanticSerializationError, to_json

from ..llm.base import ChatMessage, ToolSpec
from ..llm.files import file_tokens
from .session import Session
from .shown import shown

# Roles, separators, names of fields: providers add from 3 to about 10 for each message, and some more for each tool.
MESSAGE_TOKENS = 16
TOOL_TOKENS = 32


def window_tokens(session: Session, tools: Sequence[ToolSpec]) -> int:
    """Of the session's next request."""
    counted = session.counted
    if counted is None:
        return request_tokens(shown(session), tools)
    grown = max(0, tool_tokens(tools) - counted.tool_tokens)  # a server of tools may offer more at any turn
    return counted.tokens + grown + sum(map(_message, session.messages[counted.messages :]))


def request_tokens(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> int:
    return sum(map(_message, messages)) + tool_tokens(tools)


def tool_tokens(tools: Sequence[ToolSpec]) -> int:
    return sum(map(_tool, tools))


def _message(message: ChatMessage) -> int:
    calls = sum(_bytes(call.name) + _bytes(call.arguments) + MESSAGE_TOKENS for call in message.tool_calls)
    files = sum(map(file_tokens, message.files))
    # what a provider gets back as it sent it, it counts itself (`counted`), but for a session that another model made
    items = sum(len(to_json(item)) for item in message.provider_items.items) if message.provider_items else 0
    return max(items, _bytes(message.content) + _bytes(message.reasoning) + calls) + files + MESSAGE_TOKENS


def _tool(tool: ToolSpec) -> int:
    try:
        parameters = len(to_json(tool.parameters, indent=1))
    except PydanticSerializationError:  # half a surrogate pair, in the words of somebody's server
        parameters = len(json.dumps(tool.parameters))
    return _bytes(tool.name) + _bytes(tool.description) + parameters + TOOL_TOKENS


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
