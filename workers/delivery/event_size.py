"""Events that are too large for one message, made smaller: what a model says at once may be anything. Pure."""

from __future__ import annotations

from typing import Any, cast

from envelope.events import AskOpened, Event, ReasoningDelta, TextDelta, ToolInputDelta

# A fortieth of a message; the longest text that people need whole, what they are asked to allow, has 20 KiB.
MAX_TEXT_CHARS = 24 * 1024
MAX_ITEMS = 20


def smaller(event: Event) -> tuple[Event, ...]:
    """The event in other events that say the same, or as much of it as fits: a delta in two, all else cut. Empty when
    it is small already, or must not be cut."""
    if isinstance(event, TextDelta | ReasoningDelta | ToolInputDelta):
        half = len(event.text) // 2
        parts = (event.text[:half], event.text[half:])
        return tuple(event.model_copy(update={"text": part}) for part in parts) if half else ()
    if isinstance(event, AskOpened):  # nobody may be asked to allow what they do not see
        return ()
    fields = event.model_dump(exclude_unset=True)
    cut = cast(dict[str, Any], _cut(fields))
    return () if cut == fields else (type(event).model_validate(cut),)


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > MAX_TEXT_CHARS:
            return f"{value[:MAX_TEXT_CHARS]}… ({len(value) - MAX_TEXT_CHARS} more characters)"
        case dict():
            items = [*cast(dict[str, Any], value).items()]
            return {_cut(key): _cut(inner) for key, inner in items[:MAX_ITEMS]}
        case list() | tuple():
            return [_cut(inner) for inner in cast(list[Any], value)[:MAX_ITEMS]]
        case _:
            return value
