"""OpenAI's Responses API. Pure.

Rules of platform.openai.com/docs ("Migrate to the Responses API", "Reasoning models", "Streaming API responses"; seen
2026-11): with `store: false` nothing is kept there, so reasoning comes encrypted and goes back as it came, in its place
among the items of its reply; a function's schema is strict unless the request says otherwise; thoughts count in
`max_output_tokens`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envelope.budget import Usage

from .arguments import parsed
from .assembly import Assembly, verbatim
from .base import ChatMessage, Completed, FilePart, HiddenReasoning, ModelEvent, ToolCall, ToolSpec
from .failures import ProviderError, failed, interrupted
from .openai_format import sayable, thinks
from .options import NOT_WHILE_THINKING, RESPONSES, left_out, sent
from .wire import Json, Question, counted, part, said_usage
from .wire_openai import DONE, openai_error, service_rank_of

ENCRYPTED = "reasoning.encrypted_content"
# Requests with one key meet one cache; a session's begin alike, others' do not.
CACHE_KEY_CHARS = 32
# Codex, OpenCode and we want few words between calls. Older models and those for code have one verbosity alone.
_TERSE = re.compile(r"gpt-5\.\d+(?!.*(codex|chat|pro))")
_UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})
# Items that only who asks may send: answers to calls, and references to what is kept elsewhere.
_OTHERS_WORDS = frozenset(
    ("function_call_output", "custom_tool_call_output", "computer_call_output", "local_shell_call_output")
).union(("apply_patch_call_output", "mcp_approval_response", "item_reference"))
_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ResponsesWire:
    path = "/responses"

    def headers(self, key: str, question: Question) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, question: Question) -> Json:
        is_thinking = thinks(question.model)
        system = "\n\n".join(one.content for one in question.messages if one.role == "system")
        options = sent(question.options, _known_options(question.model))
        effort = options.pop("reasoning_effort", question.known_effort)
        verbosity = options.pop("verbosity", "low" if _TERSE.match(question.model) else None)
        reasoning = {"effort": effort, "summary": "auto" if is_thinking else None}
        optional = {
            "instructions": system or None,
            "tools": [_tool(tool) for tool in question.tools] or None,
            "tool_choice": "none" if question.tools and question.tool_choice == "none" else None,
            "temperature": None if is_thinking else question.temperature,
            "max_output_tokens": question.reply_limit_tokens,
            "reasoning": {name: value for name, value in reasoning.items() if value} or None,
            "text": {"verbosity": verbosity} if verbosity else None,
            # asked of a model of OpenAI's that does not think, it is an error
            "include": [ENCRYPTED] if is_thinking or not question.at_home else None,
        }
        return {
            **options,
            "model": question.model,
            "input": _input(question.messages, question.full_name),
            "stream": True,
            "store": False,
            "prompt_cache_key": cache_key(question.messages),
        } | {name: value for name, value in optional.items() if value is not None}

    def remarks(self, question: Question) -> Iterator[str]:
        if "reasoning_effort" not in sent(question.options, RESPONSES):
            yield from question.effort_told(question.known_effort)
        if question.temperature is not None and thinks(question.model):
            yield from question.not_sent([f"temperature {question.temperature:g}"])
        yield from question.not_sent(left_out(question.options, _known_options(question.model)))

    def reader(self, question: Question) -> ResponsesReader:
        return ResponsesReader(question)

    def error(self, answer: Json) -> ProviderError:
        return openai_error(answer.get("error") or answer)


def _known_options(model: str) -> frozenset[str]:
    return RESPONSES - NOT_WHILE_THINKING if thinks(model) else RESPONSES


class ResponsesReader:
    """Items of the reply by their place in it. A text may come in deltas, with its item, or with the whole reply."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._reply = Assembly()
        self._items: dict[int, Json] = {}
        self._told: set[int] = set()  # places whose text, thoughts or arguments came in deltas
        self._response: Json = {}
        self._is_refusal = False
        self.is_over = False

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        if data.strip() == DONE:
            self.is_over = True
            return
        event: Json = json.loads(data)
        place = event.get("output_index") or 0
        match event.get("type"):
            case "response.output_text.delta":
                self._told.add(place)
                yield from self._reply.add_text(event["delta"])
            case "response.refusal.delta":
                self._told.add(place)
                self._is_refusal = True
                yield from self._reply.add_text(event["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._told.add(place)
                yield from self._reply.add_reasoning(event["delta"])
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                yield from self._reply.add_reasoning("\n\n")
            case "response.function_call_arguments.delta":
                self._told.add(place)
                yield from self._reply.add_call(place, "", "", event["delta"])
            case "response.output_item.added" if event["item"].get("type") == "function_call":
                yield from self._call(place, event["item"] | {"arguments": ""})
            case "response.output_item.added" if event["item"].get("type") != "message":
                yield HiddenReasoning(0)
            case "response.output_item.done":
                yield from self._item(place, event["item"])
            case "response.completed" | "response.incomplete" | "response.failed":
                yield from self._ended(event["response"])
            case "error":
                yield failed(openai_error(event.get("error") or event))
            case None if event.get("object") == "response" or event.get("error"):
                yield from self._ended(event)
            case _:
                pass  # progress, ends of parts, what the provider's own tools do, and what is invented later

    def completed(self) -> Completed | None:
        if not self._response:
            return None
        question, usage = self._question, said_usage(_usage, part(self._response, "usage"))
        usage = counted(usage, question.messages, question.tools, self._reply.chars)
        reply = self._reply.completed(self._finish_reason(), usage)
        reply = replace(reply, service_rank=service_rank_of(self._response))
        items = [_returned(self._items[place]) for place in sorted(self._items) if _is_returned(self._items[place])]
        ids = [item.get("call_id") or item.get("id") for item in items if item.get("type") == "function_call"]
        is_whole = self._reply.are_calls(ids) and all(map(_is_of_model, items))
        return replace(reply, provider_items=verbatim(self._question.full_name, items) if is_whole else None)

    def _ended(self, response: Json) -> Iterator[ModelEvent]:
        self.is_over = True
        if response.get("error") or response.get("status") == "failed":
            yield failed(openai_error(response.get("error") or "the reply failed, and no reason was given"))
            return
        if response.get("status") in _UNFINISHED:
            yield interrupted(f"its state is {response['status']}")
            return
        reason = part(response, "incomplete_details").get("reason") or ""
        if response.get("status") == "incomplete" and reason not in _INCOMPLETE:
            yield interrupted(reason or "incomplete")
            return
        for place, item in enumerate(response.get("output") or ()):
            if place not in self._items:
                yield from self._item(place, item)
        self._response = response

    def _finish_reason(self) -> str:
        reason = part(self._response, "incomplete_details").get("reason")
        if self._response.get("status") == "incomplete":
            return _INCOMPLETE[str(reason)]
        if self._is_refusal:
            return "refusal"
        return "tool_calls" if self._reply.has_calls else "stop"

    def _item(self, place: int, item: Json) -> Iterator[ModelEvent]:
        """An item that is whole; what deltas have told of it is not told again."""
        is_told = place in self._told
        self._items[place] = item
        match item.get("type"):
            case "function_call":
                yield from self._call(place, item | ({"arguments": ""} if is_told else {}))
            case "message":
                for content in item.get("content") or ():
                    self._is_refusal |= content.get("type") == "refusal"
                    if not is_told:
                        yield from self._reply.add_text(content.get("text") or content.get("refusal") or "")
            case "reasoning":
                yield HiddenReasoning(len(item.get("encrypted_content") or ""))
                parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
                if not is_told:
                    yield from self._reply.add_reasoning("\n\n".join(each.get("text") or "" for each in parts))
            case _:
                yield HiddenReasoning(len(json.dumps(item)))  # what the provider's own tools do

    def _call(self, place: int, item: Json) -> Iterator[ModelEvent]:
        yield from self._reply.add_call(
            place, item.get("call_id") or item.get("id") or "", item.get("name") or "", item.get("arguments") or ""
        )


def cache_key(messages: Sequence[ChatMessage]) -> str:
    """Of a session: what it begins with stays the same as long as it lives, in every worker that goes on with it."""
    begin = next((index + 1 for index, one in enumerate(messages) if one.role == "user"), len(messages))
    digest = hashlib.sha256("\0".join(one.content for one in messages[:begin]).encode(errors="replace"))
    return digest.hexdigest()[:CACHE_KEY_CHARS]


def _input(messages: Sequence[ChatMessage], model: str) -> list[Json]:
    items: list[Json] = []
    ids: dict[str, str] = {}  # of the calls so far, as they are sent
    for message in messages:
        match message.role:
            case "system":
                continue
            case "user":
                items.append({"role": "user", "content": _content(message)})
            case "tool":
                call_id = ids.get(message.tool_call_id, message.tool_call_id)
                items.append({"type": "function_call_output", "call_id": call_id, "output": _content(message)})
            case "assistant" if message.provider_items and message.provider_items.model == model:
                ids |= {call.id: call.provider_id or call.id for call in message.tool_calls}
                items += message.provider_items.items
            case "assistant":
                ids |= {call.id: call.id for call in message.tool_calls}
                if message.content.strip() or not message.tool_calls:
                    items.append({"role": "assistant", "content": message.content})
                items += map(_function_call, message.tool_calls)
    return items


def _content(message: ChatMessage) -> str | list[Json]:
    if not message.files:
        return message.content
    return [{"type": "input_text", "text": message.content}, *map(_file, message.files)]


def _file(file: FilePart) -> Json:
    url = f"data:{file.media_type};base64,{file.data}"
    if file.kind == "image":
        return {"type": "input_image", "image_url": url}
    return {"type": "input_file", "filename": file.name or "file.pdf", "file_data": url}


def _tool(tool: ToolSpec) -> Json:
    # Strict schemas may have no optional fields; ours have.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _function_call(call: ToolCall) -> Json:
    arguments = json.dumps(call.input) if call.repaired else call.arguments if call.input is not None else ""
    return {"type": "function_call", "call_id": call.id, "name": sayable(call.name), "arguments": arguments or "{}"}


def _is_returned(item: Json) -> bool:
    """A thought without its content stands for one that the provider keeps, and ours are not kept."""
    return item.get("type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))


def _is_of_model(item: Json) -> bool:
    """A reply that speaks for people or tools of ours goes back in our words; what the provider's own tools gave is its
    own."""
    return item.get("role", "assistant") == "assistant" and item.get("type") not in _OTHERS_WORDS


def _returned(item: Json) -> Json:
    """As it came. A name with odd letters, or arguments that are no object, make a whole history unreadable; the answer
    to the call quotes them."""
    if item.get("type") != "function_call":
        return item
    arguments = "{}" if parsed(item.get("arguments") or "") is None else item.get("arguments") or "{}"
    return item | {"name": sayable(str(item.get("name") or "")), "arguments": arguments}


def _usage(usage: Mapping[str, Any]) -> Usage:
    sent_tokens, made = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    details = part(usage, "input_tokens_details")
    return Usage(
        input_tokens=sent_tokens,
        output_tokens=max(made, (usage.get("total_tokens") or 0) - sent_tokens),
        cached_tokens=details.get("cached_tokens") or 0,
        cache_write_tokens=details.get("cache_write_tokens") or 0,
        reasoning_tokens=part(usage, "output_tokens_details").get("reasoning_tokens") or 0,
    )
