"""OpenAI's chat completions, as its own and all compatible servers speak them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from envelope.budget import Usage

from .assembly import Assembly
from .base import Completed, Failed, Failure, ModelEvent
from .failures import ProviderError, failed
from .openai_format import messages_for, openai_effort, thinks, tools_for
from .options import NOT_WHILE_THINKING, OPENAI, sent
from .overflow import is_overflow
from .wire import Json, Question, estimated, part

DONE = b"[DONE]"
_REASONS = {"function_call": "tool_calls", "eos": "stop", "end_turn": "stop", "max_tokens": "length"}
# How servers call the text of thoughts.
_REASONING_KEYS = ("reasoning_content", "reasoning")

MAX_REASON_CHARS = 1000


class OpenAiWire:
    path = "/chat/completions"

    def headers(self, key: str, question: Question) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, question: Question) -> Json:
        is_thinking = thinks(question.model)
        optional = {
            "tools": tools_for(question.tools) or None,
            "tool_choice": "none" if question.tools and question.tool_choice == "none" else None,
            "temperature": None if is_thinking else question.temperature,
            "max_completion_tokens" if is_thinking else "max_tokens": question.max_output_tokens,
        }
        options = sent(question.options, OPENAI - NOT_WHILE_THINKING if is_thinking else OPENAI)
        if question.effort:
            options = {"reasoning_effort": openai_effort(question.model, question.effort)} | options
        return {
            **options,
            "model": question.model,
            "messages": messages_for(question.messages, reasoning_key=question.reasoning_key),
            "stream": True,
            "stream_options": {"include_usage": True},
        } | {name: value for name, value in optional.items() if value is not None}

    def unsent(self, question: Question) -> Iterator[str]:
        if question.temperature is not None and thinks(question.model):
            yield f"temperature {question.temperature:g}"

    def reader(self, question: Question) -> OpenAiReader:
        return OpenAiReader(question)

    def error(self, answer: Json) -> ProviderError:
        return openai_error(answer.get("error", answer))


class OpenAiReader:
    def __init__(self, question: Question) -> None:
        self._question = question
        self._reply = Assembly()
        self._reason = ""
        self._usage: Usage | None = None
        self.is_over = False

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        if data.strip() == DONE:
            self.is_over = True
            return
        event: Json = json.loads(data)
        if error := event.get("error"):
            yield failed(openai_error(error))
            return
        if usage := event.get("usage"):
            self._usage = _usage(usage)
        for choice in event.get("choices") or ():
            # A server that does not stream sends the message in one piece.
            yield from self._deltas(choice.get("delta") or choice.get("message") or {})
            if reason := choice.get("finish_reason"):
                self._reason = _REASONS.get(reason, str(reason))
                if is_overflow(self._reason):
                    yield Failed(Failure.OVERFLOW, "the model's window was full before its reply was whole")
            break  # one reply was asked for

    def completed(self) -> Completed | None:
        if not self._reason:
            return None
        usage = self._usage or estimated(self._question, self._reply.chars)
        return self._reply.completed(self._reason, usage)

    def _deltas(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        if content := delta.get("content"):
            yield from self._reply.add_text(content)
        for key in _REASONING_KEYS:
            if thought := delta.get(key):
                yield from self._reply.add_reasoning(thought)
                break  # some send it under both names
        for place, call in enumerate(delta.get("tool_calls") or ()):
            function = part(call, "function")
            yield from self._reply.add_call(
                call.get("index") or (0 if "index" in call else place),
                call.get("id") or "",
                function.get("name") or "",
                function.get("arguments") or "",
            )


def _usage(usage: Mapping[str, Any]) -> Usage:
    sent, made = part(usage, "prompt_tokens_details"), part(usage, "completion_tokens_details")
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        cached_tokens=sent.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0,  # the latter: DeepSeek
        cache_write_tokens=sent.get("cache_write_tokens") or 0,  # OpenRouter
        reasoning_tokens=made.get("reasoning_tokens") or 0,
    )


def openai_error(error: object) -> ProviderError:
    """Most send an object; some only its text, and others what their framework makes of an exception."""
    if not isinstance(error, dict):
        return ProviderError(message=str(error))
    said = cast(Json, error)
    code = said.get("code")
    message, reason = str(said.get("message") or said.get("detail") or ""), _upstream(said.get("metadata"))
    return ProviderError(
        message=f"{message} ({reason})" if reason else message,
        status=code if isinstance(code, int) and 400 <= code < 600 else None,
        kind=f"{said.get('type') or ''} {code or ''}",
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
