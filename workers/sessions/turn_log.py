"""The turns of a session, as its log tells them: who said what, and where the work stood at the end of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from transport.blobs.base import Blobs

from ..agent.history import final_text
from ..agent.session import Outcome, Session
from ..delivery.diff_files import changed_files
from ..errors import BadInput
from ..llm.base import ChatMessage
from .checkpoints import Head, Segment, Work, read_log


@dataclass(frozen=True, slots=True)
class Turn:
    """`number` counts through the whole session, from 1. `log` is the segment that it ended with."""

    number: int
    log: str
    messages: tuple[ChatMessage, ...]
    work: Work | None

    @property
    def prompts(self) -> list[str]:
        """What people said before it."""
        return _prompts(self.messages)

    @property
    def tools(self) -> list[str]:
        return [call.name for one in self.messages for call in one.tool_calls]


async def turns_of(blobs: Blobs, checkpoint: str) -> list[Turn]:
    """The turns that have ended."""
    _, segments = await read_log(blobs, checkpoint)
    return list(_turns(segments))


async def files_changed(blobs: Blobs, turns: Sequence[Turn]) -> list[list[str]]:
    """For each turn the files whose change it made, altered or took back. What is not known is nothing."""
    diffs = [b"", *[await _diff(blobs, turn) for turn in turns]]
    return [changed_files(before, after) for before, after in pairwise(diffs)]


async def reverted(blobs: Blobs, checkpoint: str, to: int | None) -> str:
    """A new checkpoint, of the session as it stood when the turn `to` ended; 0: before its first prompt, None: before
    its last one. `BadInput` when there is none such.

    What was read is remembered as it is now: a file that has another content again must be read before it is edited.
    """
    head, segments = await read_log(blobs, checkpoint)
    turns = list(_turns(segments))
    said = [message for _, segment in segments for message in segment.messages]
    to, told = _before_last_prompt(turns, said) if to is None else (to, "")
    if not 0 <= to <= len(turns):
        raise BadInput(f"the session has no turn {to}", hint=_which(len(turns)))
    kept = turns[to - 1] if to else _opening(head, said)
    if kept.work is None:
        raise BadInput(f"where the work stood after turn {to} was not stored", hint="choose a later turn")
    session = Head(
        agent=head.agent,
        model=head.model,
        messages=head.messages if to else kept.messages,
        read_digests=head.read_digests,
        changes=kept.work.changes,
        budget=head.budget,
        undone=checkpoint,
        log=kept.log or None,
    )
    messages = tuple(message for earlier in turns[:to] for message in earlier.messages)
    where = f"where turn {to} of {len(turns)} ended" if to else "before its first prompt"
    text = f"{told}The session stands {where}. {_last_words(session, messages)}".strip()
    return await blobs.put(session.model_copy(update={"outcome": Outcome(text=text)}).dump())


async def forked(blobs: Blobs, checkpoint: str, to: int | None) -> str:
    """A new checkpoint, of a session of its own that begins with the turns up to `to` (None: all that have ended)."""
    _, segments = await read_log(blobs, checkpoint)
    last = len(list(_turns(segments))) if to is None else to
    copy = Head.load(await blobs.get(await reverted(blobs, checkpoint, last)))
    told = (copy.outcome.text if copy.outcome else "").replace("The session stands", "A copy of the session stands", 1)
    return await blobs.put(copy.model_copy(update={"undone": None, "outcome": Outcome(text=told)}).dump())


async def unreverted(blobs: Blobs, checkpoint: str) -> str:
    """The checkpoint that the last revert took away. `BadInput` when there is nothing to take back."""
    head, _ = await read_log(blobs, checkpoint)
    if head.undone is None:
        raise BadInput("there is no revert to take back", hint="a revert stands once somebody has said something")
    before, _ = await read_log(blobs, head.undone)
    outcome = Outcome(text="The session stands where it stood before the revert.")
    return await blobs.put(before.model_copy(update={"outcome": outcome}).dump())


def _before_last_prompt(turns: Sequence[Turn], said: Sequence[ChatMessage]) -> tuple[int, str]:
    """The turn before the last words of a person, and what is told of these; they may have had no reply yet."""
    unanswered = _prompts(said[sum(len(turn.messages) for turn in turns) :])
    for number, prompts in ((len(turns), unanswered), *((turn.number - 1, turn.prompts) for turn in reversed(turns))):
        if prompts:
            return number, f"Taken back: {prompts[-1]}\n\n"
    raise BadInput("there is no prompt to take back", hint="the session stands before its first one")


def _opening(head: Head, said: Sequence[ChatMessage]) -> Turn:
    """What there was before anybody spoke: the system prompt, and no change."""
    messages = tuple(takewhile(lambda message: message.role == "system", (*head.messages, *said)))
    return Turn(0, "", messages, Work(changes=None))


def _prompts(messages: Iterable[ChatMessage]) -> list[str]:
    return [one.content for one in messages if one.role == "user" and not one.synthetic]


def _turns(segments: Iterable[tuple[str, Segment]]) -> Iterator[Turn]:
    """A turn ends with the segment in which its last call is answered; what has no reply belongs to the next turn."""
    number, messages = 0, list[ChatMessage]()
    for log, segment in segments:
        messages += segment.messages
        open_calls = sum(len(one.tool_calls) for one in messages) - sum(one.role == "tool" for one in messages)
        if open_calls <= 0 and any(one.role == "assistant" for one in messages):
            number += 1
            yield Turn(number, log, tuple(messages), segment.work)
            messages = []


async def _diff(blobs: Blobs, turn: Turn) -> bytes:
    return await blobs.get(turn.work.changes) if turn.work and turn.work.changes else b""


def _last_words(session: Session, messages: tuple[ChatMessage, ...]) -> str:
    said = final_text(session.model_copy(update={"messages": messages})).strip()
    return f"Its last words then: {said}" if said else ""


def _which(count: int) -> str:
    return f"it has the turns 1 to {count}: muster task turns" if count else "it has ended none yet"
