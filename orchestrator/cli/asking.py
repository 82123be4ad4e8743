"""An ask as people see it, and their answer from the keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from rich.text import Text

from envelope.asks import Question, Reply
from envelope.events import AskOpened
from transport.errors import Unreachable
from transport.state_folder import held

from ..asks import PLAN_EXIT, OpenAsk, reply_to
from ..client import Muster
from ..errors import Answered, BadInput
from .console import people, plain, warn
from .interrupt import read_line
from .person import person

_SHOWN = "asks/shown.json"
MAX_SHOWN = 1_000  # the latest

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def subject(ask: AskOpened) -> str:
    """In a line, what an ask is about."""
    return f"{ask.permission} {', '.join(ask.patterns)}".strip() if ask.patterns else ask.question


def ask_lines(ask: AskOpened, agent: str) -> Iterator[str]:
    """All that a person needs for an answer, and how to give one elsewhere."""
    yield f"{agent or 'a task'} asks: {plain(ask.question)}"
    if ask.patterns:
        yield f"  {plain(subject(ask))}"
    yield from (f"  | {plain(line.expandtabs())}" for line in ask.detail.splitlines())
    for question in ask.questions:
        yield from _question_lines(question)
    if ask.always:
        yield f"  always would allow: {plain(', '.join(ask.always))}"
    yield f"  answer with: muster ask answer {ask.ask_id} {_how(ask)}"


def _question_lines(question: Question) -> Iterator[str]:
    header = f"{question.header}: " if question.header else ""
    yield f"  {plain(header + question.question)}"
    for option in question.options:
        meaning = f" ({option.description})" if option.description else ""
        yield f"    - {plain(option.label + meaning)}"
    if question.multiple:
        yield "    (several, with commas between them)"


def _how(ask: AskOpened) -> str:
    if ask.permission == PLAN_EXIT:
        return "yes | no [--message TEXT]"
    if ask.questions:
        return " ".join("--say TEXT" for _ in ask.questions)
    return f"once | {'always | ' if ask.always else ''}reject [--message TEXT]"


def show_ask(one: OpenAsk, state_dir: Path) -> None:
    """To whoever types here; what they answer then is to that."""
    for line in ask_lines(one.ask, one.task.agent):
        style = COLOURS.get(line[4:5], "") if line.startswith("  | ") else ""
        people().print(Text(line, style=style), soft_wrap=True)
    note_shown(state_dir, [one])


def note_shown(state_dir: Path, asks: Iterable[OpenAsk]) -> None:
    """Whoever has a worker's Redis password can change a question between a look and the answer: `shown_of` says what
    was looked at on this machine. What cannot be noted is shown once more."""
    file = state_dir / _SHOWN
    with suppress(OSError, Unreachable), held(file.with_name("lock")):
        known = _shown(file) | {one.ask.ask_id: one.ask.digest() for one in asks if one.has_text}
        new = file.with_suffix(".new")
        new.write_text(json.dumps(dict([*known.items()][-MAX_SHOWN:])))
        new.chmod(0o600)
        new.replace(file)


def shown_of(state_dir: Path, ask_id: str) -> str:
    """The digest of what was shown for it; empty where nothing was."""
    return _shown(state_dir / _SHOWN).get(ask_id, "")


def _shown(file: Path) -> dict[str, str]:
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


async def ask_at_keyboard(muster: Muster, one: OpenAsk) -> None:
    """Show an ask and take its answer from the terminal; `EOFError` when that has gone."""
    show_ask(one, muster.settings.state_dir)
    reply = await _reply(one)
    try:
        await muster.reply(one, reply, by=person())
    except Answered as e:
        warn(e.message, e.hint)


async def _reply(one: OpenAsk) -> Reply:
    """Asked again until it is an answer."""
    while True:
        try:
            if one.ask.questions and one.ask.permission != PLAN_EXIT:
                return reply_to(one.ask, "", says=[await _line(f"{each.question} ") for each in one.ask.questions])
            words = "yes/no" if one.ask.questions else "once/always/reject" if one.ask.always else "once/reject"
            choice, _, message = (await _line(f"{words}, or `reject` and why? ")).strip().partition(" ")
            if choice:
                return reply_to(one.ask, choice, message=message.strip(), task_id=one.task.task_id)
        except BadInput as e:
            warn(e.message, e.hint)


async def _line(prompt: str) -> str:
    people().print(Text(plain(prompt) + " ", style="bold"), end="")
    line = await read_line()
    if not line:
        raise EOFError
    return line.rstrip("\n")
