"""What an export says of a session: its parts, and what is handed on when its words must stay here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from envelope.budget import Budget
from workers.agent.calls import Answered
from workers.agent.compaction import Compaction
from workers.agent.history import open_session
from workers.agent.session import Outcome, Session
from workers.agents.registry import parse_agent
from workers.llm.base import ChatMessage, FilePart, Finish, Retry, ToolCall
from workers.sessions.export import as_json, as_markdown
from workers.sessions.turn_log import Turn
from workers.settings import WorkerSettings
from workers.tools.base import Delegated

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


CALLS = tuple(ToolCall(id=name, name="read", arguments=f'{{"secret": "{name}"}}') for name in "abc")
SHOT = FilePart(blob="sha256:1", media_type="image/png", name="secret.png", size_bytes=5)
SESSION = Session(
    agent="build",
    model="m",
    messages=(
        ChatMessage(role="user", content="secret", files=(SHOT,)),
        ChatMessage(
            role="assistant",
            tool_calls=CALLS,
            agent="plan",
            finish=Finish(reason="tool_use", at_ms=5),
            retries=(Retry(attempt=1, wait_ms=2, reason="secret", at_ms=3),),
        ),
        ChatMessage(role="tool", tool_call_id="a", name="read", content="secret", metadata={"diff": "secret"}),
        ChatMessage(role="tool", tool_call_id="b", name="read", content="no", is_error=True),
    ),
    open_turn=(Answered(CALLS[2], Delegated("child")),),
    compaction=Compaction(summary="secret", kept_from=1),
)


@pytest.mark.parametrize("sanitize", [False, True])
def test_every_call_has_its_state_and_every_reply_who_said_it(sanitize):
    told = as_json(SESSION, [], [], sanitize=sanitize)

    reply = told["messages"][1]
    assert [call["state"] for call in reply["tool_calls"]] == ["completed", "error", "running"]
    assert (reply["agent"], reply["finish"]) == ("plan", {"reason": "tool_use", "at_ms": 5})
    assert told["messages"][0]["files"][0]["media_type"] == "image/png"
    assert told["compaction"]["kept_from"] == 1
    assert ("secret" in str(told)) is not sanitize


def test_a_call_that_nobody_answered_is_pending():
    told = as_json(SESSION.model_copy(update={"open_turn": ()}), [], [], sanitize=True)

    assert told["messages"][1]["tool_calls"][2]["state"] == "pending"


def test_markdown_names_files_and_agents():
    assert "With `secret.png` (image/png, 5 bytes)." in as_markdown(SESSION, sanitize=False)
    assert "## plan" in as_markdown(SESSION, sanitize=False)
    assert "secret" not in as_markdown(SESSION, sanitize=True)


def test_what_an_earlier_version_stored_is_read_as_it_was():
    """Messages had no files, agents or retries, and answers of open turns no files."""
    stored = (
        '{"agent":"build","model":"m","messages":[{"role":"assistant","content":"x","tool_calls":[{"id":"a","name":"n",'
        '"arguments":"{}"}],"finish":{"reason":"tool_use","at_ms":1}}],"open_turn":[{"call":{"id":"a","name":"n",'
        '"arguments":"{}"},"result":{"content":"y","title":"","is_error":false,"metadata":{}}}]}'
    )

    session = Session.load(stored.encode())

    assert session.messages[0].files == () and session.messages[0].retries == ()
    assert session.open_turn[0].result.files == ()


def test_the_example_of_the_page_says_what_a_model_can_see():
    page = (Path(__file__).parents[2] / "docs/agents/parts.md").read_text()
    [limits] = re.findall(r"MUSTER_MODEL_LIMITS='(.*)'", page)

    assert WorkerSettings(model_limits=json.loads(limits)).model_limits["openai/local"].sees == {"image"}
