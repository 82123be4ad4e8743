"""@names in what a person says in plain words: files are attached, subagents are to be asked."""

from __future__ import annotations

import pytest

from envelope.messages import Attachment, TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "list:**", "glob:**", "grep:**", "edit:**", "bash:**", "task:**")
SAYS_DONE = "rules: [{reply: {text: done}}]"

DELEGATES = """
rules:
  - when: {user_contains: delegate, turn: 1}
    reply:
      tool_calls:
        - {name: task, arguments: {description: x, prompt: "look at @src/greet.py", subagent_type: explore}}
  - {reply: {text: done}}
"""


def ask(hands, workspace, prompt: str, **fields):
    told = {"agent": "build", "auth_scope": SCOPE, "workspace": workspace, "input": TaskInput(prompt=prompt)}
    return hands.request(**{**told, **fields})


def heard(server) -> list[str]:
    """The last thing that a person said, as each request had it."""
    return [[m["content"] for m in body["messages"] if m["role"] == "user"][-1] for body in server.log.bodies]


async def test_a_goals_mentions_are_attached_once(start_agents, workspace):
    hands, server = await start_agents(SAYS_DONE)
    await hands.result(ask(hands, workspace, "@explore find who uses @src/greet.py, as @pytest.fixture does"))

    [said] = heard(server)
    first, _, below = said.partition("\n\n")
    assert first == "@explore find who uses @src/greet.py, as @pytest.fixture does"
    assert below.count('<attached-file source="src/greet.py">') == 1
    assert "call `task` with subagent_type 'explore'" in below
    assert "pytest.fixture" not in below


LONG = "".join(f"line {number}\n" for number in range(1, 41))


async def test_a_name_with_blanks_lines_of_a_file_and_a_link_are_mentions_too(start_agents, pack):
    workspace = await pack({"my notes.md": "remember\n", "long.txt": LONG, "odd#L1-2": "a name like lines\n"})
    hands, server = await start_agents(SAYS_DONE)
    prompt = (
        'see @"my notes.md", @long.txt#L10-12 and [@src/greet.py](src/greet.py); @odd#L1-2 @"long.txt"#L40 @gone.txt#L1'
    )
    await hands.result(ask(hands, workspace, prompt))

    [said] = heard(server)
    for name in ("my notes.md", "long.txt#L10-12", "src/greet.py", "odd#L1-2", "long.txt#L40"):
        assert said.count(f'<attached-file source="{name}">') == 1
    assert "10: line 10\n11: line 11\n12: line 12\n" in said and "13: line 13" not in said
    assert "remember" in said and "a name like lines" in said and "40: line 40" in said
    assert 'source="gone.txt' not in said


async def test_words_without_mentions_and_other_agents_words_stay_as_they_are(start_agents, workspace):
    hands, server = await start_agents(DELEGATES)
    await hands.result(ask(hands, workspace, "delegate to me@example.com"))

    assert set(heard(server)) == {"delegate to me@example.com", "look at @src/greet.py"}


async def test_what_is_said_to_an_agent_meanwhile_may_mention_files(start_agents, workspace):
    idle, _ = await start_agents(SAYS_DONE)
    await idle.stop()
    request = ask(idle, workspace, "wait")
    await idle.transport.submit([request])
    await idle.transport.prompt(request.task_id, "look at @src/greet.py", by="test")
    hands, server = await start_agents(SAYS_DONE)
    await hands.ended(request.task_id)

    assert '<attached-file source="src/greet.py">' in heard(server)[-1]


async def test_what_is_brought_along_mentions_nobody(start_agents, workspace):
    hands, server = await start_agents(SAYS_DONE)
    blob = await hands.transport.blobs.put(b"please ask @explore about @src/greet.py")
    attached = (Attachment(blob=blob, name="notes.txt"),)
    await hands.result(ask(hands, workspace, "read the notes", attachments=attached))

    [said] = heard(server)
    assert "please ask @explore" in said
    assert "subagent_type" not in said
    assert "<attached-file" not in said


async def test_a_file_that_may_not_be_read_is_named_and_not_shown(start_agents, workspace):
    hands, server = await start_agents(SAYS_DONE)
    await hands.result(ask(hands, workspace, "look at @src/greet.py", auth_scope=("read:docs/**",)))

    [said] = heard(server)
    assert "(@src/greet.py is not attached: " in said
    assert "Hello" not in said
