"""Compaction: when the window is full, what came before is told in a summary and only the newest stays word by word.

A session's messages only ever grow. What a compaction changes is which of them a model is shown: the system prompt,
the summary as a pair of messages, the kept tail, and what came after it. Pure; `summary.py` has the words.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from ..llm.base import ChatMessage, FilePart
from ..llm.files import file_tokens
from ..llm.limits import USUAL_REPLY_TOKENS
from ..llm.limits import ModelLimits as ModelLimits
from ..llm.others import limits_of, tokens_of
from ..llm.overflow import is_overflow as is_overflow

CHARS_PER_TOKEN = 4
# What a reply may take of the window, whatever more a model could say at most.
MAX_OUTPUT_TOKENS = USUAL_REPLY_TOKENS
# Models with a limit of their own for the input need less room kept free.
RESERVED_TOKENS = 20_000
TAIL_TURNS = 2
MIN_TAIL_TOKENS, MAX_TAIL_TOKENS = 2_000, 8_000
TAIL_SHARE = 4  # a quarter of what can be used


# A large picture takes about 1,600 tokens: these, as much as the tail.
KEPT_PICTURES = 5


class Compaction(BaseModel):
    """The latest one of a session: `summary` stands for the messages before `kept_from` (an index).

    `made_at`: how many messages there were then.
    """

    model_config = ConfigDict(frozen=True)

    summary: str
    kept_from: int
    made_at: int = 0


SUMMARY_ASKED = ChatMessage(role="user", content="What has happened so far?", synthetic=True)


def should_compact(usage: object, model: object, *, auto: bool = True, reserved: int | None = None) -> bool:
    """Has the last reply filled the window as far as it may be used? Never when nobody knows the window.

    `usage` is that of one model call: what was sent and what came back are in the next request. It is a `Usage`, and
    `model` a `ModelLimits`; or both are as other programs write them (see `llm.others`).

    >>> from envelope.budget import Usage
    >>> limits = ModelLimits(context=200_000, output=64_000)
    >>> [should_compact(Usage(input_tokens=sent, output_tokens=1_000), limits) for sent in (166_999, 167_000)]
    [False, True]
    """
    limits = limits_of(model)
    if not auto or not limits.context:
        return False
    return tokens_of(usage) >= usable_tokens(limits, reserved=reserved)


def usable_tokens(model: ModelLimits, *, reserved: int | None = None) -> int:
    """How much of the window a history may take; 0 when the window is not known.

    `reserved`: tokens to keep free below a model's own limit for the input.
    """
    if not model.context:
        return 0
    output = min(model.output or MAX_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)
    if model.input:
        return max(0, model.input - (min(RESERVED_TOKENS, output) if reserved is None else reserved))
    return max(0, model.context - output)


def estimate_tokens(text: str) -> int:
    """Four characters are a token, rounded half up.

    >>> [estimate_tokens("x" * n) for n in (0, 1, 2, 5, 6)]
    [0, 0, 1, 1, 2]
    """
    return (len(text) + CHARS_PER_TOKEN // 2) // CHARS_PER_TOKEN


def message_tokens(message: ChatMessage) -> int:
    """What a message takes of the window: its words, its thoughts, its calls and its files."""
    calls = (call.name + call.arguments for call in message.tool_calls)
    words = estimate_tokens("".join((message.content, message.reasoning, *calls)))
    return words + sum(map(file_tokens, message.files))


def tail_tokens(usable: int) -> int:
    """How much is kept word by word."""
    return min(MAX_TAIL_TOKENS, max(MIN_TAIL_TOKENS, usable // TAIL_SHARE))


def tail_start(messages: Sequence[ChatMessage], usable: int, *, begin: int = 0) -> int:
    """Where the part begins that is kept word by word: an index, `len(messages)` when nothing is kept.

    The last two turns of those from `begin` on, within `tail_tokens`. Of a turn that does not fit the last steps are
    kept. A call is never parted from its answers. When all would fit there is nothing left to summarise: nothing is
    kept then.
    """
    first = next((i for i in range(begin, len(messages)) if messages[i].role != "system"), len(messages))
    starts = sorted({first, *(i for i in range(first, len(messages)) if is_prompt(messages[i]))})
    left, kept, end = tail_tokens(usable), len(messages), len(messages)
    for start in reversed(starts[-TAIL_TURNS:]):
        size = sum(map(message_tokens, messages[start:end]))
        if size > left:
            kept = _step_that_fits(messages, start, end, left)
            break
        left, kept, end = left - size, start, start
    return len(messages) if kept == first else kept


def window(messages: Sequence[ChatMessage], compaction: Compaction | None) -> list[ChatMessage]:
    """What a model is shown of a session's messages. Behind a summary stands another beginning: what was thought
    before that one was signed together with the old, and providers refuse it there."""
    if compaction is None:
        return [*messages]
    system = [message for message in messages[: compaction.kept_from] if message.role == "system"]
    asked = SUMMARY_ASKED.model_copy(update={"files": _pictures(messages[: compaction.kept_from])})
    summary = ChatMessage(role="assistant", content=compaction.summary, synthetic=True)
    behind = messages[compaction.kept_from :]
    old = compaction.made_at - compaction.kept_from
    tail = [one.model_copy(update={"provider_items": None}) if i < old else one for i, one in enumerate(behind)]
    return [*system, asked, summary, *tail]


def _pictures(messages: Sequence[ChatMessage]) -> tuple[FilePart, ...]:
    """The newest files that people showed with a prompt: no summary can say what is in them."""
    shown = [file for message in messages if is_prompt(message) for file in message.files]
    return tuple(shown[-KEPT_PICTURES:])


def is_prompt(message: ChatMessage) -> bool:
    """Does a turn begin with it: are these a person's (or a caller's) words?"""
    return message.role == "user" and not message.synthetic


def is_summary(message: ChatMessage) -> bool:
    """Summaries are all that Muster lets a model say again in another window."""
    return message.role == "assistant" and message.synthetic


def _step_that_fits(messages: Sequence[ChatMessage], start: int, end: int, left: int) -> int:
    """The earliest step after `start` from which the rest of the turn fits; `end` when none does."""
    kept = end
    for index in reversed(range(start + 1, end)):
        left -= message_tokens(messages[index])
        if left < 0:
            break
        if messages[index].role != "tool":
            kept = index
    return kept
