"""What an agent's file may ask of a model beside words and tools, as data.

Only what shapes a reply is sent: nothing that names another server, reaches further or lets a provider do things that
no permission judges. What is not here stays where it is, and people are told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# What other programs call them.
OTHER_NAMES = {
    "reasoningEffort": "reasoning_effort",
    "textVerbosity": "verbosity",
    "topP": "top_p",
    "topK": "top_k",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
    "stopSequences": "stop_sequences",
}
OPENAI = frozenset(
    ("top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty")
).union(("reasoning_effort", "verbosity", "thinking", "enable_thinking", "chat_template_kwargs"))
RESPONSES = frozenset(("top_p", "reasoning_effort", "verbosity"))
# Models that think before they answer take none of these.
NOT_WHILE_THINKING = frozenset(("top_p", "presence_penalty", "frequency_penalty"))
ANTHROPIC = frozenset(("top_p", "top_k", "thinking", "stop_sequences"))
KNOWN = OPENAI | ANTHROPIC
# By way of litellm: what it translates for every provider, or leaves out for those that do not know it.
ANYWHERE = frozenset(("top_p", "seed", "stop", "presence_penalty", "frequency_penalty")).union(
    ("reasoning_effort", "verbosity", "thinking")
)


def sent(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Those of the options that go to a model which takes the `known` ones.

    >>> sent({"reasoningEffort": "high", "api_base": "http://x"}, OPENAI)
    {'reasoning_effort': 'high'}
    """
    named = {OTHER_NAMES.get(name, name): value for name, value in options.items()}
    return {name: value for name, value in named.items() if name in known}


def unsent(options: Mapping[str, Any]) -> list[str]:
    """Those that go to no model, as they are written."""
    return [name for name in options if not sent({name: None}, KNOWN)]
