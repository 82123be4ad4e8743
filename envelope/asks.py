"""Asks: on which terms people are asked, what a question looks like, and what an answer says.

An answer travels as text (`Transport.answer`), so that whoever can type a word can give one: see `read_reply`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from .scope import Grant
from .wire import Wire

Choice = Literal["once", "always", "reject"]
# What people type. Of a question, "yes" is an answer like another; here are those that only let or stop.
WORDS: dict[str, Choice] = {
    **dict.fromkeys(("once", "yes", "y"), "once"),
    "always": "always",
    **dict.fromkeys(("reject", "no", "n"), "reject"),
}


class AskTerms(Wire):
    """How a task may ask people. A request without any is headless: nobody can answer, and every ask is denied.

    `timeout_ms`: after this long the answer is no; None: as the worker is told. `project`: what "always" is kept for,
    by whoever answers. `approved`: what was answered "always" before, as `permission:pattern`.
    """

    timeout_ms: Annotated[int, Field(gt=0)] | None = None
    project: str = ""
    approved: tuple[Grant, ...] = ()


class Option(Wire):
    label: str
    description: str = ""


class Question(Wire):
    """`custom`: an answer in one's own words will do, too; without options it is the only kind."""

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multiple: bool = False
    custom: bool = True


class Reply(Wire):
    """What a person said. `rules`, of always: what it allows from now on. `answers`: to each question, in order."""

    choice: Choice
    message: str = ""
    rules: tuple[Grant, ...] = ()
    answers: tuple[tuple[str, ...], ...] = ()

    def text(self) -> str:
        return self.model_dump_json(exclude_defaults=True)

    def in_words(self) -> str:
        """
        >>> Reply(choice="reject", message="use git mv").in_words()
        'reject, use git mv'
        >>> Reply(choice="once", answers=(("Red", "Blue"), ("so",))).in_words()
        'Red and Blue; so'
        """
        said = "; ".join(" and ".join(labels) for labels in self.answers) or self.choice
        return f"{said}, {self.message}" if self.message else said


def read_reply(text: str) -> Reply:
    """The reply in an answer's text: its JSON, or a word. What is neither lets nothing run: it is a no, and why.

    >>> read_reply("once").choice, read_reply("use git mv").message
    ('once', 'use git mv')
    """
    word = text.strip().lower()
    if word in WORDS:
        return Reply(choice=WORDS[word])
    try:
        return Reply.model_validate_json(text)
    except ValidationError:
        return Reply(choice="reject", message=text.strip())
