"""What a wire format is: a request's path, headers and body, and a reader that makes our events of its stream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from envelope.budget import Usage

from .base import ChatMessage, Completed, ModelEvent, ToolChoice, ToolSpec
from .efforts import nearest, openai_efforts
from .failures import ProviderError
from .limits import USUAL_REPLY_TOKENS

Json = dict[str, Any]


def part(whole: Mapping[str, Any], name: str) -> Json:
    """An object inside an object; an empty one where there is none."""
    return whole.get(name) or {}


def refuses_nothing(model: str) -> Collection[str]:
    return ()


@dataclass(frozen=True, slots=True)
class ChatRules:
    """What a server of chat completions wants otherwise than OpenAI's.

    `reasoning_key`: the name under which it wants a model's thoughts again; empty: the one under which they came;
    `none`: it does not want them. `always_reasoning`: in each message with calls, also an empty one. `extra` is said
    in each request, unless an agent says otherwise. `cache_marks`: what its cache is to keep is marked, as Anthropic's
    models want it. `efforts`: the words for how hard to think that a model of this name takes there.
    """

    reasoning_key: str = ""
    always_reasoning: bool = False
    takes_stream_options: bool = True
    limit_key: str = "max_tokens"
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cache_marks: bool = False
    efforts: Callable[[str], Sequence[str]] = openai_efforts
    refuses: Callable[[str], Collection[str]] = refuses_nothing  # options that a model of this name is not sent
    is_mistral: bool = False  # its rules for ids, and for what follows a tool's answer


NO_RULES = ChatRules()
MIN_REPLY_TOKENS = 4_096  # if there is no room for that, the request is too long, and its server says so


@dataclass(frozen=True, slots=True)
class Question:
    """One model call. `model` is the name as the server knows it, `full_name` with its provider before it.

    `effort`: how hard it is to think, `low` to `max`; empty: as its vendor's own tools have it. `context_tokens`: its
    window; 0: not known. `max_output_tokens`: what the model can say at most, or may.

    `at_home`: the server is the provider's own, and not one that only speaks like it.
    """

    model: str
    full_name: str
    messages: Sequence[ChatMessage]
    tools: Sequence[ToolSpec]
    tool_choice: ToolChoice = "auto"
    temperature: float | None = None
    max_output_tokens: int | None = None
    rules: ChatRules = NO_RULES
    at_home: bool = False
    effort: str = ""
    context_tokens: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def reply_limit_tokens(self) -> int | None:
        """What is asked for at most: `max_output_tokens`, as far as the window has room behind what is sent.

        Servers refuse a request that could outgrow the window. A history leaves `USUAL_REPLY_TOKENS`, or half of the
        window; so nothing is counted for a limit below that.
        """
        own, context = self.max_output_tokens, self.context_tokens
        if own is None or not context or own <= min(USUAL_REPLY_TOKENS, context // 2):
            return own
        room = context - estimated(self.messages, self.tools, 0).input_tokens
        return min(own, max(room, min(MIN_REPLY_TOKENS, context // 2)))

    @property
    def known_effort(self) -> str:
        """As the model knows it; empty where it takes none, or nobody asks for one."""
        return nearest(self.rules.efforts(self.model), self.effort) if self.effort else ""

    def effort_told(self, sent: str) -> Iterable[str]:
        """That the effort is not `sent` as it was asked for, where it is not."""
        if self.effort and not sent:
            yield from self.not_sent([f"effort {self.effort}"])
        elif self.effort not in ("", sent):
            yield f"effort {self.effort} is sent as {sent}, the nearest that {self.full_name} takes"

    def not_sent(self, these: Iterable[str]) -> Iterable[str]:
        return (f"{what} is not sent: {self.full_name} takes none" for what in these)


# More than any model takes and says in one call. A server that counts so is mistaken, and must not spend a year's
# budget, or hold up a whole fleet's rate.
MAX_CALL_TOKENS = 50_000_000


def estimated(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], reply_chars: int) -> Usage:
    """What a call may have cost when the server does not say: a budget must not stand still for that."""
    sent = sum(len(message.content) + sum(len(c.arguments) for c in message.tool_calls) for message in messages)
    described = sum(len(tool.description) + len(str(tool.parameters)) for tool in tools)
    return Usage(input_tokens=(sent + described) // 4 + 1, output_tokens=reply_chars // 4 + 1)


def said_usage(read: Callable[[Json], Usage], said: Json) -> Usage:
    """None at all where numbers are no numbers of tokens: the reply is as good, and was paid."""
    try:
        return read(said)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return Usage()


def counted(usage: Usage, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], reply_chars: int) -> Usage:
    """The server's own count where it can be true: no call is without input, and no words are without tokens."""
    cached = usage.cached_tokens + usage.cache_write_tokens
    if cached > usage.input_tokens or usage.reasoning_tokens > usage.output_tokens:
        # a part that is more than its whole was counted beside it; of thoughts some count a few more than were billed
        whole = usage.input_tokens + (cached if cached > usage.input_tokens else 0)
        said = max(usage.output_tokens, usage.reasoning_tokens)
        usage = usage.model_copy(update={"input_tokens": whole, "output_tokens": said})
    says_input, says_output = usage.input_tokens > 0, usage.output_tokens > 0 or not reply_chars
    can_be_true = usage.total_tokens > 0 and max(count for _, count in usage) <= MAX_CALL_TOKENS
    if can_be_true and says_input and says_output:
        return usage
    estimate = estimated(messages, tools, reply_chars)
    if not can_be_true:
        return estimate
    unsaid = ({} if says_input else {"input_tokens": estimate.input_tokens}) | (
        {} if says_output else {"output_tokens": estimate.output_tokens}
    )
    return usage.model_copy(update=unsaid)


def news(told: list[str], remarks: Iterable[str]) -> Iterator[str]:
    """Those that were not told before: each is said once in a session."""
    for remark in remarks:
        if remark not in told:
            told.append(remark)
            yield remark


class Reader(Protocol):
    """Reads one reply. Events of another shape than the format's raise one of `direct.ODD`: what a
    server sends is anybody's guess."""

    is_over: bool  # the server has said that nothing more comes

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        """What an event says; `Failed` for an error that comes in the stream."""
        ...

    def completed(self) -> Completed | None:
        """The whole reply; None while the server has not said that it is whole."""
        ...


class Wire(Protocol):
    path: str

    def headers(self, key: str, question: Question) -> Mapping[str, str]: ...

    def body(self, question: Question) -> Json: ...

    def remarks(self, question: Question) -> Iterable[str]:
        """What was asked for and is not sent, since the model takes no such thing, or is sent as something else."""
        ...

    def reader(self, question: Question) -> Reader: ...

    def error(self, answer: Json) -> ProviderError:
        """What an error's body says; the caller knows the status."""
        ...
