"""A trace's tree as rows of HTML by their ids: what the page begins with, and what the live stream changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from envelope.lifecycle import TERMINAL, State
from envelope.plan import Plan

from ...gating.text import proof_of, proof_text
from ...session.fold import Session
from ...session.line import Line
from ...session.said import GLYPH, INTEREST, doing_with, figures
from ...session.task import TaskView
from ...submit import RUN
from ...words import finds
from .rendering import fragment

MAX_DEPTH = 8  # what is deeper is not further in
MAX_TITLE_CHARS = 200
MAX_ANSWER_CHARS = 4_000
FOREVER_MS = 10**12  # of what still goes on: the line's edge cuts it off


@dataclass(slots=True)
class Tree:
    """Rows are drawn again when their tasks have changed, and numbered as their tasks were first heard of."""

    rows: dict[str, str] = field(default_factory=dict[str, str])  # by `tree-N`
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    depths: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, session: Session, changed: Collection[str], now_ms: int) -> Mapping[str, str]:
        """The parts of the page as they are now, with the rows of all that have ever been among the changed."""
        order: list[int] = []
        begin_ms = began_ms(session)
        for task_id in session.tasks:
            self.numbers.setdefault(task_id, len(self.numbers))
        for task, depth in in_order(session):
            number = self.numbers[task.task_id]
            order.append(number)
            has_moved = self.depths.get(task.task_id, depth) != depth
            self.depths[task.task_id] = depth
            if has_moved or task.task_id in changed:
                self.rows[f"tree-{number}"] = row(session, task, depth, begin_ms=begin_ms, now_ms=now_ms)
        return {"trace-head": head(session, now_ms), **self.rows, "tree-order": ",".join(map(str, order))}


def in_order(session: Session) -> Iterator[tuple[TaskView, int]]:
    """From the root, children below their parents in the order of their start; then those whose parent is not known."""
    seen: set[str] = set()
    beginnings = [(session.root, 0), *((task.task_id, 1) for task in session.tasks.values() if task.parent is None)]
    for beginning in beginnings:
        stack = [beginning]
        while stack:
            task_id, depth = stack.pop()
            if task_id in seen:
                continue
            seen.add(task_id)
            task = session.tasks[task_id]
            yield task, depth
            stack.extend((child, depth + 1) for child in reversed(task.children))


def row(session: Session, task: TaskView, depth: int, *, begin_ms: int, now_ms: int) -> str:
    """One line of the tree. A time that still grows is told by its beginning: the browser counts on."""
    turns, tokens, cost, took = figures(task, now_ms)
    return fragment(
        "tree/row.html",
        task=task,
        number_class=f"d{min(depth, MAX_DEPTH)}",
        glyph=GLYPH[task.state],
        title=task.title[:MAX_TITLE_CHARS],
        doing=doing_with(session, task)[:MAX_TITLE_CHARS],
        cells=(turns, tokens, cost),
        took=took,
        since_ms=None if task.ended else task.started_at_ms,
        line=drawn(task.line, task.ended_at_ms, begin_ms),
        span_ms=max(1, now_ms - begin_ms),
    )


def drawn(line: Line, ended_ms: int | None, begin_ms: int) -> Markup:
    """The spans as rectangles of a picture that is as wide as the trace has milliseconds."""
    if not line:
        return Markup("")
    ends = [since_ms for _, since_ms in line[1:]] + [ended_ms if ended_ms is not None else begin_ms + FOREVER_MS]
    return Markup("").join(
        Markup('<rect class="{}" x="{}" width="{}" height="4"/>').format(
            at.value, max(0, since_ms - begin_ms), max(0, until_ms - max(since_ms, begin_ms))
        )
        for (at, since_ms), until_ms in zip(line, ends, strict=True)
    )


def began_ms(session: Session) -> int:
    """The first that is known of the trace."""
    return min((line[0][1] for task in session.tasks.values() if (line := task.line)), default=0)


def head(session: Session, now_ms: int) -> str:
    """The sums, and what people should know first."""
    tasks, root = session.tasks.values(), session.root_task
    by_state = Counter(task.state for task in tasks)
    counts = [(state, by_state[state]) for state in INTEREST]
    return fragment(
        "tree/head.html",
        session=session,
        spent=sum(task.usage.total_tokens for task in tasks),
        goal=root,
        glyph=GLYPH[root.state],
        ended=root.state in TERMINAL,
        counts=[(state, GLYPH[state], count) for state, count in counts if count],
        asks=sum(len(task.asks) for task in tasks),
        without_money=session.without_money,
        took=figures(root, now_ms)[3],
        since_ms=None if root.ended else root.started_at_ms,
        proved=proved(root),
        plan=_plan(session),
        max_answer_chars=MAX_ANSWER_CHARS,
    )


def proved(task: TaskView) -> str:
    """Of a goal that is done, what its gate says of it: *done* and *verified* are not the same."""
    result = task.result
    # turns: an agent of the same name
    if result is None or task.agent != RUN or result.metrics.turns or result.status is not State.COMPLETED:
        return ""
    verified, reason = proof_of(result)
    return proof_text(verified=verified, reason=reason)


def _plan(session: Session) -> Plan | None:
    """The root's; else that of the latest agent that keeps one: whoever carries a plan out goes on with it."""
    known = [task.plan for task in session.tasks.values() if task.plan]
    return session.root_task.plan or (known[-1] if known else None)


def matches(task: TaskView, words: str) -> bool:
    """As the browser looks through the rows itself."""
    return finds(words, f"{task.agent} {task.title} {task.state} {task.error} {task.model}", task.task_id)


def task_head(session: Session, task: TaskView, now_ms: int) -> str:
    """One task's own figures."""
    turns, tokens, cost, took = figures(task, now_ms)
    return fragment(
        "task/head.html",
        task=task,
        glyph=GLYPH[task.state],
        doing=doing_with(session, task)[:1000],
        proved=proved(task),
        cells=[cell for cell in (turns, tokens, cost) if cell],
        took=took,
        since_ms=None if task.ended else task.started_at_ms,
        line=drawn(task.line, task.ended_at_ms, began_ms(session)),
        span_ms=max(1, (task.ended_at_ms or now_ms) - began_ms(session)),
    )
