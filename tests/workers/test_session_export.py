"""What of a session is handed on when its words must stay here."""

from __future__ import annotations

import json

from envelope.budget import Budget
from workers.agent.history import open_session
from workers.agent.session import Outcome
from workers.agents.registry import parse_agent
from workers.llm.base import ChatMessage, ToolCall
from workers.session_export import as_json, as_markdown
from workers.turn_log import Turn

SECRET = "the plan to buy the island"
AGENT = parse_agent("tester", "---\ndescription: tests\n---\nYou test.")


def told_everywhere():
    """A session in which the model has said it in the place of each thing that it chooses."""
    call = ToolCall(id="c1", name=SECRET, arguments=f'{{"{SECRET}": 1}}', input={SECRET: 1})
    session = open_session(AGENT, model="openai/x", system=SECRET, prompt=SECRET, budget=Budget())
    messages = (
        *session.messages,
        ChatMessage(role="assistant", content=SECRET, reasoning=SECRET, tool_calls=(call,)),
        ChatMessage(role="tool", name=SECRET, tool_call_id="c1", content=SECRET, metadata={"diff": SECRET}),
    )
    outcome = Outcome(text=SECRET, detail=SECRET, structured={SECRET: [SECRET]})
    return session.model_copy(update={"messages": messages, "outcome": outcome})


def test_a_sanitized_export_holds_nothing_that_anybody_said():
    turns = [Turn(1, "log", told_everywhere().messages, None)]

    exported = as_json(told_everywhere(), turns, [[SECRET]], sanitize=True)

    assert SECRET not in json.dumps(exported) + as_markdown(told_everywhere(), sanitize=True)
    assert exported["turns"] == [{"turn": 1, "tools": ["(26 characters)"], "files": ["file 1"]}]
    assert SECRET in json.dumps(as_json(told_everywhere(), turns, [[SECRET]], sanitize=False)["outcome"]["structured"])
