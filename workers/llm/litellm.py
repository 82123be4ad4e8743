"""Every provider that litellm knows, through `acompletion`. The only file that names litellm.

litellm takes 2.5 s and 190 MiB to import (measured), so that happens at the first call, in a thread. Its objects
end here: what goes on are our own plain values.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from envelope.budget import Usage

from .assembly import Assembly
from .base import (
    ChatMessage,
    Completed,
    Failed,
    Failure,
    HiddenReasoning,
    ModelEvent,
    ProviderItems,
    ToolCall,
    ToolChoice,
    ToolSpec,
)
from .failures import ProviderError, failed, interrupted
from .openai_format import messages_for, tools_for
from .openai_items import REASONING_KEYS, Extras
from .options import ANYWHERE, left_out, sent
from .providers import PROVIDERS
from .wire import ChatRules, Json, Question, counted, news
from .wire_openai import REASONS, sealed_bytes

# Reasoning models think in silence for a minute or more; two are a connection that nobody serves.
CHUNK_TIMEOUT_S = 120.0
LIST_FILE = "model_prices_and_context_window_backup.json"
# A model's longest reply is about 1 MB of text; more is a server gone mad.
MAX_REPLY_CHARS = 16 * 1024 * 1024
# Who names a model names no server: litellm asks an address that stands in the names of some providers' models.
# Bedrock's may come with `%3A` in them.
PLAIN_NAME = re.compile(r"(?!.*(?:/|%2[Ff]){2})[\w.:@+~*%-][\w.:@+~*%/-]*")
MAX_SHOWN_CHARS = 200
# litellm's own time-out comes after ours, which has the better words.
GRACE_S = 10.0
# Anthropic's models behind others, and Anthropic itself: what their cache keeps is marked.
_CLAUDE = re.compile(r"anthropic/|(bedrock|vertex_ai|azure_ai|openrouter)/(.*[/.])?(anthropic[./]|claude)")


@dataclass(frozen=True, slots=True)
class LiteLlmModel:
    """A model by its litellm name (`openai/gpt-5`, `anthropic/…`, `ollama/…`).

    Without `api_key` litellm takes the provider's own variable from the environment. Whoever passes a key has given
    it to `envelope.redaction.register_secret` first.
    """

    name: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    temperature: float | None = None
    chunk_timeout_s: float = CHUNK_TIMEOUT_S
    output_limit: Callable[[], int | None] = lambda: None  # tokens of the next reply at most; None: the provider's own
    effort: str = ""
    context_tokens: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # see `options.py`
    _told: list[str] = field(default_factory=list[str], repr=False, compare=False)  # see `wire.news`
    reasoning_key: str = ""  # the name under which the server wants thoughts again; see `wire.ChatRules`

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        response: Any = None
        if not PLAIN_NAME.fullmatch(self.name):
            yield Failed(Failure.UNKNOWN_MODEL, f"no provider serves a model called {self.name[:MAX_SHOWN_CHARS]!r}")
            return
        try:
            litellm = await asyncio.to_thread(_library)
            async with asyncio.timeout(self.chunk_timeout_s):
                response = await litellm.acompletion(**self._request(messages, tools, tool_choice))
            async with aclosing(self._events(response, messages, tools)) as events:
                async for event in events:
                    told = news(self._told, self._remarks(litellm)) if isinstance(event, Completed) else ()
                    yield replace(event, remarks=(*told,)) if isinstance(event, Completed) else event
        except TimeoutError:
            yield Failed(Failure.UNAVAILABLE, f"the model sent nothing for {self.chunk_timeout_s:g} s")
        # Whatever a provider or litellm's reading of it does wrong is a value here, by the seam's promise; litellm
        # raises bare KeyErrors and TypeErrors for odd replies, too. Cancellation passes: it is no Exception.
        except Exception as e:
            yield _failed(e, self.name, at_home=not self.base_url)
        finally:
            await _close(response)

    async def _events(
        self, response: Any, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> AsyncGenerator[ModelEvent, None]:
        reply, extras, usage, reason = Assembly(), LiteLlmExtras(), Usage(), ""
        while (chunk := await self._next(response)) is not None:
            usage = _usage(chunk) or usage
            for choice in chunk.choices[:1]:
                reason = choice.finish_reason or reason
                extras.add(choice.delta)
                for event in _deltas(reply, choice.delta):
                    yield event
            if reply.chars > MAX_REPLY_CHARS:
                yield interrupted(f"it has more than {MAX_REPLY_CHARS} characters")
                return
        if _was_cut(response):
            yield Failed(Failure.UNAVAILABLE, "the model's reply ended before it was whole")
        elif reason and reason.lower() not in REASONS:
            yield interrupted(reason)
        else:
            usage = counted(usage, messages, tools, reply.chars)
            whole = reply.completed(REASONS[reason.lower() or "stop"], usage)
            yield replace(whole, provider_items=extras.items(self.name, whole.tool_calls, {}))

    async def _next(self, response: Any) -> Any | None:
        async with asyncio.timeout(self.chunk_timeout_s):
            return await anext(response, None)

    @property
    def _effort(self) -> str:
        """litellm translates what OpenAI calls it, and knows nothing beyond `high` for most."""
        return "high" if self.effort == "max" else self.effort

    def _remarks(self, litellm: Any) -> Iterator[str]:
        """What litellm leaves out, by its own list of what each provider takes; a few things more it decides later."""
        known = set(litellm.get_supported_openai_params(model=self.name) or (*ANYWHERE, "temperature"))
        question = Question(self.name, self.name, (), ())
        if "reasoning_effort" not in sent(self.options, ANYWHERE):
            asked = replace(question, effort=self.effort)
            yield from asked.effort_told(self._effort if "reasoning_effort" in known else "")
        if self.temperature is not None and "temperature" not in known:
            yield from question.not_sent([f"temperature {self.temperature:g}"])
        yield from question.not_sent(left_out(self.options, ANYWHERE & known))

    def _request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice
    ) -> dict[str, Any]:
        optional = {
            "base_url": self.base_url or None,
            "api_key": self.api_key or None,
            "temperature": self.temperature,
            "max_tokens": Question(
                *(self.name, self.name, messages, tools),
                max_output_tokens=self.output_limit(),
                context_tokens=self.context_tokens,
            ).reply_limit_tokens,
            "reasoning_effort": self._effort or None,
            "tools": tools_for(tools) or None,
            "tool_choice": "none" if tools and tool_choice == "none" else None,
        }
        provider = PROVIDERS.get(self.name.partition("/")[0])
        key = self.reasoning_key or (provider.rules.reasoning_key if provider else "")
        rules = ChatRules(key, always_reasoning=bool(key), cache_marks=_CLAUDE.match(self.name) is not None)
        return (
            {
                "model": self.name,
                "messages": messages_for(messages, self.name, rules, reads_keys=bool(key)),
                "stream": True,
                "stream_options": {"include_usage": True},
                "num_retries": 0,  # retries are ours (retry.py): bounded, told to watchers, within the deadline
                "max_retries": 0,
                "timeout": self.chunk_timeout_s + GRACE_S,
            }
            | {name: value for name, value in optional.items() if value is not None}
            | sent(self.options, ANYWHERE)
        )


class LiteLlmExtras(Extras):
    """What litellm says beside text, thoughts and calls, under its own names.

    docs.litellm.ai ("Reasoning Content", "Gemini 3", 2026-11): `thinking_blocks` hold what Anthropic's models thought,
    with its signature, on Bedrock and Vertex, too; `thought_signatures` are Gemini's; those of calls are in their ids.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thinking: list[Json] = []

    def add(self, delta: Any, reasoning_keys: Sequence[str] = REASONING_KEYS) -> None:
        if isinstance(getattr(delta, "reasoning_content", None), str):
            super().add({"reasoning_content": delta.reasoning_content})
        for block in getattr(delta, "thinking_blocks", None) or ():
            self._add_thinking(dict(block))
        fields = cast(Json, getattr(delta, "provider_specific_fields", None) or {})
        signatures = fields.get("thought_signatures")
        if signatures and not delta.tool_calls:
            self.lay_over("provider_specific_fields", {"thought_signatures": [signatures[-1]]})

    def _add_thinking(self, block: Json) -> None:
        """A thought comes in pieces, the last of which has its signature; one that is sealed comes whole."""
        last = self._thinking[-1] if self._thinking else {}
        if block.get("type") == "thinking" == last.get("type") and not last.get("signature"):
            last["thinking"] = (last.get("thinking") or "") + (block.get("thinking") or "")
            last["signature"] = block.get("signature") or ""
        else:
            self._thinking.append(block)

    def items(self, model: str, calls: Sequence[ToolCall], of_calls: Mapping[str, Json]) -> ProviderItems | None:
        if signed := [one for one in self._thinking if one.get("signature") or one.get("data")]:
            self.lay_over("thinking_blocks", signed)
        return super().items(model, calls, of_calls)


def read_list() -> dict[str, dict[str, Any]]:
    """What the wheel says of prices and windows, by model; read as a file, since an import costs seconds."""
    spec = find_spec("litellm")
    folders = spec.submodule_search_locations if spec else None
    return json.loads((Path((folders or [""])[0]) / LIST_FILE).read_bytes())


@cache
def _library() -> Any:
    """litellm, silent and offline: without the variable its import asks the network for a price list."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    library: Any = litellm
    library.suppress_debug_info = True  # else it prints to stdout
    library.telemetry = False
    library.turn_off_message_logging = True
    library.drop_params = True  # a model that knows no temperature is no reason to fail
    library.modify_params = True  # a closing turn offers no tools though the history has calls; some providers mind
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # its lines pass by our redaction
    return library


def _deltas(reply: Assembly, delta: Any) -> Iterator[ModelEvent]:
    yield from reply.add_reasoning(getattr(delta, "reasoning_content", None) or "")
    if sealed := sealed_bytes(map(dict, getattr(delta, "thinking_blocks", None) or ())):
        yield HiddenReasoning(sealed)
    yield from reply.add_text(delta.content or "")
    for call in delta.tool_calls or ():
        function = call.function
        yield from reply.add_call(call.index or 0, call.id or "", function.name or "", function.arguments or "")


def _usage(chunk: Any) -> Usage | None:
    usage = getattr(chunk, "usage", None)
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    sent_tokens = usage.prompt_tokens or 0
    return Usage(
        input_tokens=sent_tokens,
        output_tokens=max(usage.completion_tokens or 0, (usage.total_tokens or 0) - sent_tokens),
        cached_tokens=getattr(prompt, "cached_tokens", None) or 0,
        cache_write_tokens=getattr(usage, "cache_creation_input_tokens", None) or 0,
        reasoning_tokens=getattr(completion, "reasoning_tokens", None) or 0,
    )


def _was_cut(response: Any) -> bool:
    """litellm makes up a finish reason when a stream just ends; what the provider itself said stands here."""
    return response.received_finish_reason is None and response.intermittent_finish_reason is None


def _failed(error: Exception, model: str, *, at_home: bool) -> Failed:
    """`at_home`: the server is the provider's own, and not one that only speaks like it."""
    response: Any = getattr(error, "response", None)
    headers: Any = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or ()
    failure = failed(
        ProviderError(
            message=getattr(error, "message", None) or str(error),
            status=getattr(error, "status_code", None),
            headers=dict(headers),
            kind=f"{type(error).__name__} {getattr(error, 'code', '')}",
            provider=model.partition("/")[0] if at_home else "",
        )
    )
    if failure.failure is Failure.UNKNOWN_MODEL:  # litellm answers with a page about its providers
        return Failed(failure.failure, f"no provider serves a model called {model!r}")
    return failure


async def _close(response: Any) -> None:
    """Give the connection back. A stream that broke may fail once more here, and has been told of already."""
    if response is not None:
        with suppress(Exception):
            await response.aclose()
