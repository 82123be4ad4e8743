"""How a model call ended, in our words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..llm.base import Completed, Failed, Failure, FinishReason

# The providers' words, as the engines hand them on (OpenAI's vocabulary).
OF_PROVIDERS: Mapping[str, FinishReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "pause": "pause",
}


def finish_reason(reply: Completed | Failed) -> FinishReason:
    """What a provider says last; one that says something else has ended its turn, or asks for tools.

    >>> from envelope.budget import Usage
    >>> [finish_reason(Completed("", "", (), said, Usage())) for said in ("stop", "length", "eos")]
    ['end_turn', 'max_tokens', 'end_turn']
    """
    if isinstance(reply, Failed):
        return "content_filter" if reply.failure is Failure.CONTENT_FILTER else "error"
    return OF_PROVIDERS.get(reply.finish_reason, "tool_use" if reply.tool_calls else "end_turn")
