"""The words of a compaction: what is asked of the model that summarises, and what the agent is told afterwards. Pure.

The history goes to the model as one text and not as messages: no provider then minds calls without tools, and what
stands in files and outputs is plainly material.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent

from ..llm.base import ChatMessage
from .compaction import is_prompt

# Of each output and of each call's arguments: enough to see what it was about.
SHOWN_CHARS = 2_000

TEMPLATE = """\
Write the notes under exactly these headings. Short points; exact names, paths, commands and error messages. Write \
"none" where there is nothing. Say nothing that is not in the record.

## Objective
What was asked for, in the words of who asked, with every later change of it.

## Details
Constraints, preferences and decisions with their reasons; facts that were found out and cost effort.

## Work state
### Done
What is finished, and how it was checked.
### Active
What was being worked on last, and how far it is.
### Blocked
What cannot go on, and what it waits for.

## Next move
The very next step, then those after it.

## Files
Each file that matters: its path, and what is in it or was changed in it."""

UPDATE = """\
Earlier notes stand before the record. Bring them up to date: keep what still holds, change what the record changes, \
drop what no longer matters."""

CONTINUE = ChatMessage(
    role="user",
    content="Go on with the next move. If the task is done, give your answer; if you cannot go on, say what stops you.",
    synthetic=True,
)


@dataclass(frozen=True, slots=True)
class NotesWanted:
    """How the notes are to be written, and what else should be known to who writes them."""

    template: str = TEMPLATE
    context: tuple[str, ...] = ()


async def as_ever(wanted: NotesWanted) -> NotesWanted:
    """For sessions whose operator has nothing to say about it."""
    return wanted


def summary_request(
    system: str, messages: Sequence[ChatMessage], earlier: str = "", wanted: NotesWanted | None = None
) -> tuple[ChatMessage, ...]:
    """What the summarising model is asked; it needs no tools. `system`: the words of the agent `compaction`.
    `earlier`: the summary of what came before `messages`."""
    wanted = wanted or NotesWanted()
    parts = (
        _framed("earlier-notes", earlier),
        _framed("record", "\n".join(_record(messages))),
        *wanted.context,
        UPDATE if earlier else "",
        wanted.template,
    )
    asked = ChatMessage(role="user", content="\n\n".join(part for part in parts if part), synthetic=True)
    return ChatMessage(role="system", content=system), asked


def go_on(messages: Sequence[ChatMessage], *, overflowed: bool) -> ChatMessage:
    """What the agent hears after a compaction. `overflowed`: a provider refused the request before it, and the last
    prompt is said once more."""
    prompt = next((message for message in reversed(messages) if is_prompt(message)), None) if overflowed else None
    return CONTINUE if prompt is None else prompt.model_copy(update={"synthetic": True})


def _framed(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>" if text else ""


def _record(messages: Sequence[ChatMessage]) -> Iterator[str]:
    """Who said what. Heads stand at the margin and words are indented: no text can pass for another speaker's."""
    for message in messages:
        match message.role:
            case "system":
                continue
            case "user":
                files = [f"(showed {_word(file.name) or 'a file'}, {file.media_type})" for file in message.files]
                yield _said("note" if message.synthetic else "person", "\n".join((message.content, *files)))
            case "assistant":
                if message.content.strip():
                    yield _said("agent", message.content)
                for call in message.tool_calls:
                    yield _said(f"agent calls {_word(call.name)}", _cut(call.arguments))
            case "tool":
                head = "error of" if message.is_error else "output of"
                yield _said(f"{head} {_word(message.name)}", _cut(message.content))


def _said(head: str, text: str) -> str:
    return f"[{head}]\n{indent(text, '  ')}"


def _word(name: str) -> str:
    """A tool's name as the model wrote it, on one line."""
    return " ".join(name.split())[:100]


def _cut(text: str) -> str:
    more = len(text) - SHOWN_CHARS
    return text if more <= 0 else f"{text[:SHOWN_CHARS]}\n({more} more characters)"
