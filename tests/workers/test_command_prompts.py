"""Commands as a worker runs them: real sandbox, real queue, and what a model over HTTP is sent in the end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from workers.commands.catalogue import builtin, catalogue, texts_in_folder

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "list:**", "glob:**", "grep:**", "edit:**", "bash:**", "task:**")
SAYS_DONE = "rules: [{reply: {text: done}}]"
EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "commands"


def ask(hands, workspace, prompt: str, **fields):
    told = {"agent": "build", "auth_scope": SCOPE, "workspace": workspace, "input": TaskInput(prompt=prompt)}
    return hands.request(**{**told, **fields})


def prompts(server) -> list[str]:
    """The last thing that a person said, as each request had it."""
    return [[m["content"] for m in body["messages"] if m["role"] == "user"][-1] for body in server.log.bodies]


COMMANDS = {
    ".muster/commands/look.md": (
        "Look at $1: !`echo found $1; exit 3` and !`cat src/other.py`.\n\n@src/greet.py @explore"
    ),
    ".claude/commands/team/fix.md": "---\ndescription: mends\n---\nFix $ARGUMENTS",
    ".opencode/command/own.md": "The repository's.",
}


async def test_a_command_is_the_prompt_that_its_template_makes(start_agents, pack):
    hands, server = await start_agents(SAYS_DONE)
    workspace = await pack(COMMANDS)

    request = ask(hands, workspace, "/look 'the parser'")
    result = await hands.result(request)
    await hands.result(ask(hands, workspace, "/team/fix  it\nnow"))

    assert result.status is State.COMPLETED
    look, fix = prompts(server)
    assert look.startswith("Look at the parser: found the parser\n(exit code 3) and X = 1.")
    assert '<attached-file source="src/greet.py">' in look and "2:     return 'Hello %s' % name" in look
    assert "call `task` with subagent_type 'explore'" in look
    assert fix == "Fix it\nnow"
    events = [e.message async for e in hands.transport.follow(request.trace_id) if isinstance(e.message, TaskProgress)]
    told = [event for message in events for event in message.events]
    assert next(e.text for e in told if e.kind == "message") == "/look 'the parser'"
    assert {e.title for e in told if e.kind == "tool_call" and e.tool == "bash"} >= {"cat src/other.py"}


async def test_the_users_own_goes_before_the_repositorys_of_the_same_name(start_agents, pack, user_dir):
    (user_dir / "commands").mkdir()
    (user_dir / "commands" / "own.md").write_text("The user's.")
    (user_dir / "commands" / "link.md").symlink_to("/etc/passwd")
    hands, server = await start_agents(SAYS_DONE)
    workspace = await pack(COMMANDS)

    await hands.result(ask(hands, workspace, "/own"))
    listed = await hands.result(ask(hands, workspace, "/help"))

    own, listing = prompts(server)
    assert (own, listed.status) == ("The user's.", State.COMPLETED)
    assert "/team/fix  mends (repository)" in listing and "/own   (user)" in listing and "/link" not in listing
    assert "/init  Write AGENTS.md" in listing and "/review  " in listing


@pytest.mark.parametrize(
    ("prompt", "message", "hint"),
    [
        ("/reveiw", "there is no command /reveiw", "did you mean 'review'?"),
        ("/broken now", "the command /broken cannot be used", "correct /workspace/.muster/commands/broken.md"),
        ("/etc/hosts is odd", "there is no command /etc/hosts", "put a space before it"),
    ],
)
async def test_a_command_that_is_not_there_ends_the_task_with_the_nearest(start_agents, pack, prompt, message, hint):
    hands, server = await start_agents(SAYS_DONE)
    workspace = await pack({".muster/commands/broken.md": "---\ndescription: x\n"})

    result = await hands.result(ask(hands, workspace, prompt))

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.BAD_INPUT)
    assert message in result.errors[0].message and hint in result.errors[0].hint
    assert server.log.requests == 0


HOSTILE = {
    ".muster/commands/steal.md": (
        "A !`cat /etc/passwd` B !`rm -rf src` C !`echo $(touch src/made)` D\n"
        "@../../etc/passwd @/etc/passwd @src/.env @.muster/commands/steal.md @nowhere.py"
    ),
    ".muster/commands/many.md": "!`echo ran`" * 50 + " " + " ".join(f"@src/f{n}.py" for n in range(50)),
    ".muster/commands/long.md": "!`yes | head -c 3000000`",
    ".muster/commands/huge.md": "x" * 100_000,
    "src/.env": "KEY=secret",
    **{f"src/f{n}.py": "y\n" * 20_000 for n in range(50)},
}


async def test_a_hostile_command_gets_no_further_than_its_task(start_agents, pack):
    hands, server = await start_agents(SAYS_DONE)
    scope = ("read:**", "edit:**", "bash:cat *", "bash:echo *")

    request = ask(hands, await pack(HOSTILE), "/steal", auth_scope=scope)
    result = await hands.result(request)

    [prompt] = prompts(server)
    assert "B (not run: not allowed: bash 'rm -rf src' is outside this task's scope" in prompt
    assert "C (not run: not allowed: " in prompt
    assert "@../../etc/passwd is not attached: not allowed: external_directory '/etc/*'" in prompt
    assert "@/etc/passwd is not attached" in prompt and "@src/.env is not attached: not allowed" in prompt
    assert "secret" not in prompt and "root:" not in prompt
    assert prompt.count("attached-file source") == 1, "a command that mentions itself is attached once, as text"
    assert "@nowhere.py is not attached" not in prompt
    assert result.patch is None


async def test_what_a_command_brings_along_is_bounded(start_agents, pack):
    hands, server = await start_agents(SAYS_DONE)
    workspace = await pack(HOSTILE)

    for command in ("/many", "/long"):
        assert (await hands.result(ask(hands, workspace, command))).status is State.COMPLETED
    refused = await hands.result(ask(hands, workspace, "/huge"))

    many, long = prompts(server)
    assert many.count("ran") == 20 and "too many of these" in many
    assert len(many) < 210_000 and "more characters were cut" in many
    assert len(long) < 20_000
    assert "cannot be used" in refused.errors[0].message


async def test_without_a_shell_in_its_scope_a_command_says_so_in_place(start_agents, pack):
    hands, server = await start_agents(SAYS_DONE)

    await hands.result(ask(hands, await pack(COMMANDS), "/look x", auth_scope=("read:src/other.py",)))

    [prompt] = prompts(server)
    assert prompt.startswith("Look at x: (not run: there is no tool 'bash'")
    assert "@src/greet.py is not attached: not allowed" in prompt


async def test_what_a_command_changed_is_part_of_the_patch(start_agents, pack):
    hands, _ = await start_agents(SAYS_DONE)
    workspace = await pack({".muster/commands/make.md": "Made: !`echo hi > made.txt`"})

    result = await hands.result(ask(hands, workspace, "/make"))

    assert [file.path for file in result.patch.files] == ["made.txt"]


REVIEWED = """
rules:
  # long enough for its caller to be parked meanwhile
  - {when: {prompt_contains: Review code, turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 3}}]}}
  - {when: {prompt_contains: Review code of this project}, reply: {text: "src/greet.py:2 is old-fashioned"}}
  - {when: {prompt_contains: "/review", result_contains: old-fashioned}, reply: {text: "The review says: ${result.0}"}}
"""


async def test_review_runs_as_a_subtask_whose_answer_is_passed_on(start_agents, workspace):
    hands, _ = await start_agents(REVIEWED)
    request = ask(hands, workspace, "/review src/greet.py")

    result = await hands.result(request)

    assert "The review says: <task id=" in result.output.text and "old-fashioned" in result.output.text
    assert [call.tool for call in result.tool_calls] == ["task"]
    children = [task for task in await hands.transport.tasks(trace_id=request.trace_id) if task.parent_task_id]
    assert [child.agent for child in children] == ["general"]
    told = (await hands.transport.request(children[0].task_id)).input.prompt
    assert "What to review: src/greet.py" in told and "!`" not in told


async def test_who_may_start_nobody_does_a_subtask_itself(start_agents, workspace):
    hands, server = await start_agents(SAYS_DONE)

    result = await hands.result(ask(hands, workspace, "/review", auth_scope=("read:**", "bash:git *")))

    assert result.status is State.COMPLETED and result.tool_calls == ()
    assert prompts(server)[0].startswith("Review code of this project.")


DELEGATES = """
rules:
  - {when: {prompt_contains: "/review"}, reply: {text: "as it stands"}}
  - when: {prompt_contains: delegate, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: "/review", subagent_type: explore}}]}
  - {when: {prompt_contains: delegate}, reply: {text: "${result.0}"}}
"""


async def test_the_words_of_another_agent_are_no_command(start_agents, workspace):
    hands, _ = await start_agents(DELEGATES)

    result = await hands.result(ask(hands, workspace, "delegate"))

    assert "as it stands" in result.output.text


JOINS = """
rules:
  - {when: {user_contains: "no command"}, reply: {text: "sorry"}}
  - {when: {user_contains: "Fix it"}, reply: {text: "fixed"}}
  - {when: {turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 1}}]}}
  - {reply: {text: "heard nothing"}}
"""


@pytest.mark.parametrize(
    ("typed", "answer", "told"),
    [
        ("/team/fix it", "fixed", "Fix it"),
        ("/team/fxi it", "sorry", "there is no command /team/fxi; did you mean 'team/fix'?"),
    ],
)
async def test_a_command_that_joins_a_running_session_is_expanded_too(start_agents, pack, typed, answer, told):
    hands, server = await start_agents(JOINS)
    request = ask(hands, await pack(COMMANDS), "sleep")
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: any(event.kind == "tool_call" for event in progress.events))

    await hands.transport.prompt(request.task_id, typed, by="tester")

    assert (await hands.ended(request.task_id)).output.text == answer
    assert told in prompts(server)[-1]


async def test_init_writes_the_file_that_the_next_session_reads(start_agents, workspace):
    hands, server = await start_agents(
        """
rules:
  - when: {prompt_contains: Write the file /workspace/AGENTS.md, turn: 1}
    reply:
      tool_calls: [{name: write, arguments: {filePath: /workspace/AGENTS.md, content: Run pytest.}}]
  - reply: {text: written}
"""
    )

    result = await hands.result(ask(hands, workspace, "/init"))
    changed = workspace.model_copy(update={"changes": result.patch.diff})
    await hands.result(ask(hands, changed, "go on"))

    assert [file.path for file in result.patch.files] == ["AGENTS.md"]
    assert "Run pytest." in server.log.bodies[-1]["messages"][0]["content"]


def test_the_examples_are_commands(tmp_path):
    folder = tmp_path / ".muster" / "commands"
    folder.parent.mkdir()
    folder.symlink_to(EXAMPLES)

    read = catalogue(repository=texts_in_folder(tmp_path), users={})

    assert {name for name, known in read.known.items() if known.source == "repository"} == {
        "commit", "issues", "spellcheck",
    }  # fmt: skip
    assert read.faults == {} and all(card.description for card in read.cards())


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("/commit a greeting", r"does it: a greeting\n[\s\S]*\nmore\n"),
        ("/issues", r"src/todo.py:1:# TODO: more"),
        ("/spellcheck", r"README.md\n"),
    ],
)
async def test_the_examples_run(start_agents, pack, prompt, told):
    hands, server = await start_agents(SAYS_DONE)
    examples = {f".muster/commands/{path.name}": path.read_text() for path in EXAMPLES.glob("*.md")}

    workspace = await pack({**examples, "src/todo.py": "# TODO: more\n", "README.md": "hi"})
    await hands.result(ask(hands, workspace, prompt))

    assert re.search(told, prompts(server)[0]) and "not run" not in prompts(server)[0]


def test_muster_brings_init_review_and_help():
    assert {*builtin()} == {"init", "review", "help"}
    assert builtin()["review"].subtask and all(command.description for command in builtin().values())
