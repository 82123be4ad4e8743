"""OpenAI's chat completions, as its own and all compatible servers speak them. Pure.

Rules of platform.openai.com/docs ("Chat Completions", "Streaming"), of openrouter.ai/docs ("Errors", "Usage
Accounting"), docs.x.ai ("Models and Pricing") and console.groq.com/docs ("Tool Use"), all seen 2026-11, and of what
servers were seen to send. What goes back of a reply is in `openai_items.py`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from envelope.budget import Usage

from .assembly import Assembly
from .base import Completed, Failed, Failure, HiddenReasoning, ModelEvent
from .failures import ProviderError, failed, interrupted
from .openai_format import NEVER, messages_for, takes_temperature, thinks, tools_for
from .openai_items import REASONING_KEYS, THOUGHTS, Extras, parts_of, text_of
from .options import NOT_WHILE_THINKING, OPENAI, left_out, sent
from .overflow import is_overflow
from .retry_after import hinted_ms
from .wire import Json, Question, counted, part, said_usage

DONE = b"[DONE]"
# How a reply may end, in our words, with who was seen to say it. Whatever else ends one is no answer, and it is asked
# for again: DeepSeek's `insufficient_system_resource`, vLLM's `abort`, OpenRouter's `error`, z.ai's `network_error`.
REASONS = {
    "stop": "stop",  # all
    "tool_calls": "tool_calls",  # all
    "length": "length",  # all
    "content_filter": "content_filter",  # OpenAI, Azure, DeepSeek
    "function_call": "tool_calls",  # OpenAI's first way to call; gateways of others
    "tool_use": "tool_calls",  # gateways to Anthropic's models
    "end_turn": "stop",  # gateways to Anthropic's models
    "stop_sequence": "stop",  # gateways to Anthropic's models; Hugging Face's text-generation-inference
    "eos_token": "stop",  # Hugging Face's text-generation-inference
    "eos": "stop",  # Together
    "max_tokens": "length",  # gateways to Anthropic's models
    "model_length": "length",  # Mistral
    "sensitive": "content_filter",  # z.ai
    "refusal": "refusal",  # gateways to Anthropic's models
}
MAX_REASON_CHARS = 1000
MAX_RANK_CHARS = 40
# An error in a stream has no status of HTTP, and often no code; its type or its code's word says as much.
_STATUS = {
    "invalid_request_error": 400,
    "bad_request": 400,
    "badrequesterror": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "internal_error": 500,
}
TOOL_USE_FAILED = "tool_use_failed"
_NAMED = re.compile(r"(?:<function=|\"name\"\s*:\s*\")([\w.-]{1,64})")
# What a call may cost at most, by its provider's word: a mistake of theirs must not take a year's budget.
MAX_TOLD_USD = 1_000
USD_PER_TICK = 1e-10  # xAI's unit: tokens times list price give exactly these numbers


class OpenAiWire:
    path = "/chat/completions"

    def headers(self, key: str, question: Question) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, question: Question) -> Json:
        rules, is_thinking = question.rules, thinks(question.model)
        options = sent(question.options, _known_options(question))
        optional = {
            "tools": tools_for(question.tools) or None,
            "tool_choice": "none" if question.tools and question.tool_choice == "none" else None,
            "temperature": question.temperature if takes_temperature(question.model) else None,
            "max_completion_tokens" if is_thinking else rules.limit_key: question.reply_limit_tokens,
            "stream_options": {"include_usage": True} if rules.takes_stream_options else None,
        }
        if effort := question.known_effort:
            options = {"reasoning_effort": effort} | options
        return {
            **rules.extra,
            **options,
            "model": question.model,
            "messages": messages_for(question.messages, question.full_name, rules),
            "stream": True,
        } | {name: value for name, value in optional.items() if value is not None}

    def remarks(self, question: Question) -> Iterator[str]:
        if "reasoning_effort" not in sent(question.options, OPENAI):
            yield from question.effort_told(question.known_effort)
        if question.temperature is not None and not takes_temperature(question.model):
            yield from question.not_sent([f"temperature {question.temperature:g}"])
        yield from question.not_sent(left_out(question.options, _known_options(question)))

    def reader(self, question: Question) -> OpenAiReader:
        return OpenAiReader(question)

    def error(self, answer: Json) -> ProviderError:
        error = openai_error(answer.get("error") or answer)
        return replace(error, hint_ms=error.hint_ms or hinted_ms(json.dumps(answer)))


def _known_options(question: Question) -> frozenset[str]:
    known = OPENAI if takes_temperature(question.model) else OPENAI - NOT_WHILE_THINKING
    return known.difference(question.rules.refuses(question.model))


class OpenAiReader:
    def __init__(self, question: Question) -> None:
        self._question = question
        self._reply, self._extras = Assembly(), Extras()
        key = question.rules.reasoning_key
        self._reasoning_keys = REASONING_KEYS if key in ("", NEVER, *REASONING_KEYS) else (key, *REASONING_KEYS)
        self._reason = self._thoughts_are = self._service_rank = ""
        self._is_refusal = self._is_whole = False
        self._usage: Json = {}
        self.is_over = False

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        if data.strip() == DONE:
            self.is_over = self._is_whole = True
            return
        event: Json = unlisted(json.loads(data))
        if error := _in_band(event):
            yield from self._failed(error)
            return
        # Groq's and Moonshot's streams have it elsewhere.
        self._service_rank = service_rank_of(event) or self._service_rank
        self._usage = event.get("usage") or part(part(event, "x_groq"), "usage") or self._usage
        for choice in event.get("choices") or ():
            if error := choice.get("error"):
                yield from self._failed(error)
                return
            self._usage = choice.get("usage") or self._usage
            # A server that does not stream sends the message in one piece.
            self._is_whole |= "message" in choice
            yield from self._deltas(choice.get("delta") or choice.get("message") or {})
            if reason := choice.get("finish_reason"):
                yield from self._ended(str(reason))
            break  # one reply was asked for

    def completed(self) -> Completed | None:
        reason = self._reason or self._unsaid_reason()
        if not reason:
            return None
        usage = counted(
            said_usage(_usage, self._usage), self._question.messages, self._question.tools, self._reply.chars
        )
        reply = self._reply.completed("refusal" if self._is_refusal else reason, usage)
        items = self._extras.items(self._question.full_name, reply.tool_calls, self._reply.call_extras)
        cost = told_cost(self._usage) if self._question.at_home else None
        return replace(reply, provider_items=items, cost_microusd=cost, service_rank=self._service_rank)

    def _unsaid_reason(self) -> str:
        """Snowflake never says why a reply ended. One that is over, and says something whole, is an answer."""
        if not self._is_whole or self._reply.has_broken_calls:
            return ""
        return "tool_calls" if self._reply.has_calls else "stop" if self._reply.has_text else ""

    def _ended(self, reason: str) -> Iterator[ModelEvent]:
        self._reason = REASONS.get(reason.lower(), "")
        if self._reason:
            return
        if is_overflow(reason):
            yield Failed(Failure.OVERFLOW, "the model's window was full before its reply was whole")
        else:
            yield interrupted(reason)

    def _failed(self, error: object) -> Iterator[ModelEvent]:
        if not is_failed_call(error):
            yield failed(openai_error(error))
            return
        self.is_over, self._reason = True, "tool_calls"
        said = cast(Json, error)
        yield from self._reply.add_call(-1, "", *_written(str(said.get("failed_generation") or said.get("message"))))

    def _deltas(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        self._extras.add(delta, self._reasoning_keys)
        if content := delta.get("content"):
            for piece in parts_of(content):
                add = self._reply.add_reasoning if piece.get("type") in THOUGHTS else self._reply.add_text
                yield from add(text_of(piece))
        if refusal := delta.get("refusal"):
            self._is_refusal = True
            yield from self._reply.add_text(refusal)
        yield from self._thoughts(delta)
        if sealed := sealed_bytes(delta.get("reasoning_details") or ()):
            yield HiddenReasoning(sealed)
        for place, call in enumerate(delta.get("tool_calls") or ()):
            index = call.get("index")
            extra = {"extra_content": call["extra_content"]} if call.get("extra_content") else {}
            yield from self._call(place if index is None else index, call.get("id"), part(call, "function"), extra)
        if old := delta.get("function_call"):
            yield from self._call(0, "", old, {})

    def _thoughts(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """Some send them under two names, or as details, too: one of these is read."""
        for key in self._reasoning_keys:
            if (said := delta.get(key)) and self._thoughts_are in ("", "text"):
                self._thoughts_are = "text"
                yield from self._reply.add_reasoning(said)
                return
        said = "".join(map(_detail_text, delta.get("reasoning_details") or ()))
        if said and self._thoughts_are in ("", "details"):
            self._thoughts_are = "details"
            yield from self._reply.add_reasoning(said)

    def _call(self, index: int, call_id: str | None, function: Json, extra: Json) -> Iterator[ModelEvent]:
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        if call_id or name or arguments:
            yield from self._reply.add_call(index, call_id or "", name, arguments, extra)


def told_cost(usage: Mapping[str, Any]) -> int | None:
    """What OpenRouter or xAI charge for a call, in whole micro-dollars; with a key of the user's own at the provider,
    what that one charges, too. None: they do not say, or nothing that can be true."""
    upstream = part(usage, "cost_details").get("upstream_inference_cost") if usage.get("is_byok") else 0
    ticks = usage.get("cost_in_usd_ticks")
    parts = (ticks,) if ticks is not None else (usage.get("cost"), upstream)
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in parts):
        return None
    try:
        usd = sum(map(float, cast(tuple[float, ...], parts))) * (USD_PER_TICK if ticks is not None else 1)
    except OverflowError:
        return None
    # rounded first: a sum of binary fractions is a bit more than what was meant
    return math.ceil(round(usd * 1e6, 6)) if 0 <= usd <= MAX_TOLD_USD else None


def is_failed_call(error: object) -> bool:
    """Groq refuses what its model has written as a call. The model is told, as of any call that cannot be run."""
    return isinstance(error, dict) and cast(Json, error).get("code") == TOOL_USE_FAILED


def _written(generation: str) -> tuple[str, str]:
    """The name and the arguments of a call as a model wrote it."""
    with suppress(ValueError, RecursionError):
        written: object = json.loads(generation)
        for call in cast(list[object], written) if isinstance(written, list) else [written]:
            if isinstance(call, dict) and isinstance(name := cast(Json, call).get("name"), str):
                arguments: Any = cast(Json, call).get("arguments") or cast(Json, call).get("parameters") or {}
                return name, arguments if isinstance(arguments, str) else json.dumps(arguments)
    named = _NAMED.search(generation)
    return named[1] if named else "", json.dumps(generation)  # a text, which nobody takes for an object and mends


def _detail_text(detail: Mapping[str, Any]) -> str:
    said = detail.get("text") or detail.get("summary")
    return said if isinstance(said, str) else ""


def sealed_bytes(blocks: Iterable[Mapping[str, Any]]) -> int:
    """Of what only the provider can read: OpenRouter's details and Anthropic's blocks name it alike."""
    values = (block.get(name) for block in blocks for name in ("data", "signature"))
    return sum(len(value) for value in values if isinstance(value, str))


def _usage(usage: Mapping[str, Any]) -> Usage:
    """xAI counts thoughts beside `completion_tokens`, and Gemini's compatible server does; the total holds them."""
    sent, made = part(usage, "prompt_tokens_details"), part(usage, "completion_tokens_details")
    prompt = usage.get("prompt_tokens") or 0
    # DeepSeek; Moonshot
    cached = sent.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or usage.get("cached_tokens")
    return Usage(
        input_tokens=prompt,
        output_tokens=max(usage.get("completion_tokens") or 0, (usage.get("total_tokens") or 0) - prompt),
        cached_tokens=cached or 0,
        cache_write_tokens=sent.get("cache_write_tokens") or 0,  # OpenRouter
        reasoning_tokens=made.get("reasoning_tokens") or 0,
    )


def service_rank_of(answer: Mapping[str, Any]) -> str:
    """What a reply says of its rank of service, for its price; empty where that is no word."""
    said = answer.get("service_tier")
    return said.strip().lower() if isinstance(said, str) and len(said) <= MAX_RANK_CHARS else ""


# --- errors


def unlisted(answer: object) -> Any:
    """Google's compatible server puts an error into a list."""
    return (cast(list[object], answer) or [None])[0] if isinstance(answer, list) else answer


def _in_band(event: Json) -> object:
    """An error that came with 200: an object, a text, or in the words of a framework; nothing where there is none."""
    if error := event.get("error"):
        return error
    if event.get("choices") is not None:
        return None
    status = part(event, "base_resp").get("status_code")  # MiniMax
    if status:
        return {"code": _MINIMAX.get(status), "message": part(event, "base_resp").get("status_msg")}
    is_error = event.get("object") == "error" or event.get("type") == "error" or "detail" in event
    return event if is_error or isinstance(event.get("message"), str) else None


# platform.minimax.io/docs, "Error Codes" (seen 2026-11), which names no status of HTTP; these are ours.
_MINIMAX = {1002: 429, 1004: 401, 1008: 402, 1026: 400, 1027: 400, 1039: 429, 2013: 400, 2049: 401}


def openai_error(error: object) -> ProviderError:
    """Most send an object; some only its text, and others what their framework makes of an exception."""
    if not isinstance(error, dict):
        return ProviderError(message=str(error))
    said = cast(Json, error)
    code, kind = said.get("code"), str(said.get("type") or said.get("status") or "")
    numbers = (one for one in (said.get("status_code"), code, said.get("status")) if str(one).isdecimal())
    status = next((int(str(one)) for one in numbers if 400 <= int(str(one)) < 600), None)
    message, reason = str(said.get("message") or said.get("detail") or ""), _upstream(said.get("metadata"))
    return ProviderError(
        message=f"{message} ({reason})" if reason else message,
        status=status or _STATUS.get(str(code).lower()) or _STATUS.get(kind.lower()),
        kind=f"{kind} {code or ''}",
        hint_ms=hinted_ms(json.dumps(said)),
    )


def _upstream(metadata: object) -> str:
    """Why OpenRouter's provider refused: its own message says no more than "Provider returned error".

    openrouter.ai/docs, "Errors": `metadata` has `provider_name`, and in `raw` the provider's body, mostly JSON as text.
    """
    told = cast(Json, metadata) if isinstance(metadata, dict) else {}
    raw: object = told.get("raw")
    if isinstance(raw, str):
        with suppress(ValueError, RecursionError):
            raw = json.loads(raw)
    for _ in range(3):  # {"error": {"message": …}}
        if not isinstance(raw, dict):
            break
        inner = cast(Json, raw)
        raw = inner.get("error") or inner.get("message") or inner.get("detail") or json.dumps(inner)
    reason = " ".join(str(raw or "").split())[:MAX_REASON_CHARS]
    return ": ".join(part for part in (str(told.get("provider_name") or ""), reason) if part) if reason else ""
