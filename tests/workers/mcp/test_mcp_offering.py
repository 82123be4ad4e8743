"""Which tools of servers an agent is offered: scope, rules and switches by wildcard."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workers.agents.registry import builtin
from workers.agents.told import tools
from workers.errors import BadInput
from workers.mcp.connection import Connection
from workers.mcp.listing import ListedTool
from workers.mcp.resources import resource_tools
from workers.mcp.settings import McpServer, McpServers
from workers.mcp.tools import McpTool
from workers.mcp.ways import Remote
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS, parse_rules
from workers.tools.errors import ToolError
from workers.tools.registry import offered

READERS = {"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"}
BOTH = {"docs_search", "docs_write"}


def foreign() -> list[Any]:
    server = McpServer(url="https://docs.example/mcp")
    docs = Connection("docs", Remote(server), 1, lambda _: None)
    return [*resource_tools([docs]), *(McpTool(docs, ListedTool(name, "", {})) for name in ("search", "write"))]


@pytest.mark.parametrize(
    ("scope", "rules", "switches", "shown"),
    [
        (("read:**", "docs_*:*"), {}, ("*",), BOTH | READERS),
        (("docs_*:*",), {}, ("*",), BOTH),
        (("read:**", "docs_search:*"), {}, ("*",), {"docs_search"} | READERS),
        (("read:**", "docs_*:*"), {"docs_*": "deny"}, ("*",), READERS),
        (("read:**", "docs_*:*"), {"docs_*": "deny", "docs_search": "allow"}, ("*",), {"docs_search"} | READERS),
        (("read:**", "docs_*:*"), {"read": "deny"}, ("*",), BOTH),
        (("read:**", "docs_*:*"), {}, ("read", "docs_w*"), {"docs_write"}),
        (("read:**", "bash:**"), {}, ("*",), READERS),
    ],
)
def test_wildcards_decide(scope: tuple[str, ...], rules: dict[str, Any], switches: tuple[str, ...], shown: set[str]):
    agent = replace(builtin()["build"], tools=switches)
    guard = Guard(scope, (*DEFAULTS, *parse_rules(rules)))

    found = {tool.name for tool in offered(agent, guard, None, {}, foreign=foreign())}

    assert found & (BOTH | READERS) == shown


def test_reading_a_resource_is_within_the_scope_of_its_server():
    [read] = [tool for tool in foreign() if tool.name == "read_mcp_resource"]
    targets = read.targets({"server": "docs", "uri": "file:///a.txt"})

    def may(*scope: str, rules: Any = None) -> bool:
        return Guard(scope, (*DEFAULTS, *parse_rules(rules or {}))).check(targets) is None

    assert may("read:**") and may("read:mcp:docs/*") and may("read:**", rules={"read": {"mcp:other/*": "deny"}})
    assert not may("read:src/**") and not may("read:mcp:other/*")
    assert not may("read:**", rules={"read": {"mcp:docs/*": "deny"}})


@pytest.mark.parametrize(
    ("agent", "offer"),
    [("build", (True, "rule")), ("plan", (False, "scope"))],
)
async def test_an_agents_tools_are_told_with_the_servers_that_this_machine_knows(tmp_path, monkeypatch, agent, offer):
    file = tmp_path / "config.toml"
    file.write_text('[workers.mcp.docs]\nurl = "https://docs.example/mcp"\n')
    monkeypatch.setenv("MUSTER_CONFIG", str(file))

    told = await tools(None, "", "", agent, inherited=("read:**",), capabilities=None, model="")

    [docs] = [one for one in told if one.tool == "docs_*"]
    assert (docs.offered, docs.layer) == offer


async def test_a_server_that_is_written_wrong_is_said_in_a_sentence(tmp_path, monkeypatch):
    file = tmp_path / "config.toml"
    file.write_text('[workers.mcp.docs]\nurl = "https://docs.example/mcp"\nheaders = { Authorization = "Bearer x" }\n')
    monkeypatch.setenv("MUSTER_CONFIG", str(file))

    with pytest.raises(BadInput, match=r"setting mcp.*write the value of 'Authorization' as \$\{VARIABLE\}"):
        await tools(None, "", "", "build", inherited=("read:**",), capabilities=None, model="")


def test_the_servers_of_the_documentation_are_servers():
    text = (Path(__file__).parents[3] / "docs/agents/mcp.md").read_text()
    written = tomllib.loads(text.partition("```toml")[2].partition("```")[0])

    servers = McpServers.model_validate(written["workers"]["mcp"])

    assert sorted(servers.enabled) == ["docs", "tracker"]


@pytest.mark.parametrize(
    "uri",
    [
        "file:///public/../secret/b",
        "file:///public/%2e%2e/secret/b",
        "file:///public/%252e%252E/secret/b",
        "file:///public/.%2e\\secret",
        "file:///public/./b",
        "file:///public/..;x/secret",
        "file:///public/%252525252e%252525252e/b",
    ],
)
def test_a_resource_is_named_so_that_no_server_can_take_it_for_another(uri):
    """A grant such as `read:mcp:docs/file:///public/*` is for what stands below that folder."""
    read = next(tool for tool in foreign() if tool.name == "read_mcp_resource")
    with pytest.raises(ToolError):
        read.targets({"server": "docs", "uri": uri})


def test_a_plain_resource_is_judged_by_its_uri():
    read = next(tool for tool in foreign() if tool.name == "read_mcp_resource")
    for uri in ("file:///public/a..b/c%20d", "db://rows/%2Fetc?q=1#x", "note:1"):
        assert [target.pattern for target in read.targets({"server": "docs", "uri": uri})] == [f"mcp:docs/{uri}"]
