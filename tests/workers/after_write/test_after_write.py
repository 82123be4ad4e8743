"""Formatters and language servers on real files in a real sandbox: its image has `ruff format` and `ruff server`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import ValidationError

from envelope.events import WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskInput
from sandbox.base import Command
from workers.after_write.care import MAX_STARTS, FileCare
from workers.after_write.diagnostics import errors_text
from workers.after_write.protocol import BadMessage, encode, take_messages
from workers.after_write.settings import AfterWrite
from workers.after_write.workspace_files import Change, changed, files_now
from workers.tools.base import ToolContext
from workers.tools.files import digest

RUFF_FORMAT = {"command": ["ruff", "format", "--quiet", "$FILE"], "extensions": [".py"]}
RUFF_SERVER = {"command": ["ruff", "server"], "extensions": [".py", ".pyi"], "language_id": "python", "wait_s": 20}
PATH = "/workspace/a.py"


@pytest.fixture
def told() -> list[Any]:
    return []


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"formatters": {"ruff": RUFF_FORMAT}, "language_servers": {"ruff": RUFF_SERVER}}


@pytest.fixture
async def care(settings: dict[str, Any], told: list[Any]) -> AsyncIterator[FileCare]:
    async with FileCare(AfterWrite.model_validate(settings), told.append) as opened:
        yield opened


async def write(context: ToolContext, text: str, path: str = PATH) -> None:
    await (await context.sandbox()).write(path, text.encode())


@pytest.mark.docker
async def test_a_written_file_is_formatted_and_the_session_knows_its_new_content(care: FileCare, context: ToolContext):
    await write(context, "x = { 'a':1 }\n")

    said = await care(context, [PATH])

    assert await (await context.sandbox()).read(PATH) == b'x = {"a": 1}\n'
    assert context.read_digests[PATH] == digest(b'x = {"a": 1}\n')
    assert said == f"({PATH} was formatted by ruff; read it before you edit it again.)"


@pytest.mark.docker
@pytest.mark.parametrize("settings", [{"language_servers": {"ruff": RUFF_SERVER}}])
async def test_errors_come_and_go_with_the_files_versions(care: FileCare, context: ToolContext, told: list[Any]):
    await write(context, "print(missing)\n")
    first = await care(context, [PATH])
    await write(context, "missing = 1\nprint(missing)\n")
    second = await care(context, [PATH])
    await write(context, "def f(:\n    pass\n")
    third = await care(context, [PATH])

    assert first.startswith(f"Errors in {PATH} after this change:\n1:7 Undefined name `missing`")
    assert second == ""
    assert third.startswith(f"Errors in {PATH}")
    assert told == []


@pytest.mark.docker
async def test_several_files_of_one_patch_are_looked_at(care: FileCare, context: ToolContext):
    paths = [f"/workspace/m{n}.py" for n in range(3)]
    for path in paths:
        await write(context, "print(missing)\n", path)

    said = await care(context, paths)

    assert all(f"Errors in {path}" in said for path in paths)


@pytest.mark.docker
async def test_files_of_other_kinds_and_deleted_ones_are_left_alone(care: FileCare, context: ToolContext):
    await write(context, "x = { 'a':1 }\n", "/workspace/a.txt")

    assert await care(context, ["/workspace/a.txt", "/workspace/gone.py"]) == ""
    assert await (await context.sandbox()).read("/workspace/a.txt") == b"x = { 'a':1 }\n"


@pytest.mark.docker
@pytest.mark.parametrize(
    "settings",
    [
        {"language_servers": {"x": RUFF_SERVER | {"command": command}}}
        for command in (["no-such-program"], ["sh", "-c", "echo hello; cat"], ["sh", "-c", "head -c 99999 /dev/zero"])
    ],
)
async def test_a_broken_server_is_a_warning_and_not_started_for_ever(
    care: FileCare, context: ToolContext, told: list[Any]
):
    await write(context, "print(missing)\n")

    said = [await care(context, [PATH]) for _ in range(MAX_STARTS + 3)]

    assert all("did not look at /workspace/a.py" in one for one in said[: MAX_STARTS + 1])
    assert "It is started again with the next write" in said[0]
    assert "It is not asked again" in said[MAX_STARTS]
    assert said[MAX_STARTS + 1 :] == [""] * 2
    assert 0 < len(told) <= MAX_STARTS + 1
    assert all(isinstance(warning, WarningRaised) and "language server x" in warning.message for warning in told)


@pytest.mark.docker
@pytest.mark.parametrize("settings", [{"language_servers": {"ruff": RUFF_SERVER}}])
async def test_a_server_that_was_killed_is_started_again(care: FileCare, context: ToolContext, told: list[Any]):
    await write(context, "print(missing)\n")
    assert "Errors" in await care(context, [PATH])
    await (await context.sandbox()).kill_all()  # pyright: ignore[reportAttributeAccessIssue]

    said = [await care(context, [PATH]) for _ in range(2)]

    assert "Errors in" in said[-1]
    assert "Errors in" in said[0] or "did not look at" in said[0]
    assert len(told) <= 1


async def run(context: ToolContext, command: str) -> None:
    ended = await (await context.sandbox()).exec(Command(command))
    assert ended.exit_code == 0, ended.output


@pytest.mark.docker
@pytest.mark.parametrize("settings", [{"language_servers": {"ruff": RUFF_SERVER}}])
async def test_a_server_hears_what_a_command_has_changed(care: FileCare, context: ToolContext, told: list[Any]):
    await write(context, "print(missing)\n")
    assert "Errors in" in await care(context, [PATH])

    await run(context, "echo 'lint.ignore = [\"F821\"]' > ruff.toml")
    await write(context, "print(missing, 1)\n")
    ignored = await care(context, [PATH])
    await run(context, "mv ruff.toml other.toml")
    await write(context, "print(missing, 2)\n")

    assert ignored == ""
    assert "Errors in" in await care(context, [PATH])
    assert told == []


@pytest.mark.docker
@pytest.mark.parametrize("settings", [{"language_servers": {"ruff": RUFF_SERVER}}])
async def test_an_open_file_that_a_command_changed_or_removed_is_told_anew(
    care: FileCare, context: ToolContext, told: list[Any]
):
    others = [f"/workspace/{name}.py" for name in ("kept", "gone", "back")]
    for path in (PATH, *others):
        await write(context, "x = 1\n", path)
    assert await care(context, [PATH, *others]) == ""

    await run(context, "echo 'print(missing)' > kept.py; rm gone.py; mv back.py away.py")
    assert await care(context, [PATH]) == ""
    await run(context, "mv away.py back.py; echo 'print(missing)' >> back.py")

    assert await care(context, [others[1]]) == ""
    for path in (others[0], others[2]):
        assert f"Errors in {path}" in await care(context, [path])
    assert told == []


@pytest.mark.docker
async def test_what_changed_is_seen_by_content_name_and_place(context: ToolContext):
    sandbox = await context.sandbox()
    await run(context, "mkdir -p src node_modules .git; echo 1 > src/a.py; echo 1 > 'src/b c%.py'; echo 1 > src/d.txt")
    await run(context, "echo 1 > node_modules/x.py; echo 1 > pyproject.toml; echo 1 > src/e.py")
    before = await files_now(sandbox, [".py"])

    await run(
        context,
        "mv src/e.py src/a.py; rm 'src/b c%.py'; echo 2 > src/new.py; echo 2 > src/d.txt; echo 2 > pyproject.toml",
    )
    now = await files_now(sandbox, [".py"])

    assert before is not None and now is not None
    assert changed(before, now) == {
        "/workspace/src/a.py": Change.CHANGED,
        "/workspace/src/b c%.py": Change.DELETED,
        "/workspace/src/e.py": Change.DELETED,
        "/workspace/src/new.py": Change.CREATED,
        "/workspace/pyproject.toml": Change.CHANGED,
    }
    assert changed(now, await files_now(sandbox, [".py"]) or {}) == {}


@pytest.mark.docker
@pytest.mark.parametrize("settings", [{"formatters": {"bad": RUFF_FORMAT | {"command": ["false"]}}}])
async def test_a_formatter_that_fails_changes_nothing(care: FileCare, context: ToolContext):
    await write(context, "x = { 'a':1 }\n")

    assert await care(context, [PATH]) == ""


@pytest.mark.parametrize(
    ("data", "messages"),
    [
        (b"Content-Length: 2\r\n\r\n{}", [{}]),
        (b"Content-Type: x\r\ncontent-length: 8\r\n\r\n" + b'{"a": 1}', [{"a": 1}]),
        (encode({"id": 1}) + encode({"id": 2}), [{"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": 2}]),
        (b"Content-Length: 20\r\n\r\n{", []),
        (b"Content-Len", []),
    ],
)
def test_messages_are_taken_whole(data: bytes, messages: list[Any]):
    assert [*take_messages(bytearray(data))] == messages


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"Content-Length: 99999999\r\n\r\n",
        b"Content-Length: 1\r\n\r\n[",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000,
        b"x" * 5000,
    ],
)
def test_what_is_no_message_ends_the_conversation(data: bytes):
    with pytest.raises(BadMessage):
        list(take_messages(bytearray(data)))


def test_what_a_server_says_is_bounded():
    many = [{"message": "x" * 10_000, "severity": 1}] * 1000

    said = errors_text("/workspace/a.py", [*many, "nonsense", {"message": 7}, {"severity": 1}, None])

    assert len(said) < 8000
    assert said.endswith("(and 980 more)")


@pytest.mark.parametrize(
    "settings",
    [
        {"formatters": {"x": {"command": [], "extensions": [".py"]}}},
        {"formatters": {"x": {"command": ["x"], "extensions": ["py"]}}},
        {"language_servers": {"x": {"command": ["x"], "extensions": [".py"]}}},
        {"formatters": {"x": {"command": ["x"], "extensions": [".py"], "shell": True}}},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]):
    with pytest.raises(ValidationError):
        AfterWrite.model_validate(settings)


WRITES = """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: write, arguments: {filePath: /workspace/src/new.py, content: "print( missing )"}}]}
  - when: {turn: 2}
    reply: {text: "It said: ${result.0}"}
"""


@pytest.mark.redis
@pytest.mark.docker
async def test_an_agent_hears_of_errors_in_what_it_wrote(start_agents, workspace, settings):
    hands, _ = await start_agents(WRITES, **settings)
    scope = ("read:**", "edit:**")
    request = hands.request(agent="build", auth_scope=scope, workspace=workspace, input=TaskInput(prompt="write"))

    async with asyncio.timeout(60):
        result = await hands.result(request)

    assert result.status is State.COMPLETED, result.errors
    assert "Created /workspace/src/new.py" in result.output.text
    assert "1:7 Undefined name `missing`" in result.output.text
    assert "+print(missing)" in await hands.diff(result)


FLOODS = {"command": ["sh", "-c", "head -c 11000000 /dev/zero | tr '\\0' a > $0", "$FILE"], "extensions": [".py"]}
HANGS = {"command": ["sleep", "600"], "extensions": [".py"], "timeout_s": 0.5}


@pytest.mark.docker
@pytest.mark.parametrize(
    ("settings", "warns"),
    [({"formatters": {"odd": FLOODS}}, True), ({"formatters": {"odd": HANGS}}, False)],
    ids=["floods", "hangs"],
)
async def test_a_formatter_gone_wrong_makes_no_error_of_a_write(care: FileCare, context, told: list[Any], warns: bool):
    await write(context, "x = 1\n")

    assert await care(context, [PATH]) == ""

    assert [warning.message.startswith("the formatter odd did not format") for warning in told] == [True] * warns
