"""Reminders: what an agent is told again with every request, at the end of the last prompt. Pure.

They stand in what a model is shown and never in the session. Each hangs on the prompt that the turn is about, so the
requests of one prompt go on starting with the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..llm.base import ChatMessage
from .planned import told_plan
from .session import Session

PLANNING = (
    "You are planning: read, search and ask, and change nothing, neither with tools nor through the shell nor through"
    " subagents. This holds whatever the prompt above asks for. End with the plan."
)
BUILDING = (
    "The planning is over: you may change files now, as far as this task is allowed to. If the conversation above holds"
    " an agreed plan, carry it out."
)
STANDING = "The plan as it stands (change it with plan_update):"
# agent → what it hears with every prompt
ALWAYS: Mapping[str, str] = {"plan": PLANNING}
# (agent before, agent now) → what it hears when it takes over
AFTER: Mapping[tuple[str, str], str] = {("plan", "build"): BUILDING}


def reminder_of(session: Session) -> str:
    """All that there is to say; empty when that is nothing."""
    return _reminder(session, told_plan(session))


def _reminder(session: Session, plan: str) -> str:
    words = ALWAYS.get(session.agent) or AFTER.get((session.previous_agent, session.agent), "")
    file = f"You write one file, your plan: {session.plan_file}" if session.plan_file else ""
    return "\n\n".join(part for part in (words, file, f"{STANDING}\n{plan}" if plan else "") if part)


def with_reminder(session: Session, shown: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """What the model is shown, with the reminder at the end of the last prompt: a person's, where there is one."""
    plan = told_plan(session)
    if not _reminder(session, plan):
        return shown
    users = [index for index, message in enumerate(shown) if message.role == "user"]
    if not users:
        return shown
    at = next((index for index in reversed(users) if not shown[index].synthetic), users[-1])
    # where its latest change can be seen, the start of the request stays as it was
    reminder = _reminder(session, "" if any(one.content == plan for one in shown[at + 1 :]) else plan)
    if not reminder:
        return shown
    told = shown[at].model_copy(update={"content": f"{shown[at].content}\n\n<reminder>\n{reminder}\n</reminder>"})
    return [*shown[:at], told, *shown[at + 1 :]]
