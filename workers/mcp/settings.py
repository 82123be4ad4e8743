"""What an operator says of an MCP server. Repositories cannot: a server is a program, and its address a way out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..agents.base import Agent
from ..sandboxes.credentials import NO_TENANT
from ..web.errors import WebError
from ..web.urls import parse_url
from .headers import require_referenced

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,31}")
LOCAL, REMOTE = ("command", "cwd", "environment"), ("url", "headers", "private_addresses", "tenants")


class McpServer(BaseModel):
    """A local server has a `command`, an argument vector that is run in the sandbox, where the agent can see all that
    it gets: what stands in `environment` is no secret. A remote one has a `url`; its `headers` name secrets as
    `${VARIABLE}` of the worker's environment. `agents` are those that may use the server's tools (and who inherits from
    them), `tenants` those whose tasks may reach a remote one, with its headers (`*`: everybody's); left out, only those
    of a fleet without tenants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: tuple[str, ...] = ()
    cwd: str = ""  # "": the workspace
    environment: dict[str, str] = Field(default_factory=dict[str, str])
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    private_addresses: frozenset[str] = frozenset()  # of the operator's own network, for this server: 10.0.0.5:8080
    tenants: tuple[str, ...] = (NO_TENANT,)
    enabled: bool = True
    timeout_s: float = Field(default=30.0, gt=0, le=600)  # what users of other agents know
    agents: tuple[str, ...] = ("build",)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("a server has a `command` (it runs in the sandbox) or a `url` (it is reached over HTTP)")
        unfit = [name for name in (LOCAL if self.url else REMOTE) if name in self.model_fields_set]
        if unfit:
            raise ValueError(f"`{unfit[0]}` means nothing for a server with a `{'url' if self.url else 'command'}`")
        return self

    @field_validator("url")
    @classmethod
    def _complete(cls, url: str) -> str:
        try:
            return str(parse_url(url)) if url else url
        except WebError as e:
            raise ValueError(f"{e}; what a server wants to know of you belongs into `headers`") from e

    @field_validator("headers")
    @classmethod
    def _without_secrets(cls, headers: dict[str, str]) -> dict[str, str]:
        require_referenced(headers)
        return headers


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

    def enabled_for(self, tenant: str) -> Mapping[str, McpServer]:
        """What a local one can reach is its task's own sandbox."""
        return {
            name: server
            for name, server in self.enabled.items()
            if not server.url or {tenant, "*"} & set(server.tenants)
        }


def with_grants(agents: Mapping[str, Agent], servers: McpServers) -> dict[str, Agent]:
    """The agents, each with a grant for the servers that name it. Who inherits its caller's scope needs none."""
    return {name: _with_grants(agent, servers) for name, agent in agents.items()}


def _with_grants(agent: Agent, servers: McpServers) -> Agent:
    grants = tuple(f"{name}_*:*" for name, server in servers.enabled.items() if agent.name in server.agents)
    if agent.auth_scope is None or not grants:
        return agent
    return replace(agent, auth_scope=(*agent.auth_scope, *grants))
