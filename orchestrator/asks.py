"""Asks of the fleet's tasks: which are open, what an answer to one means for the others, and what is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest

from envelope.asks import WORDS, Question, Reply, read_reply
from envelope.events import AskOpened
from envelope.lifecycle import TERMINAL
from envelope.pattern import match
from envelope.scope import split
from transport.approvals import Answer, Subject
from transport.base import TaskRecord, Transport
from transport.errors import NotFound

from .ask_texts import AskText, AskTexts, Key, text_of
from .errors import Answered, BadInput, near_miss
from .pages import records_of

AT_ONCE = 100  # traces whose asks are read
# Of what is answered already, where somebody asks for it once more: who comes second comes soon.
MAX_ROOTS = 1000  # the latest
MAX_TASKS = 1000  # of a trace
MAX_ENDED = 50  # of the latest roots
PLAN_EXIT = "plan_exit"
SHORTEST = 4  # characters of an id's end that name an ask


@dataclass(frozen=True, slots=True)
class OpenAsk:
    """A question that a task waits for. `ask` says so when the stream no longer holds its text (not `has_text`).

    `since_ms`: when it was asked first; 0 where that is not known any more.
    """

    task: TaskRecord
    ask: AskOpened
    since_ms: int = field(default=0, compare=False)
    has_text: bool = True


async def open_asks(
    transport: Transport, *, trace_id: str | None = None, tenant: str | None = None, texts: AskTexts | None = None
) -> list[OpenAsk]:
    """All of one trace, of a tenant or of everybody: first of the task that waits longest, a task's as it asked them.

    `texts`: of who asks again and again.
    """
    waiting = records_of(transport.asking, trace_id=trace_id, tenant=tenant)
    # one that begins to wait anew meanwhile is listed twice
    tasks = {task.task_id: task async for task in waiting}
    return await asks_of(tasks.values(), texts or AskTexts(transport))


async def open_ask(transport: Transport, ask_id: str, *, tenant: str | None, texts: AskTexts) -> OpenAsk | None:
    """The one with this id, of a tenant's tasks or of everybody's."""
    async for task in records_of(transport.asking, tenant=tenant):
        if ask_id in task.waits_for:
            return next((one for one in await asks_of([task], texts) if one.ask.ask_id == ask_id), None)
    return None


async def asks_of(tasks: Iterable[TaskRecord], texts: AskTexts) -> list[OpenAsk]:
    """The records say what is waited for; only then the stream is read for what it is."""
    waiting = [task for task in tasks if any(map(is_ask, task.waits_for))]
    traces = list(dict.fromkeys(task.trace_id for task in waiting))
    turn = asyncio.Semaphore(AT_ONCE)

    async def of(trace_id: str) -> Mapping[Key, AskText]:
        async with turn:
            return await texts.of(trace_id)

    known = dict(zip(traces, await asyncio.gather(*map(of, traces)), strict=True))
    return [one for task in waiting for one in _of_task(task, known[task.trace_id])]


def _open(task: TaskRecord, ask_id: str, text: AskText | None) -> OpenAsk:
    if text is None:
        gone = AskOpened(ask_id=ask_id, permission="", question="its text is no longer kept")
        return OpenAsk(task, gone, has_text=False)
    return OpenAsk(task, text.ask, text.since_ms)


def _of_task(task: TaskRecord, texts: Mapping[Key, AskText]) -> Iterator[OpenAsk]:
    known = [ask_id for task_id, ask_id in texts if task_id == task.task_id]
    order = {ask_id: place for place, ask_id in enumerate(known)}
    for ask_id in sorted(filter(is_ask, task.waits_for), key=lambda each: order.get(each, -1)):
        yield _open(task, ask_id, texts.get((task.task_id, ask_id)))


def is_ask(name: str) -> bool:
    """Is it an ask's id? A task waits for other things, too."""
    return name.startswith("ask_")


async def find_ask(transport: Transport, words: str, texts: AskTexts | None = None) -> OpenAsk:
    """The open ask with this id, or with this end of it. `Answered` for one that has its answer.

    `texts`: of who looks for one after the other.
    """
    one, first = await _named(transport, words, texts)
    if first is not None:
        raise answered(one.task.task_id, first)
    return one


async def ask_to_answer(transport: Transport, words: str) -> OpenAsk:
    """As `find_ask`, and one that has its answer, too: whoever says the same again is told that it stands."""
    return (await _named(transport, words))[0]


async def _named(transport: Transport, words: str, texts: AskTexts | None = None) -> tuple[OpenAsk, Answer | None]:
    waiting: dict[str, TaskRecord] = {}
    if len(words) >= SHORTEST:
        async for task in records_of(transport.asking):
            if any(each.endswith(words) for each in task.waits_for):
                waiting[task.task_id] = task
    asks = await asks_of(waiting.values(), texts or AskTexts(transport))
    found = [one for one in asks if one.ask.ask_id.endswith(words)]
    if len(found) == 1:
        return found[0], None
    known = None if found else await answered_ask(transport, words)
    if known is None:
        what = f"{len(found)} open asks end" if found else "no open ask has an id that ends"
        raise BadInput(f"{what} in {words!r}", hint="see those that are open with: muster ask list")
    return known


async def answered_ask(transport: Transport, words: str, *, tenant: str | None = None) -> tuple[OpenAsk, Answer] | None:
    """An ask with this id, or this end of it, that got its answer. Only the latest traces are looked at, so that None
    says nothing of older ones."""
    for trace_id in await _latest_traces(transport, tenant) if len(words) >= SHORTEST else ():
        tasks = await transport.tasks(trace_id=trace_id, limit=MAX_TASKS)
        found = await asyncio.gather(*(_answers(transport, task) for task in tasks))
        for task, answers in zip(tasks, found, strict=True):
            if ask_id := next((each for each in answers if is_ask(each) and each.endswith(words)), None):
                return _open(task, ask_id, await text_of(transport, task, ask_id)), answers[ask_id]
    return None


async def _latest_traces(transport: Transport, tenant: str | None) -> list[str]:
    live = (await transport.live_roots(tenant=tenant, limit=MAX_ROOTS)).records
    latest = (await transport.roots(tenant=tenant, limit=MAX_ROOTS)).records
    ended = [root.trace_id for root in latest if root.state in TERMINAL]
    return [*(root.trace_id for root in live), *ended[:MAX_ENDED]]


def answered(task_id: str, first: Answer) -> Answered:
    return Answered(task_id, first.by, first.at_ms, read_reply(first.text))


async def _answers(transport: Transport, task: TaskRecord) -> Mapping[str, Answer]:
    """Those that people gave."""
    try:
        found = await transport.answers(task.task_id)
    except NotFound:
        return {}
    return {
        ask_id: answer
        for ask_id, answer in found.items()
        if not transport.approvals.is_forged(Subject(transport.fleet, task.trace_id, task.task_id, ask_id), answer)
    }


def reply_to(
    ask: AskOpened, choice: str, *, message: str = "", says: Sequence[str] = (), task_id: str = "TASK"
) -> Reply:
    """What a person means by a word and, to questions, by what they say. `BadInput` for what is no answer to this.

    `task_id`: of the task that asks, for who may say a message with a yes.
    """
    if choice and choice.lower() not in WORDS:
        raise BadInput(f"{choice!r} is no answer", hint="answer once, always or reject; a question with --say TEXT")
    meant = WORDS[choice.lower()] if choice else "once"
    if ask.questions:
        return _to_questions(ask, meant == "reject", message, says)
    if not choice or says:
        raise BadInput("this asks for a permission", hint="answer once, always or reject, and why with --message TEXT")
    if message and meant != "reject":
        raise BadInput(
            "a message goes with a refusal", hint=f'say more to the agent with: muster task prompt {task_id} "…"'
        )
    if meant == "always" and not ask.always:
        raise BadInput("this cannot be allowed for good", hint="answer once")
    return Reply(choice=meant, message=message, rules=ask.always if meant == "always" else ())


def _to_questions(ask: AskOpened, is_no: bool, message: str, says: Sequence[str]) -> Reply:
    if is_no:
        return Reply(choice="reject", message=message)
    if ask.permission == PLAN_EXIT:
        return Reply(choice="once", answers=(tuple(says) or ("yes",),))
    if not any(said.strip() for said in says):
        raise BadInput("this is a question", hint="answer it with --say TEXT, once for each question")
    if len(says) > len(ask.questions):
        raise BadInput(f"there are {len(ask.questions)} questions and {len(says)} answers")
    answers = (_to_question(question, said or "") for question, said in zip_longest(ask.questions, says))
    return Reply(choice="once", message=message, answers=tuple(answers))


def _to_question(question: Question, said: str) -> tuple[str, ...]:
    """Labels as they are offered, of several those between commas; else the person's own words."""
    labels = {option.label.lower(): option.label for option in question.options}
    words = [word.strip() for word in said.split(",")] if question.multiple else [said.strip()]
    if all(word.lower() in labels for word in words):
        return tuple(labels[word.lower()] for word in words)
    if said and not question.custom:
        raise BadInput(f"{said!r} is not offered", hint=near_miss(said, labels.values()))
    return (said.strip(),) if said.strip() else ()


async def give(transport: Transport, one: OpenAsk, reply: Reply, *, by: str) -> Answer:
    """Answer an ask; `Answered` when somebody was first. To say the same once more changes nothing.

    What else is open in the trace hears of it: after a plain no nothing of the task is worth an answer, and what an
    "always" covers needs none.
    """
    if not one.has_text and reply.choice != "reject" and transport.approvals.are_known:
        raise BadInput("what this asks is no longer kept, so nobody can allow it", hint="answer reject")
    standing = await _answer(transport, one, reply, by)
    if (standing.text, standing.by) != (reply.text(), by):
        raise answered(one.task.task_id, standing)
    others = [other for other in await open_asks(transport, trace_id=one.task.trace_id) if other != one]
    for other, answer in _settled_with(one, reply, others):
        with suppress(NotFound):  # its task has ended meanwhile
            await _answer(transport, other, answer, by)
    return standing


async def _answer(transport: Transport, one: OpenAsk, reply: Reply, by: str) -> Answer:
    """Signed with what was asked, as it stands in `one`: a worker takes it for that alone."""
    asked = one.ask.digest() if one.has_text else ""
    return await transport.answer(one.task.task_id, one.ask.ask_id, reply.text(), by=by, asked=asked)


def _settled_with(one: OpenAsk, reply: Reply, others: Iterable[OpenAsk]) -> Iterator[tuple[OpenAsk, Reply]]:
    ends_task = reply.choice == "reject" and not reply.message and one.ask.permission != PLAN_EXIT
    for other in others:
        if ends_task and other.task.task_id == one.task.task_id:
            yield other, Reply(choice="reject")
        elif other.ask.patterns and all(_allows(reply, other.ask.permission, each) for each in other.ask.patterns):
            yield other, Reply(choice="once")


def _allows(reply: Reply, permission: str, pattern: str) -> bool:
    return any(match(name, permission) and match(rule, pattern) for name, rule in map(split, reply.rules))
