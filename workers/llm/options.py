"""What an agent's file may ask of a model beside words and tools, as data.

Only what shapes a reply is sent: nothing that names another server, reaches further or lets a provider do things that
no permission judges. What is not here stays where it is, and people are told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

MAX_TOLD_CHARS = 100
# What other programs call them.
OTHER_NAMES = {
    "reasoningEffort": "reasoning_effort",
    "textVerbosity": "verbosity",
    "topP": "top_p",
    "topK": "top_k",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
    "stopSequences": "stop_sequences",
    "serviceTier": "service_tier",
    "maxTokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "max_output_tokens": "max_tokens",
}
OPENAI = frozenset(
    ("top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty")
).union(("reasoning_effort", "verbosity", "thinking", "enable_thinking", "chat_template_kwargs", "service_tier"))
RESPONSES = frozenset(("top_p", "reasoning_effort", "verbosity", "service_tier"))
# Models that think before they answer take none of these.
NOT_WHILE_THINKING = frozenset(("top_p", "presence_penalty", "frequency_penalty"))
ANTHROPIC = frozenset(("top_p", "top_k", "thinking", "stop_sequences", "service_tier"))
MAX_TOKENS = "max_tokens"  # of a reply; each format has its own name for it
KNOWN = OPENAI | ANTHROPIC | {MAX_TOKENS}
# By way of litellm: what it translates for every provider, or leaves out for those that do not know it.
ANYWHERE = frozenset(("top_p", "seed", "stop", "presence_penalty", "frequency_penalty")).union(
    ("reasoning_effort", "verbosity", "thinking", "service_tier")
)


def sent(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Those of the options that go to a model which takes the `known` ones.

    >>> sent({"reasoningEffort": "high", "api_base": "http://x"}, OPENAI)
    {'reasoning_effort': 'high'}
    """
    named = {OTHER_NAMES.get(name, name): value for name, value in options.items()}
    return {name: value for name, value in named.items() if name in known}


def max_tokens(options: Mapping[str, Any]) -> int | None:
    """What an agent's file says that a reply may have; None where that is nothing, or no number.

    >>> max_tokens({"maxOutputTokens": 4000}), max_tokens({"max_tokens": "many"})
    (4000, None)
    """
    told = sent(options, (MAX_TOKENS,)).get(MAX_TOKENS)
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None


def service_rank(options: Mapping[str, Any]) -> str:
    """The provider's `service_tier` that an agent's file asks for; empty for none.

    >>> service_rank({"serviceTier": "Priority"}), service_rank({})
    ('priority', '')
    """
    return str(sent(options, ("service_tier",)).get("service_tier") or "").strip().lower()


def left_out(options: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """The options that another provider takes, and one that takes the `known` does not.

    >>> [*left_out({"seed": 7, "top_p": 1, "api_base": "x"}, ANTHROPIC)]
    ['seed 7']
    """
    for name, value in sent(options, KNOWN - {MAX_TOKENS}).items():
        if name not in known:
            yield f"{name} {value}"[:MAX_TOLD_CHARS]


def unsent(options: Mapping[str, Any]) -> list[str]:
    """Those that go to no model, as they are written."""
    return [name for name in options if not sent({name: None}, KNOWN)]
