"""A reply put together from its deltas, whatever the provider's format. Pure; knows no library."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envelope.budget import Usage

from .arguments import Repairs, is_keepable, is_text, parsed
from .base import CallDelta, CallStarted, Completed, ModelEvent, ProviderItems, Reasoning, Text, ToolCall

NOTHING: tuple[ModelEvent, ...] = ()
NO_EXTRA: Mapping[str, Any] = {}
CUT = "length"  # the finish reason of a reply that ran into the output limit
# Longer than those of any provider; what has more is no id and no name, and would fill events and file names.
MAX_ID_CHARS = 64
MAX_NAME_CHARS = 200
# Of one call, read again and again to see whether it is whole: a server may say its name with each piece.
MAX_CHECKED_CHARS = 8_000_000


def mended(text: str) -> str:
    r"""Text that can be encoded: JSON lets a provider send half a surrogate pair, which is no character.

    >>> mended("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
    True
    """
    return text if is_text(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def verbatim(model: str, items: Sequence[dict[str, Any]]) -> ProviderItems | None:
    """What goes back to the model as it came; None when it is nothing, or holds what cannot be stored unchanged."""
    return ProviderItems(model=model, items=tuple(items)) if items and is_keepable(list(items)) else None


@dataclass(slots=True)
class _PartialCall:
    id: str
    given_id: str  # the provider's, which its later pieces are known by
    name: str
    arguments: list[str] = field(default_factory=list[str])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    checked_chars: int = 0


class Assembly:
    """Deltas in, events out; at the end the whole reply."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_PartialCall] = []
        self._ids: set[str] = set()
        self.repairs = Repairs()
        self._at: dict[int, _PartialCall] = {}  # the provider's index → the call that is under way there
        self.chars = 0

    @property
    def has_text(self) -> bool:
        return bool(self._text)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def add_text(self, text: str) -> Sequence[ModelEvent]:
        if not text:
            return NOTHING
        text = mended(text)
        self.chars += len(text)
        self._text.append(text)
        return (Text(text),)

    def add_reasoning(self, text: str) -> Sequence[ModelEvent]:
        if not text:
            return NOTHING
        text = mended(text)
        self.chars += len(text)
        self._reasoning.append(text)
        return (Reasoning(text),)

    def add_call(
        self, index: int, call_id: str, name: str, arguments: str, extra: Mapping[str, Any] = NO_EXTRA
    ) -> Sequence[ModelEvent]:
        """A piece of a call. Some providers number every call 0, so a new id at an old index is a new call, too; some
        give no ids either, and then a name after whole arguments is. `extra`: what else is said of the call."""
        call_id, arguments = mended(call_id), mended(arguments)
        call, events = self._at.get(index), list[ModelEvent]()
        if call is None or (call_id != call.given_id if call_id else name and _is_whole(call)):
            call = _PartialCall(self._own_id(call_id), call_id, mended(name)[:MAX_NAME_CHARS])
            self._at[index] = call
            self._calls.append(call)
            events.append(CallStarted(call.id, call.name))
        call.name = call.name or mended(name)[:MAX_NAME_CHARS]
        call.extra |= extra
        if arguments:
            self.chars += len(arguments)
            call.arguments.append(arguments)
            events.append(CallDelta(call.id, arguments))
        return events

    @property
    def call_extras(self) -> dict[str, dict[str, Any]]:
        """By the id of the call that each was said of."""
        return {call.id: call.extra for call in self._calls if call.extra}

    def are_calls(self, ids: Sequence[object]) -> bool:
        """Are these the calls' ids, each from the provider, and no other call's? Else an answer would not find its call
        among what goes back."""
        given = [call.given_id for call in self._calls]
        return all(given) and len({*given}) == len(given) and [*ids] == given

    @property
    def has_broken_calls(self) -> bool:
        return any(parsed("".join(call.arguments)) is None for call in self._calls)

    def _own_id(self, given: str) -> str:
        """One that no other call of the reply has: by their ids answers find their calls, and a person's yes the one
        that was shown. Some local servers send none."""
        is_usable = 0 < len(given) <= MAX_ID_CHARS and given not in self._ids
        own = given if is_usable else f"call_{uuid.uuid4().hex[:16]}"
        self._ids.add(own)
        return own

    def completed(self, finish_reason: str, usage: Usage) -> Completed:
        """What has come in, as one reply. A call that was cut off keeps what there is of its arguments, as text."""
        return Completed(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(_call(call, self.repairs, was_cut=finish_reason == CUT) for call in self._calls),
            finish_reason=finish_reason,
            usage=usage,
        )


def _is_whole(call: _PartialCall) -> bool:
    if call.given_id or not call.arguments or call.checked_chars > MAX_CHECKED_CHARS:
        return False
    arguments = "".join(call.arguments)
    call.checked_chars += len(arguments)
    return parsed(arguments) is not None


def _call(call: _PartialCall, repairs: Repairs, *, was_cut: bool) -> ToolCall:
    """What a cut reply meant to say is not guessed at."""
    arguments = "".join(call.arguments)
    strict = parsed(arguments)
    meant = repairs.of(arguments) if strict is None and not was_cut else None
    return ToolCall(
        id=call.id,
        name=call.name,
        arguments=arguments,
        input=strict if meant is None else meant,
        repaired=meant is not None,
        provider_id=call.given_id if call.given_id != call.id else "",
    )
