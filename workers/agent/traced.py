"""What the spans of model calls and of tool calls say."""

from __future__ import annotations

import json
from collections.abc import Sequence

from envelope.budget import MICROUSD_PER_USD, Usage
from envelope.tracing import names
from envelope.tracing.spans import Attributes, Span

from ..llm.base import ChatMessage, Completed, Failed
from .finish import finish_reason

# As the conventions spell providers whose name in a model's is another one.
PROVIDERS = {"azure": "azure.ai.openai", "bedrock": "aws.bedrock", "gemini": "gcp.gemini", "vertex_ai": "gcp.vertex_ai"}


def chat_attributes(model: str) -> Attributes:
    """
    >>> chat_attributes("openai/gpt-5")["gen_ai.provider.name"]
    'openai'
    """
    provider = model.partition("/")[0] if "/" in model else ""
    return {
        names.OPERATION: "chat",
        names.REQUEST_MODEL: model,
        names.PROVIDER: PROVIDERS.get(provider, provider),
    }


def tell_chat(
    span: Span, asked: Sequence[ChatMessage], reply: Completed | Failed, usage: Usage, cost_microusd: int
) -> None:
    """`usage` and cost are all that the call took, tries that broke off among it."""
    span.set(
        {
            names.FINISH_REASONS: [finish_reason(reply)],
            names.INPUT_TOKENS: usage.input_tokens,
            names.OUTPUT_TOKENS: usage.output_tokens,
            names.CACHE_READ_TOKENS: usage.cached_tokens,
            names.COST_USD: cost_microusd / MICROUSD_PER_USD,
        }
    )
    span.content(names.INPUT_MESSAGES, lambda: _told([_shown(message) for message in _latest(asked)]))
    if isinstance(reply, Failed):
        span.fail(reply.failure)
    else:
        calls = [{"name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
        span.content(names.OUTPUT_MESSAGES, lambda: _told([_message("assistant", reply.text, calls)]))


def _latest(asked: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """What came since the model spoke last: what stands before it is in earlier spans."""
    spoke = max((at for at, message in enumerate(asked) if message.role == "assistant"), default=-1)
    return asked[spoke + 1 :]


def _shown(message: ChatMessage) -> object:
    return _message(message.role, message.content, [])


def _message(role: str, text: str, calls: Sequence[object]) -> object:
    parts: list[object] = [{"type": "text", "content": text}] if text else []
    return {"role": role, "parts": [*parts, *({"type": "tool_call", "call": call} for call in calls)]}


def _told(messages: Sequence[object]) -> str:
    return json.dumps(messages, ensure_ascii=False)
