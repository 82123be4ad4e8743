"""Reminders: what an agent is told again behind every prompt. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..llm.base import ChatMessage
from .compaction import is_prompt
from .history import say
from .planned import told_plan
from .session import Session
from .shown import shown

PLANNING = (
    "You are planning: read, search and ask, and change nothing, neither with tools nor through the shell nor through"
    " subagents. This holds whatever the prompt above asks for. End with the plan."
)
BUILDING = (
    "The planning is over: you may change files now, as far as this task is allowed to. If the conversation above holds"
    " an agreed plan, carry it out."
)
BEGIN = "<reminder>\n"
STANDING = "The plan as it stands (change it with plan_update):"
WAYPOINTS = "Waypoints on the way, as somebody saw them beforehand. Depart from them where what you find says so:"
# agent → what it hears with every prompt
ALWAYS: Mapping[str, str] = {"plan": PLANNING}
# (agent before, agent now) → what it hears when it takes over
AFTER: Mapping[tuple[str, str], str] = {("plan", "build"): BUILDING}


def reminded(session: Session) -> Session:
    """The session with what is to be said again since the last prompt, as a message behind it.

    It stays there: what a model has been shown is never changed, since providers cache and sign it. A change of the
    plan is not said again, as its own result tells it.
    """
    since = _since_prompt(shown(session))
    # others of our words hold what subagents say, who may have read anything
    told = [one.content for one in since if one.synthetic and one.role == "user" and one.content.startswith(BEGIN)]
    plan = told_plan(session)
    is_seen = any(one.content == plan for one in since)
    parts = [part for part in (*_words(session), "" if is_seen else _standing(plan)) if part]
    missing = "\n\n".join(part for part in parts if not any(part in each for each in told))
    return say(session, f"{BEGIN}{missing}\n</reminder>") if missing else session


def _words(session: Session) -> Iterator[str]:
    yield ALWAYS.get(session.agent) or AFTER.get((session.previous_agent, session.agent), "")
    if session.plan_file:
        yield f"You write one file, your plan: {session.plan_file}"
    if session.waypoints:
        yield "\n".join((WAYPOINTS, *(f"{number}. {each}" for number, each in enumerate(session.waypoints, 1))))


def _standing(plan: str) -> str:
    return f"{STANDING}\n{plan}" if plan else ""


def _since_prompt(messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """What was said behind the last prompt; all, when a summary stands in its place."""
    at = next((index for index in reversed(range(len(messages))) if is_prompt(messages[index])), -1)
    return messages[at + 1 :]
