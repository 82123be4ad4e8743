"""MCP servers over HTTP: the official library's own server, in a process of its own on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from envelope.redaction import REDACTED
from workers.mcp.connection import Connection
from workers.mcp.hub import McpHub
from workers.mcp.settings import McpServer
from workers.mcp.ways import Remote
from workers.tools.base import ToolContext
from workers.tools.errors import ToolError

TOKEN = "a-token-that-nobody-may-read-4711"


@dataclass
class Opened:
    """One that is connected, as the hub has it, and what people were told."""

    connection: Connection
    hub: McpHub
    told: list[Any] = field(default_factory=list[Any])

    async def run(self, context: ToolContext, tool: str, **arguments: Any) -> str:
        [found] = [one for one in await self.hub.tools() if one.name == tool]
        result = await found.run(context, "call-1", arguments)
        return result.content  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


@pytest.fixture
async def process(start_server):
    return await start_server()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[McpServer], Opened]]:
    opened: list[McpHub] = []

    def connected(server: McpServer) -> Opened:
        told: list[Any] = []
        connection = Connection("real", Remote(server), server.timeout_s, told.append)
        opened.append(hub := McpHub([connection], told.append))
        return Opened(connection, hub, told)

    yield connected
    for hub in opened:
        await hub.close()


def no_sandbox() -> Any:
    raise AssertionError("no sandbox is needed")


@pytest.fixture
def bare() -> ToolContext:
    """A context without a sandbox: a call of a remote server needs none."""
    return ToolContext(no_sandbox, None, {})  # pyright: ignore[reportArgumentType]


async def test_a_tool_is_called_over_http_and_changes_no_file_of_ours(process, connect, bare: ToolContext):
    assert await connect(process.server()).run(bare, "real_echo", text="hello") == "hello"
    assert not bare.may_have_written


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("moved", "Redirect to http://169.254.169.254/mcp not followed"),
        ("flood", "longer than 8 MiB"),
        ("packed", "packs its answers"),
        ("page", "Unexpected content type"),
        ("nothing", "Not Found"),
    ],
)
async def test_what_is_no_server_is_a_warning_that_says_why(process, connect, path: str, said: str):
    opened = connect(process.server(path))

    assert list(await opened.hub.tools()) == []
    [warning] = opened.told
    assert said in warning.message and "mcp.real" in warning.hint


async def test_an_address_that_the_operator_has_not_named_is_not_reached(process, connect):
    opened = connect(process.server(private_addresses=[]))

    assert list(await opened.hub.tools()) == []
    assert "is a private address" in opened.told[0].message


@pytest.mark.parametrize("host", ["localhost", "[::1]", "169.254.169.254", "0.0.0.0", "[::ffff:127.0.0.1]"])
async def test_another_name_of_this_machine_gains_nothing(connect, host: str):
    opened = connect(McpServer(url=f"http://{host}:9/mcp", timeout_s=20))

    assert list(await opened.hub.tools()) == []
    assert "private address" in opened.told[0].message or "no http" in opened.told[0].message


async def test_headers_are_sent_with_the_secret_and_told_without_it(
    start_server, connect, bare: ToolContext, monkeypatch
):
    monkeypatch.setenv("REAL_TOKEN", TOKEN)
    process = await start_server(TOKEN)
    server = process.server(headers={"Authorization": "Bearer ${REAL_TOKEN}", "X-Team": "core"})

    said = await connect(server).run(bare, "real_headers")

    assert "'x-team': 'core'" in said and f"Bearer {REDACTED}" in said
    assert TOKEN not in said and TOKEN not in repr(server)


async def test_who_sends_no_token_is_told_so(start_server, connect):
    opened = connect((await start_server(TOKEN)).server())

    assert list(await opened.hub.tools()) == []
    assert "answered 401" in opened.told[0].message


async def test_a_variable_that_is_not_set_is_named(process, connect):
    opened = connect(process.server(headers={"Authorization": "Bearer ${NOWHERE_SET}"}))

    assert list(await opened.hub.tools()) == []
    assert "the variable NOWHERE_SET" in opened.told[0].message


async def test_a_call_that_takes_too_long_is_an_error_and_the_server_is_used_on(process, connect, bare: ToolContext):
    opened = connect(process.server(timeout_s=3))

    with pytest.raises(ToolError, match="did not answer within 3 s"):
        await opened.run(bare, "real_never")

    assert await opened.run(bare, "real_echo", text="on") == "on"
    assert opened.told == []


async def test_a_server_that_is_gone_is_looked_for_once_more_and_then_given_up(process, connect, bare: ToolContext):
    opened = connect(process.server())
    with pytest.raises(ToolError):
        await opened.run(bare, "real_crash")
    await process.ended()

    with pytest.raises(ToolError, match="does not answer"):
        await opened.run(bare, "real_echo", text="x")
    with pytest.raises(ToolError, match="not started any more"):
        await opened.run(bare, "real_echo", text="x")

    assert [warning.message for warning in opened.told] == [
        "the MCP server real has ended: it is started once more",
        "the MCP server real has ended again: its tools cannot be used any more",
    ]


async def test_a_tool_that_a_server_learns_is_offered_from_then_on(process, connect, bare: ToolContext):
    opened = connect(process.server())
    before = {tool.name for tool in await opened.hub.tools()}

    await opened.run(bare, "real_learn")
    await opened.connection.news.wait()

    assert {tool.name for tool in await opened.hub.tools()} - before == {"real_learnt"}


async def test_resources_are_listed_by_uri(process, connect, bare: ToolContext):
    opened = connect(process.server())

    resources = await opened.run(bare, "list_mcp_resources")
    templates = await opened.run(bare, "list_mcp_resource_templates", server="real")

    assert resources.splitlines() == [
        "real:",
        "notes://today  today  text/plain  What to know.",
        "notes://picture  picture  image/png",
    ]
    assert "notes://{day}/page  page" in templates


async def test_a_resource_is_read_by_the_permission_for_reading(process, connect, bare: ToolContext):
    opened = connect(process.server())
    [read] = [tool for tool in await opened.hub.tools() if tool.name == "read_mcp_resource"]
    wanted = {"server": "real", "uri": "notes://today"}

    assert [(target.permission, target.pattern) for target in read.targets(wanted)] == [
        ("read", "mcp:real/notes://today")
    ]
    assert await opened.run(bare, "read_mcp_resource", **wanted) == "the answer is 42"
    assert await opened.run(bare, "read_mcp_resource", server="real", uri="notes://monday/page") == "page of monday"


async def test_a_resource_that_is_not_there_is_an_error_for_the_model(process, connect, bare: ToolContext):
    opened = connect(process.server())

    with pytest.raises(ToolError, match="the MCP server real says"):
        await opened.run(bare, "read_mcp_resource", server="real", uri="nowhere://x")
    with pytest.raises(ToolError, match=r"no MCP server 'other'.*there are: real"):
        await opened.run(bare, "read_mcp_resource", server="other", uri="x")


@pytest.mark.docker
async def test_what_is_long_is_cut_and_kept_whole(process, connect, context: ToolContext):
    said = await connect(process.server()).run(context, "real_long")

    assert "(3000 lines truncated)" in said and "/tmp/tool-output/call-1.txt" in said
    kept = await (await context.sandbox()).read("/tmp/tool-output/call-1.txt", max_bytes=10**6)
    assert kept.decode().endswith("line 4999")


@pytest.mark.docker
async def test_a_blob_lies_in_the_sandbox(process, connect, context: ToolContext):
    said = await connect(process.server()).run(context, "read_mcp_resource", server="real", uri="notes://picture")

    assert said == "(a blob, image/png, of 12 bytes: it is in /tmp/tool-output/call-1-0.bin)"
    assert await (await context.sandbox()).read("/tmp/tool-output/call-1-0.bin") == b"\x89PNG picture"
