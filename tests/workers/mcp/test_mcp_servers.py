"""MCP servers that run in a real sandbox, alone and as an agent uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from envelope.events import WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from sandbox.errors import SandboxLost
from workers.agents.registry import builtin
from workers.mcp.connection import Connection
from workers.mcp.hub import mcp_servers
from workers.mcp.listing import ListedTool
from workers.mcp.settings import McpServer, McpServers, with_grants
from workers.mcp.stdio import streams_of
from workers.mcp.tools import McpTool
from workers.mcp.ways import Local
from workers.tools.base import ToolContext
from workers.tools.errors import ToolError
from workers.tools.schema import first_fault

SOURCE = Path(__file__).with_name("echo_server.py").read_text()
SERVER = McpServer(
    command=("python3", "-u", "/workspace/server.py"), environment={"WHO": "operator"}, cwd="/tmp", timeout_s=20
)


@pytest.fixture
def server() -> McpServer:
    return SERVER


@pytest.fixture
def told() -> list[Any]:
    return []


@pytest.fixture
async def connection(context: ToolContext, server: McpServer, told: list[Any]) -> AsyncIterator[Connection]:
    await (await context.sandbox()).write("/workspace/server.py", SOURCE.encode())
    opened = Connection("echo", Local(server, context.sandbox), server.timeout_s, told.append)
    yield opened
    await opened.close()


async def tool_of(connection: Connection, name: str) -> McpTool:
    return next(tool for listed in await connection.tools() if (tool := McpTool(connection, listed)).name == name)


@pytest.mark.docker
async def test_its_tools_have_the_servers_name_in_front(connection: Connection):
    names = [McpTool(connection, listed).name for listed in await connection.tools()]

    assert names == ["echo_echo", "echo_where", "echo_crash", "echo_sleep", "echo_fail", "echo_odd_name_", "echo_learn"]


@pytest.mark.docker
async def test_a_call_runs_in_the_sandbox_with_what_the_operator_gave_it(connection: Connection, context: ToolContext):
    result = await (await tool_of(connection, "echo_where")).run(context, "c1", {})

    assert (result.content, result.is_error) == ("/tmp operator", False)
    assert context.may_have_written


@pytest.mark.docker
async def test_what_is_no_text_is_named(connection: Connection, context: ToolContext):
    result = await (await tool_of(connection, "echo_echo")).run(context, "c1", {"text": "picture"})

    assert result.content == "picture\n(image left out: it is no text)"


@pytest.mark.docker
async def test_a_tools_own_failure_is_a_result_for_the_model(connection: Connection, context: ToolContext):
    result = await (await tool_of(connection, "echo_fail")).run(context, "c1", {})

    assert (result.content, result.is_error) == ("it did not work", True)


@pytest.mark.docker
async def test_a_list_of_tools_without_an_end_is_left(context: ToolContext, told: list[Any]):
    endless = SOURCE.replace('return {"tools": [', 'return {"nextCursor": "more", "tools": [] and [')
    await (await context.sandbox()).write("/workspace/server.py", endless.encode())
    connection = Connection("echo", Local(SERVER, context.sandbox), SERVER.timeout_s, told.append)

    assert await connection.tools() == []

    await connection.close()


@pytest.mark.docker
async def test_calls_of_one_turn_run_together(connection: Connection, context: ToolContext):
    echo = await tool_of(connection, "echo_echo")

    results = await asyncio.gather(*(echo.run(context, f"c{n}", {"text": str(n)}) for n in range(20)))

    assert [result.content for result in results] == [str(n) for n in range(20)]


@pytest.mark.docker
async def test_a_server_that_dies_fails_its_call_and_is_started_once_more(
    connection: Connection, context: ToolContext, told: list[Any]
):
    crash, echo = await tool_of(connection, "echo_crash"), await tool_of(connection, "echo_echo")

    with pytest.raises(ToolError, match="the MCP server echo"):
        await crash.run(context, "c1", {})
    assert (await echo.run(context, "c2", {"text": "again"})).content == "again"
    with pytest.raises(ToolError, match="the MCP server echo"):
        await crash.run(context, "c3", {})
    for call_id in ("c4", "c5"):
        with pytest.raises(ToolError, match="is not started any more"):
            await echo.run(context, call_id, {"text": "x"})

    assert [warning.message for warning in told] == [
        "the MCP server echo has ended: it is started once more",
        "the MCP server echo has ended again: its tools cannot be used any more",
    ]


@pytest.mark.docker
@pytest.mark.parametrize("server", [SERVER.model_copy(update={"timeout_s": 3.0})])
async def test_one_that_does_not_answer_costs_its_time_out(connection: Connection, context: ToolContext):
    sleep = await tool_of(connection, "echo_sleep")

    with pytest.raises(ToolError, match="within 3 s"):
        await sleep.run(context, "c1", {})

    assert (await (await tool_of(connection, "echo_echo")).run(context, "c2", {"text": "on"})).content == "on"


@pytest.mark.docker
@pytest.mark.parametrize(
    ("server", "said"),
    [
        (McpServer(command=("no-such-program",), timeout_s=10), "could not be started: `no-such-program`"),
        (McpServer(command=("cat",), cwd="/nowhere", timeout_s=10), "/nowhere"),
        (McpServer(command=("sh", "-c", "yes no message"), timeout_s=2), "could not be started"),
        (McpServer(command=("sh", "-c", "head -c 20000000 /dev/zero"), timeout_s=5), "could not be started"),
    ],
)
async def test_a_server_that_cannot_be_started_is_a_warning(context: ToolContext, server: McpServer, said: str):
    told: list[Any] = []

    async with mcp_servers({"bad": server}, ("*:*",), context.sandbox, told.append) as hub:
        assert await hub.tools() == []

    [warning] = told
    assert isinstance(warning, WarningRaised)
    assert said in warning.message and "mcp.bad" in warning.hint


@pytest.mark.docker
async def test_a_lost_sandbox_is_said_as_that(connection: Connection, context: ToolContext):
    echo = await tool_of(connection, "echo_echo")
    await (await context.sandbox()).close()

    with pytest.raises(SandboxLost):
        await echo.run(context, "c1", {"text": "x"})


def no_sandbox() -> Any:
    raise AssertionError("no sandbox is needed")


async def test_a_server_that_no_grant_reaches_is_not_started():
    servers = McpServers.model_validate({"echo": SERVER}).enabled

    async with mcp_servers(servers, ("read:**", "bash:**"), no_sandbox, lambda _: None) as hub:
        assert await hub.tools() == []


def test_the_agents_that_a_server_names_get_its_grant():
    agents = with_grants(
        builtin(), McpServers.model_validate({"docs": SERVER, "off": {"command": ["x"], "enabled": False}})
    )

    granted = {name for name, agent in agents.items() if agent.auth_scope and "docs_*:*" in agent.auth_scope}
    assert granted == {"build"}
    assert not any("off_" in grant for agent in agents.values() for grant in agent.auth_scope or ())


@pytest.mark.parametrize(
    "written",
    [
        {"a_b": {"command": ["x"]}},
        {"": {"command": ["x"]}},
        {"a": {"command": []}},
        {"a": {}},
        {"a": {"command": ["x"], "timeout": 3}},
        {"a": {"command": ["x"], "timeout_s": 0}},
        {"a": {"command": ["x"], "url": "https://x.example/mcp"}},
        {"a": {"command": ["x"], "headers": {"A": "b"}}},
        {"a": {"url": "https://x.example/mcp", "cwd": "/tmp"}},
        {"a": {"url": "https://user:password@x.example/mcp"}},
        {"a": {"url": "file:///etc/passwd"}},
        {"a": {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer abcdefgh"}}},
        {"a": {"url": "https://x.example/mcp", "headers": {"X-Api-Key": "abcdefgh"}}},
        {"a": {"url": "https://x.example/mcp", "headers": {"X": "a\nb"}}},
        {"a": {"url": "https://x.example/mcp", "headers": {"a b": "c"}}},
    ],
)
def test_settings_that_make_no_sense_are_refused(written: dict[str, Any]):
    with pytest.raises(ValidationError):
        McpServers.model_validate(written)


DEEP: dict[str, Any] = {"type": "object"}
for _ in range(500):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


# Fifty lines that come to 2 to the 50th checks.
DOUBLING = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(50)} | {"50": {}}


@pytest.mark.parametrize(
    ("schema", "arguments", "is_fault"),
    [
        ({"properties": {"a": {"pattern": "^(x+)+$", "type": "string"}}}, {"a": "x" * 60 + "!"}, False),
        ({"properties": {"a": {"type": "string"}}}, {"a": 1}, True),
        ({"properties": {"pattern": {"type": "string"}}}, {"pattern": 1}, True),
        ({"$ref": "http://127.0.0.1:9/schema"}, {"a": 1}, False),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "integer"}}}, {"a": "x"}, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {}, False),
        ({"$ref": "#/$defs/missing"}, {}, False),
        (DEEP, {"a": {"a": {}}}, False),
        ({"patternProperties": {"^(x+)+$": {"type": "string"}}}, {"x" * 60 + "!": 1}, False),
        ({"$ref": "#/$defs/0", "$defs": DOUBLING}, {}, False),
        ({"properties": {f"p{n}": {"description": "d" * 1000} for n in range(100)}}, {"p1": 1}, False),
        ({"properties": {"a": {"type": 7}}}, {"a": 1}, False),
    ],
)
def test_a_foreign_schema_is_checked_as_far_as_that_is_safe(schema: dict[str, Any], arguments: Any, is_fault: bool):
    connection = Connection("any", Local(SERVER, no_sandbox), 1, lambda _: None)
    tool = McpTool(connection, ListedTool("tool", "", schema))

    assert bool(first_fault(tool.parameters, arguments)) == is_fault


USES_MCP = """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: echo_echo, arguments: {text: hello from inside}}, {name: echo_echo, arguments: {}}]}
  - when: {turn: 2}
    reply: {text: "It said: ${result.0} / ${result.1}"}
"""


@pytest.mark.redis
@pytest.mark.docker
async def test_an_agent_calls_a_tool_of_a_server_of_its_sandbox(start_agents, workspace):
    program = McpServer(command=("python3", "-u", "-c", SOURCE))
    broken = McpServer(command=("false",))
    servers = McpServers.model_validate({"echo": program, "broken": broken})
    hands, _ = await start_agents(USES_MCP, mcp=servers)
    scope = ("read:**", "echo_*:*", "broken_*:*")
    request = hands.request(agent="build", auth_scope=scope, workspace=workspace, input=TaskInput(prompt="ask it"))

    result = await hands.result(request)

    assert result.status is State.COMPLETED, result.errors
    assert "It said: hello from inside / Error: the arguments of echo_echo are wrong: 'text'" in result.output.text
    events = [
        event
        async for entry in hands.transport.follow(request.trace_id)
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
    ]
    warnings = [event.message for event in events if isinstance(event, WarningRaised)]
    assert any("MCP server broken" in warning for warning in warnings)


class Says:
    """A process that has said this, and ends."""

    def __init__(self, *data: bytes) -> None:
        self._data = [*data, b""]

    async def receive(self) -> bytes:
        return self._data.pop(0)


async def test_a_message_of_a_million_values_is_no_message():
    said = b'{"jsonrpc":"2.0","id":1,"result":{"a":[%s1]}}\n'
    service: Any = Says(said % (b"[]," * 1_000_000), said % b"[],", (said % b"")[:9], (said % b"")[9:])
    async with streams_of(service, ended := asyncio.Event()) as (heard, _):
        messages = [await heard.receive() for _ in range(3)]

    assert [isinstance(each, ValueError) for each in messages] == [True, False, False]
    assert ended.is_set()
