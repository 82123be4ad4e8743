"""What an operator says of an MCP server. Repositories cannot: a server is a program, and its address a way out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..agents.base import Agent

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}")


class McpServer(BaseModel):
    """`command` is an argument vector that is run in the sandbox, where the agent can see all that it gets: what stands
    in `environment` is no secret. `agents` are those that may use the server's tools (and who inherits from them)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: tuple[str, ...] = Field(min_length=1)
    cwd: str = ""  # "": the workspace
    environment: dict[str, str] = Field(default_factory=dict[str, str])
    enabled: bool = True
    timeout_s: float = Field(default=30.0, gt=0, le=600)  # what users of other agents know
    agents: tuple[str, ...] = ("build",)


class McpServers(BaseModel):
    """Servers by name: the first part of their tools' names."""

    model_config = ConfigDict(frozen=True)

    servers: dict[str, McpServer] = Field(default_factory=dict[str, McpServer])

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, written: object) -> object:
        return {"servers": written}

    @field_validator("servers")
    @classmethod
    def _named_well(cls, servers: dict[str, McpServer]) -> dict[str, McpServer]:
        if servers and find_spec("mcp") is None:
            raise ValueError("MCP servers need the extra `mcp`: pip install 'muster[mcp]'")
        if wrong := [name for name in servers if not NAME.fullmatch(name)]:
            raise ValueError(f"{wrong[0]!r} is no name of a server: letters, digits and '-', at most 32")
        return servers

    @property
    def enabled(self) -> Mapping[str, McpServer]:
        return {name: server for name, server in self.servers.items() if server.enabled}


def with_grants(agents: Mapping[str, Agent], servers: McpServers) -> dict[str, Agent]:
    """The agents, each with a grant for the servers that name it. Who inherits its caller's scope needs none."""
    return {name: _with_grants(agent, servers) for name, agent in agents.items()}


def _with_grants(agent: Agent, servers: McpServers) -> Agent:
    grants = tuple(f"{name}_*:*" for name, server in servers.enabled.items() if agent.name in server.agents)
    if agent.auth_scope is None or not grants:
        return agent
    return replace(agent, auth_scope=(*agent.auth_scope, *grants))
