"""A task's time line: what it was at, one thing after the other. Pure."""

from __future__ import annotations

from enum import StrEnum

from envelope.lifecycle import State


class At(StrEnum):
    QUEUED = "queued"
    WAITING = "waiting"
    STARTING = "starting"  # its workspace is made ready
    MODEL = "model"
    TOOL = "tool"
    TOGETHER = "together"  # a driver puts together what its tasks have left


# What a task was at, and since when in the queue's ms; each span ends where the next one begins.
Span = tuple[At, int]
Line = tuple[Span, ...]
# More than a screen has pixels for in a row of a tree.
MAX_SPANS = 64


def at_of(state: State, *, turn: int, uses_tools: bool) -> At | None:
    """None for a task that has ended."""
    if state is State.RUNNING:
        return At.TOOL if uses_tools else At.MODEL if turn else At.STARTING
    return {State.PENDING: At.QUEUED, State.WAITING: At.WAITING}.get(state)


def longer(line: Line, at: At, since_ms: int) -> Line:
    """The line with one more span; of a line that is full each two spans become the longer one of them.

    >>> longer(((At.QUEUED, 5),), At.MODEL, 3)
    ((<At.QUEUED: 'queued'>, 5), (<At.MODEL: 'model'>, 5))
    """
    if line and line[-1][0] is at:
        return line
    if len(line) >= MAX_SPANS:
        line = _coarser(line)
    # a worker's clock and the queue's are not quite the same
    return (*line, (at, max(since_ms, line[-1][1]) if line else since_ms))


def _coarser(line: Line) -> Line:
    halved: list[Span] = []
    for index in range(0, len(line) - 1, 2):
        (first, since_ms), (second, middle_ms) = line[index], line[index + 1]
        until_ms = line[index + 2][1] if index + 2 < len(line) else middle_ms
        at = first if middle_ms - since_ms >= until_ms - middle_ms else second
        if not halved or halved[-1][0] is not at:
            halved.append((at, since_ms))
    return (*halved, line[-1]) if halved and halved[-1][0] is not line[-1][0] else tuple(halved)
