r"""Scripts for the scripted model: what to answer, decided by the state of the conversation alone. Pure.

A script is a YAML or JSON file, the same for every wire format that the server speaks (see `dialects.py`):

    rules:
      - when: {system_contains: You search, turn: 1}
        reply: {tool_calls: [{name: grep, arguments: {pattern: "chunked\\("}}]}
      - when: {turn: 2}
        capture: {where: {result: 0, pattern: 'Line (\d+): +(.*)', line: 'more.py:\1 \2', limit: 3}}
        reply: {text: "It is used here: ${where}"}
      - when: {turn: 1}
        times: 2
        fault: {status: 429, retry_after: 1}

The first rule whose `when` holds and that is not used up (`times`, counted per conversation) wins. `${result.N}` in a
reply is the text of the N-th tool result of the conversation (from 0; negative from the end), and `${name}` is what
`capture` found in one, or (`of`) in what the user said: up to `limit` matches, one per line, each written as `line`
says (groups as `\1`; by default the whole match).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envelope.budget import Usage

from ..errors import BadScript

_PLACE = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class When(_Written):
    """All that is given must hold. `prompt` is the first user message, `user` what users have said last: all behind the
    model's words before. Turns count from 1. `model` is the one that is asked, by the name that the server is given.
    """

    model: str | None = None
    system_contains: str | None = None
    prompt_contains: str | None = None
    user_contains: str | None = None
    result_contains: str | None = None
    turn: int | None = None
    tool_results: int | None = None


class ScriptedCall(_Written):
    """`raw_arguments` are sent instead, as they stand: for numbers that a capture found, or for broken JSON. `id`: in
    the place of one that differs from all others."""

    name: str
    id: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    raw_arguments: str | None = None


class Reply(_Written):
    """`finish_reason` defaults to `tool_calls` or `stop`; `usage` to a quarter of the characters in and out.

    Both are in OpenAI's words, whatever the format that they are sent in. `delta_chars`: the length of a delta; by
    default words and arguments are split in the middle, as real servers do.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    delta_chars: int = Field(default=12, ge=1)


class Fault(_Written):
    """What goes wrong: an error status, or a stream that is cut, ended early, broken or stalled after some bytes.

    `in_stream`: the error comes as an event of a stream that began well, after the events that fit into `after_bytes`.
    Wrong contents are no faults but replies: broken arguments (`raw_arguments`), unknown tools, an empty text, a
    `finish_reason` of `length` or `content_filter`.
    """

    status: int | None = None
    message: str = "scripted fault"
    code: str = ""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    retry_after: int | float | str | None = None  # seconds, or an HTTP date
    after_bytes: int = 0  # how much of the reply still arrives
    cut: bool = False  # the connection is dropped
    end_early: bool = False  # the response ends as if it were whole
    bad_json: bool = False
    in_stream: bool = False
    stall_s: float | None = None
    until: str = ""  # the rest waits until somebody has sent `POST /go/WORD` with this word


class Capture(_Written):
    """`of`: in the tool result `result`, in what users said before the model first spoke (`prompt`), or in what they
    said last (`user`)."""

    of: Literal["result", "prompt", "user"] = "result"
    result: int = -1
    pattern: str
    line: str = r"\g<0>"
    limit: int = 1


class Rule(_Written):
    when: When = When()
    reply: Reply = Reply(text="ok")
    fault: Fault | None = None
    capture: dict[str, Capture] = Field(default_factory=dict[str, Capture])
    times: int | None = Field(default=None, ge=1)


class Script(_Written):
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a request says, in whatever dialect. `results` are the texts of all tool results, in their order."""

    model: str
    system: str
    prompt: str
    opening: str
    user: str
    results: tuple[str, ...]
    turn: int
    chars: int  # all text sent, for an estimate of the tokens
    digest: str = ""  # of all that was sent, where thoughts are signed with it


class Player:
    """Chooses the rule for a request. Equal conversations (same model, system prompt and task) share their counts."""

    def __init__(self, script: Script) -> None:
        self._rules = script.rules
        self._used: Counter[tuple[str, str, str, int]] = Counter()

    def play(self, now: Conversation) -> Rule:
        """The rule with its reply filled in; `BadScript` when no rule fits or a capture finds nothing."""
        for index, rule in enumerate(self._rules):
            key = (now.model, now.system, now.prompt, index)
            if _holds(rule.when, now) and (rule.times is None or self._used[key] < rule.times):
                self._used[key] += 1
                return rule.model_copy(update={"reply": fill(rule.reply, _values(rule, now))})
        raise BadScript(f"no rule fits turn {now.turn} with {len(now.results)} tool results of: {now.prompt[:200]!r}")


def load_script(text: str) -> Script:
    """A script from its file's text; `BadScript` says what is wrong where."""
    try:
        return Script.model_validate(yaml.safe_load(text))
    except (yaml.YAMLError, ValidationError) as e:
        raise BadScript(f"this is no script: {e}") from e


def fill(reply: Reply, values: Mapping[str, str]) -> Reply:
    """The reply with every `${…}` replaced, in its text and in the arguments of its calls."""
    calls = tuple(
        call.model_copy(
            update={
                "arguments": _filled(call.arguments, values),
                "raw_arguments": _filled(call.raw_arguments, values),
            }
        )
        for call in reply.tool_calls
    )
    return reply.model_copy(update={"text": _filled(reply.text, values), "tool_calls": calls})


def _holds(when: When, now: Conversation) -> bool:
    contains = (
        (when.system_contains, now.system),
        (when.prompt_contains, now.prompt),
        (when.user_contains, now.user),
        (when.result_contains, now.results[-1] if now.results else ""),
    )
    equals = ((when.model, now.model), (when.turn, now.turn), (when.tool_results, len(now.results)))
    return all(part is None or part in text for part, text in contains) and all(
        wanted is None or wanted == found for wanted, found in equals
    )


def _values(rule: Rule, now: Conversation) -> dict[str, str]:
    total = len(now.results)
    values = {f"result.{index}": now.results[index] for index in range(-total, total)}
    return values | {name: _captured(name, capture, now) for name, capture in rule.capture.items()}


_SAID: Mapping[str, Callable[[Conversation], str]] = {"prompt": lambda now: now.opening, "user": lambda now: now.user}


def _captured(name: str, capture: Capture, now: Conversation) -> str:
    try:
        text = now.results[capture.result] if capture.of == "result" else _SAID[capture.of](now)
    except IndexError:
        raise BadScript(f"capture {name!r}: there is no tool result {capture.result}") from None
    found = [match.expand(capture.line) for match in re.finditer(capture.pattern, text)]
    if not found:
        raise BadScript(f"capture {name!r} ({capture.pattern}) finds nothing in: {text[:500]!r}")
    return "\n".join(found[: capture.limit])


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _PLACE.sub(lambda found: _value(found[1], values), value)
        case dict():
            return {key: _filled(inner, values) for key, inner in cast(dict[str, Any], value).items()}
        case list():
            return [_filled(inner, values) for inner in cast(list[Any], value)]
        case _:
            return value


def _value(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise BadScript(f"nothing is called ${{{name}}}; there are: {', '.join(sorted(values)) or 'none'}")
    return values[name]
