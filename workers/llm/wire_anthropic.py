"""Anthropic's messages. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from envelope.budget import Usage

from .anthropic_format import messages_for, reply_blocks, system_for, tools_for
from .arguments import Repairs, parsed
from .assembly import Assembly, verbatim
from .base import Completed, Failed, Failure, HiddenReasoning, ModelEvent
from .claude import claude_of, thinking_for
from .failures import ProviderError, failed, interrupted
from .openai_format import sayable
from .options import ANTHROPIC, left_out, sent
from .wire import Json, Question, counted, part, said_usage

# The format demands a limit. These are for models that the list does not know: one that any server's model can do, and
# one that every Claude of the last years can.
DEFAULT_OUTPUT_TOKENS = 8_192
NEWER_OUTPUT_TOKENS = 32_000
VERSION = "2023-06-01"
FULL = "model_context_window_exceeded"
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "pause",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "refusal",
}
# Whoever says these is a person or a tool; a reply that holds one goes back in our words.
NOT_OF_MODEL = frozenset({"tool_result", "image", "document", "search_result"})
DROPPED = "the provider left out {} earlier thoughts of the model, which no longer fit what stands before them"
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

    def headers(self, key: str, question: Question) -> Mapping[str, str]:
        betas = _thinking(question)[1]
        return {"x-api-key": key, "anthropic-version": VERSION} | ({"anthropic-beta": ",".join(betas)} if betas else {})

    def body(self, question: Question) -> Json:
        thinking, _ = _thinking(question)
        optional = {
            "system": system_for(question.messages) or None,
            "temperature": _temperature(question),
            **tools_for(question.messages, question.tools, question.tool_choice),
        }
        return {
            **sent(question.options, ANTHROPIC),
            **thinking,
            "model": question.model,
            "messages": messages_for(question.messages, question.full_name),
            "max_tokens": _max_tokens(question),
            "stream": True,
        } | {name: value for name, value in optional.items() if value is not None}

    def remarks(self, question: Question) -> Iterator[str]:
        if question.temperature is not None and _temperature(question) is None:
            yield from question.not_sent([f"temperature {question.temperature:g}"])
        if question.effort and "thinking" not in question.options:
            yield from question.effort_told(_effort_sent(question))
        yield from question.not_sent(left_out(question.options, ANTHROPIC))

    def reader(self, question: Question) -> AnthropicReader:
        return AnthropicReader(question)

    def error(self, answer: Json) -> ProviderError:
        return _error(answer)


def _thinking(question: Question) -> tuple[Json, tuple[str, ...]]:
    """An agent's own `thinking` goes before ours, and so does a temperature where the model takes one of the two and is
    not to think hard."""
    claude = claude_of(question.model)
    if claude is None or "thinking" in question.options:
        return {}, ()
    if question.temperature is not None and claude.takes_temperature and question.effort in ("", "low"):
        return {}, ()
    return thinking_for(claude, question.effort, _max_tokens(question), at_home=question.at_home)


def _effort_sent(question: Question) -> str:
    """A budget of thoughts says all words but the lowest and the highest in its own way."""
    thinking, _ = _thinking(question)
    effort = part(thinking, "output_config").get("effort")
    return str(effort) if effort else question.effort if thinking else ""


def _temperature(question: Question) -> float | None:
    claude = claude_of(question.model)
    refuses = claude is not None and (not claude.takes_temperature or bool(_thinking(question)[0]))
    if question.temperature is None or refuses:
        return None
    return min(question.temperature, 1.0)  # others go up to 2


def _max_tokens(question: Question) -> int:
    """Thoughts count in it, so it is the model's own."""
    usual = NEWER_OUTPUT_TOKENS if claude_of(question.model) else DEFAULT_OUTPUT_TOKENS
    return question.reply_limit_tokens or usual


class AnthropicReader:
    """Blocks of the reply as they grow, each by its place in it."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._reply = Assembly()
        self._blocks: dict[int, _Block] = {}
        self._usage: Json = {}
        self._reason = ""
        self._refusal = ""
        self._dropped = 0
        self.is_over = False

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        event: Json = json.loads(data)
        match event.get("type"):
            case "content_block_delta":
                yield from self._delta(event["index"], event["delta"])
            case "content_block_start":
                yield from self._start(event["index"], event["content_block"])
            case "message_start" if self._blocks:
                yield interrupted("its server began anew in the middle")
            case "message_start":
                yield from self._message(event["message"])
            case "message_delta":
                yield from self._ended(event["delta"], part(event, "usage"))
                self._look_for_dropped(event)
            case "message_stop":
                self.is_over = True
            case "message":  # a server that does not stream
                yield from self._message(event)
                yield from self._ended(event, {})
                self.is_over = True
            case "error":
                yield failed(_error(event))
            case _:
                pass  # pings, ends of blocks, and what is invented later

    def completed(self) -> Completed | None:
        if not (self.is_over and self._reason in _REASONS):
            return None
        if self._refusal:
            self._reply.add_text(self._refusal)
        usage = counted(
            said_usage(_usage, self._usage), self._question.messages, self._question.tools, self._reply.chars
        )
        reply = self._reply.completed(_REASONS[self._reason], usage)
        items = self._items()
        # most replies hold nothing but words and calls, and need not be kept twice
        if items != reply_blocks(reply.text, reply.tool_calls) and self._goes_back(reply, items):
            reply = replace(reply, provider_items=verbatim(self._question.full_name, items))
        if self._dropped:
            reply = replace(reply, remarks=(DROPPED.format(self._dropped),))
        return reply

    def _goes_back(self, reply: Completed, items: Sequence[Json]) -> bool:
        """Not what only people and tools say, nor calls that no answer finds, or that the format refuses."""
        is_forged = any(item.get("type") in NOT_OF_MODEL for item in items)
        names = [call.name for call in reply.tool_calls]
        ids = [item.get("id") for item in items if item.get("type") == "tool_use"]
        return not is_forged and self._reply.are_calls(ids) and [*map(sayable, names)] == names

    def _message(self, message: Json) -> Iterator[ModelEvent]:
        self._usage.update(part(message, "usage"))
        self._look_for_dropped(message)
        for index, block in enumerate(message.get("content") or ()):
            yield from self._start(index, block)

    def _ended(self, delta: Json, usage: Json) -> Iterator[ModelEvent]:
        self._reason = delta.get("stop_reason") or self._reason
        self._usage.update({name: n for name, n in usage.items() if n is not None})
        if self._reason == "refusal":
            self._refusal = str(part(delta, "stop_details").get("explanation") or "")
        if self._reason == FULL:
            yield Failed(Failure.OVERFLOW, "the model's window was full before its reply was whole")
        elif self._reason and self._reason not in _REASONS:
            yield interrupted(self._reason)

    def _start(self, index: int, block: Json) -> Iterator[ModelEvent]:
        self._blocks[index] = _Block(block)
        match block.get("type"):
            case "text":
                yield from self._reply.add_text(block.get("text") or "")
            case "tool_use":
                # Compatible servers may send the whole input here, and no deltas.
                arguments = json.dumps(block["input"]) if block.get("input") else ""
                yield from self._reply.add_call(index, block["id"], block["name"], arguments)
            case "thinking":
                yield HiddenReasoning(len(block.get("signature") or ""))
                yield from self._reply.add_reasoning(block.get("thinking") or "")
            case _:
                yield HiddenReasoning(len(json.dumps(block)))  # sealed thoughts, and what the provider's own tools do

    def _delta(self, index: int, delta: Json) -> Iterator[ModelEvent]:
        block = self._blocks.setdefault(index, _Block({"type": "text", "text": ""}))
        block.grow(delta)
        match delta.get("type"):
            case "text_delta":
                yield from self._reply.add_text(delta["text"])
            case "input_json_delta" if block.start.get("type") == "tool_use":
                yield from self._reply.add_call(index, "", "", delta["partial_json"])
            case "thinking_delta":
                yield from self._reply.add_reasoning(delta["thinking"])
            case _:  # with the signature of a thought that is not shown comes all of it, sealed
                yield HiddenReasoning(sum(len(value) for value in delta.values() if isinstance(value, str)))

    def _look_for_dropped(self, message: Json) -> None:
        changes = message.get("input_transformations") or ()
        self._dropped += sum(change.get("type") == "thinking_dropped" for change in changes)

    def _items(self) -> list[Json]:
        """All that came, as it came. Left out is what the format refuses: text without a character, and a thought
        without its signature because the reply was cut off in it."""
        blocks = [self._blocks[index].whole(self._reply.repairs) for index in sorted(self._blocks)]
        if blocks and self._reason == "max_tokens" and blocks[-1].get("type") == "thinking":
            blocks = blocks if blocks[-1].get("signature") else blocks[:-1]
        return [block for block in blocks if block.get("type") != "text" or block.get("text", "").strip()]


class _Block:
    """A block of content: what it began as, and what its deltas added."""

    def __init__(self, start: Json) -> None:
        self.start = start
        self._grown: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def grow(self, delta: Json) -> None:
        for name, value in delta.items():
            if name == "citation":
                self._citations.append(value)
            elif name != "type" and isinstance(value, str):
                self._grown.setdefault(name, []).append(value)
            elif name != "type":
                self.start[name] = value

    def whole(self, repairs: Repairs) -> Json:
        block = dict(self.start)
        if self._citations:
            block["citations"] = [*(block.get("citations") or ()), *self._citations]
        for name, pieces in self._grown.items():
            if name == "partial_json":
                text = "".join(pieces)
                block["input"] = parsed(text) or repairs.of(text) or {}
            else:
                block[name] = (block.get(name) or "") + "".join(pieces)
        return block


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
