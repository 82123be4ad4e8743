"""How model servers talk: a dialect reads a request and writes a reply. One row per wire format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .dialect_anthropic import error_anthropic, read_anthropic, refused_anthropic, stream_anthropic, whole_anthropic
from .dialect_openai import error_openai, read_openai, stream_openai, whole_openai
from .dialect_parts import Json
from .dialect_responses import error_responses, read_responses, stream_responses, whole_responses
from .script import Conversation, Reply


@dataclass(frozen=True, slots=True)
class Dialect:
    """`stream` yields the pieces in which a reply is sent; each piece is one write, and one event. `refused` says why
    the provider would not take a request; it is empty when it would."""

    read: Callable[[Json], Conversation]
    stream: Callable[[Reply, Conversation, Json], Iterator[bytes]]
    whole: Callable[[Reply, Conversation], Json]
    error: Callable[[int, str, str], Json]
    refused: Callable[[Json], str] = lambda body: ""


DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": Dialect(read_openai, stream_openai, whole_openai, error_openai),
    "/v1/responses": Dialect(read_responses, stream_responses, whole_responses, error_responses),
    "/v1/messages": Dialect(read_anthropic, stream_anthropic, whole_anthropic, error_anthropic, refused_anthropic),
}
