"""Anthropic's messages. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from envelope.budget import Usage

from .anthropic_format import messages_for, system_for, tools_for
from .assembly import Assembly
from .base import Completed, Failed, Failure, ModelEvent, Thought
from .failures import ProviderError, failed
from .options import ANTHROPIC, sent
from .wire import Json, Question, part

# The format demands a limit. Every model can say this much; the list knows better for most.
DEFAULT_OUTPUT_TOKENS = 8192
VERSION = "2023-06-01"
FULL = "model_context_window_exceeded"
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
# An error in the middle of a stream has a type and no status.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "api_error": 500,
    "overloaded_error": 529,
}


class AnthropicWire:
    path = "/v1/messages"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key, "anthropic-version": VERSION}

    def body(self, question: Question) -> Json:
        temperature = question.temperature
        optional = {
            "system": system_for(question.messages) or None,
            "temperature": None if temperature is None else min(temperature, 1.0),  # others go up to 2
            **tools_for(question.messages, question.tools),
        }
        return {
            **sent(question.options, ANTHROPIC),
            "model": question.model,
            "messages": messages_for(question.messages, question.full_name),
            "max_tokens": question.max_output_tokens or DEFAULT_OUTPUT_TOKENS,
            "stream": True,
        } | {name: value for name, value in optional.items() if value is not None}

    def reader(self, question: Question) -> AnthropicReader:
        return AnthropicReader(question.full_name)

    def error(self, answer: Json) -> ProviderError:
        return _error(answer)


class AnthropicReader:
    def __init__(self, model: str) -> None:
        self._model = model
        self._reply = Assembly()
        self._blocks: dict[int, Json] = {}  # thoughts, and calls, by their place in the reply
        self._usage: Json = {}
        self._reason = ""
        self.is_over = False

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        event: Json = json.loads(data)
        match event.get("type"):
            case "content_block_delta":
                yield from self._delta(event["index"], event["delta"])
            case "content_block_start":
                yield from self._start(event["index"], event["content_block"])
            case "message_start":
                self._usage.update(part(event["message"], "usage"))
            case "message_delta":
                self._reason = event["delta"].get("stop_reason") or self._reason
                self._usage.update({name: n for name, n in part(event, "usage").items() if n is not None})
                if self._reason == FULL:
                    yield Failed(Failure.OVERFLOW, "the model's window was full before its reply was whole")
            case "message_stop":
                self.is_over = True
            case "error":
                yield failed(_error(event))
            case _:
                pass  # pings, ends of blocks, and what is invented later

    def completed(self) -> Completed | None:
        if not (self.is_over and self._reason):
            return None
        reason = _REASONS.get(self._reason, self._reason)
        return self._reply.completed(reason, _usage(self._usage), self._thoughts())

    def _start(self, index: int, block: Json) -> Iterator[ModelEvent]:
        match block.get("type"):
            case "text":
                yield from self._reply.add_text(block.get("text") or "")
            case "tool_use":
                # Compatible servers may send the whole input here, and no deltas.
                arguments = json.dumps(block["input"]) if block.get("input") else ""
                yield from self._reply.add_call(index, block["id"], block["name"], arguments)
            case "thinking":
                self._blocks[index] = {"text": [block.get("thinking") or ""], "signature": block.get("signature") or ""}
                yield from self._reply.add_reasoning(block.get("thinking") or "")
            case "redacted_thinking":
                self._blocks[index] = {"sealed": block["data"]}
            case _:
                pass

    def _delta(self, index: int, delta: Json) -> Iterator[ModelEvent]:
        match delta.get("type"):
            case "text_delta":
                yield from self._reply.add_text(delta["text"])
            case "input_json_delta":
                yield from self._reply.add_call(index, "", "", delta["partial_json"])
            case "thinking_delta":
                self._blocks[index]["text"].append(delta["thinking"])
                yield from self._reply.add_reasoning(delta["thinking"])
            case "signature_delta":
                self._blocks[index]["signature"] += delta["signature"]
            case _:
                pass

    def _thoughts(self) -> tuple[Thought, ...]:
        """What must be sent back: unsigned thoughts need not, and would be refused."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        return tuple(
            Thought(
                model=self._model,
                text="".join(block.get("text", ())),
                signature=block.get("signature", ""),
                sealed=block.get("sealed", ""),
            )
            for block in blocks
            if block.get("signature") or block.get("sealed")
        )


def _usage(usage: Mapping[str, Any]) -> Usage:
    """The format counts what its cache had, or took in, beside the other input."""
    read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
    return Usage(
        input_tokens=(usage.get("input_tokens") or 0) + read + written,
        output_tokens=usage.get("output_tokens") or 0,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=part(usage, "output_tokens_details").get("thinking_tokens") or 0,
    )


def _error(answer: Json) -> ProviderError:
    found: object = answer.get("error")
    if not isinstance(found, dict):
        return ProviderError(message=str(found or answer.get("message") or ""))
    error = cast(Json, found)
    kind = str(error.get("type") or "")
    return ProviderError(message=str(error.get("message") or ""), status=_STATUS.get(kind), kind=kind)
