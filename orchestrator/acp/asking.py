"""What an agent asks, as an editor can put it to a person: a choice, or a form; and their answer as ours."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from acp.schema import (
    ElicitationMultiSelectPropertySchema,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    EnumOption,
    PermissionOption,
    TitledMultiSelectItems,
    ToolCallUpdate,
)

from envelope.asks import Question, Reply
from envelope.events import AskOpened

from ..asks import PLAN_EXIT, reply_to
from .calls import kind_of, text_content, title_of
from .door import Door
from .texts import fenced, shown

ONCE, ALWAYS, STOP, GO_ON, YES, NO, WORDS = "once", "always", "stop", "go-on", "yes", "no", "words"
LABEL = "label:"  # before the place of a question's option
NOT_SO = "no. Find another way, or go on without it."
TOOLS = {"bash_unparsed": "bash"}  # permissions that are about a tool of another name
LANGUAGES = {"edit": "diff", "bash": "sh", "bash_unparsed": "sh"}


class InWords(Enum):
    """The person says it in the chat: the next prompt is the answer."""

    NEXT_PROMPT = "next prompt"


def about_ask(ask: AskOpened, agent: str = "") -> ToolCallUpdate:
    """The exact command, diff or questions, under one line that says what is asked."""
    tool = TOOLS.get(ask.permission, ask.permission)
    title = title_of(tool, f"{', '.join(ask.patterns)}?", agent) if ask.patterns else title_of("", ask.question, agent)
    return ToolCallUpdate(
        tool_call_id=ask.ask_id,
        title=title or tool,
        kind=kind_of(tool),
        status="pending",
        content=[text_content(text) for text in _texts(ask)] or None,
    )


def _texts(ask: AskOpened) -> Iterator[str]:
    if ask.question and ask.patterns:
        yield shown(ask.question)
    if ask.permission == PLAN_EXIT:
        yield shown(ask.detail)
    elif ask.detail:
        yield fenced(ask.detail, LANGUAGES.get(ask.permission, ""))
    if ask.permission != PLAN_EXIT:
        yield from (question_text(question) for question in ask.questions)
    if ask.always:
        yield shown(f"Always would allow: {', '.join(ask.always)}")


def question_text(question: Question) -> str:
    options = (f"\n- {one.label}{f': {one.description}' if one.description else ''}" for one in question.options)
    several = "\n(several, with commas between them)" if question.multiple else ""
    return shown(f"{question.question}{''.join(options)}{several}")


async def put(door: Door, ask: AskOpened, agent: str = "") -> Reply | InWords | None:
    """What the person says; None when the editor took the question away, and another door must answer it."""
    about = about_ask(ask, agent)
    if ask.permission == PLAN_EXIT:
        return _of_plan(ask, await door.choose(about, PLAN_OPTIONS))
    if not ask.questions:
        return _of_permission(ask, await door.choose(about, list(_permission_options(ask))))
    if door.has_forms:
        filled = await door.fill(shown(ask.questions[0].question if len(ask.questions) == 1 else ""), form_of(ask))
        return Reply(choice="reject") if filled is None else reply_to(ask, "", says=_says(ask, filled))
    [question, *others] = ask.questions
    if others or question.multiple or not question.options:
        return InWords.NEXT_PROMPT
    return _of_question(ask, question, await door.choose(about, list(_question_options(question))))


def in_words(ask: AskOpened, text: str) -> Reply:
    """The next prompt as the answer: a line for each question where there are as many, else all of it for the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return reply_to(ask, "", says=lines if len(lines) == len(ask.questions) else [" ".join(lines)])


PLAN_OPTIONS = (
    PermissionOption(option_id=YES, name="Carry the plan out", kind="allow_once"),
    PermissionOption(option_id=NO, name="No, keep planning", kind="reject_once"),
)


def _of_plan(ask: AskOpened, chosen: str | None) -> Reply | None:
    match chosen:
        case "yes":
            return reply_to(ask, ONCE, says=["yes"])
        case "no":
            return reply_to(ask, "reject")
        case _:
            return None


def _permission_options(ask: AskOpened) -> Iterator[PermissionOption]:
    yield PermissionOption(option_id=ONCE, name="Allow", kind="allow_once")
    if ask.always:
        yield PermissionOption(option_id=ALWAYS, name="Always allow", kind="allow_always")
    yield PermissionOption(option_id=GO_ON, name="Reject, and let it go on", kind="reject_once")
    yield PermissionOption(option_id=STOP, name="Reject, and stop", kind="reject_once")


def _of_permission(ask: AskOpened, chosen: str | None) -> Reply | None:
    match chosen:
        case "once" | "always":
            return reply_to(ask, chosen)
        case "go-on":
            return reply_to(ask, "reject", message=NOT_SO)
        case "stop":
            return reply_to(ask, "reject")
        case _:
            return None


def _question_options(question: Question) -> Iterator[PermissionOption]:
    for place, option in enumerate(question.options):
        yield PermissionOption(option_id=f"{LABEL}{place}", name=shown(option.label), kind="allow_once")
    if question.custom:
        yield PermissionOption(option_id=WORDS, name="Something else, in the chat", kind="allow_once")
    yield PermissionOption(option_id=STOP, name="Do not answer, and stop", kind="reject_once")


def _of_question(ask: AskOpened, question: Question, chosen: str | None) -> Reply | InWords | None:
    if chosen is None:
        return None
    if chosen == WORDS:
        return InWords.NEXT_PROMPT
    place = chosen.removeprefix(LABEL)
    if place.isdecimal() and int(place) < len(question.options):
        return reply_to(ask, "", says=[question.options[int(place)].label])
    return reply_to(ask, "reject")


def form_of(ask: AskOpened) -> ElicitationSchema:
    """A field for each question, and one beside it for their own words where these will do, too."""
    fields: dict[str, Any] = {}
    for place, question in enumerate(ask.questions):
        title, about = shown(question.header or question.question), shown(question.question)
        labels = [
            EnumOption(const=one.label, title=shown(one.label), description=shown(one.description) or None)
            for one in question.options
        ]
        if not labels:
            fields[f"q{place}"] = ElicitationStringPropertySchema(type="string", title=title, description=about)
            continue
        if question.multiple:
            items = TitledMultiSelectItems(any_of=labels)
            fields[f"q{place}"] = ElicitationMultiSelectPropertySchema(
                type="array", items=items, title=title, description=about
            )
        else:
            fields[f"q{place}"] = ElicitationStringPropertySchema(
                type="string", one_of=labels, title=title, description=about
            )
        if question.custom:
            fields[f"q{place}_words"] = ElicitationStringPropertySchema(type="string", title="Or in your own words")
    return ElicitationSchema(type="object", properties=fields)


def _says(ask: AskOpened, filled: dict[str, Any]) -> list[str]:
    return [_said(filled, place) for place in range(len(ask.questions))]


def _said(filled: dict[str, Any], place: int) -> str:
    own = filled.get(f"q{place}_words")
    said = own or filled.get(f"q{place}", "")
    return ", ".join(map(str, said)) if isinstance(said, list) else str(said)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
