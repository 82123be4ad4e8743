"""pydantic-ai over OpenAI's library, streaming as ours does."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from ..agent_scripts import TEXT, prompt

LINES = TEXT.splitlines()


def converse(url: str, turns: int) -> None:
    asyncio.run(_converse(url, turns))


async def _converse(url: str, turns: int) -> None:
    agent = Agent(OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="nobody")))

    @agent.tool_plain
    def read(ref: str, offset: int, limit: int) -> str:
        """Read some lines."""
        return "\n".join(f"{n}: {LINES[n - 1]}" for n in range(offset, offset + limit))

    async with agent.iter(prompt("read", turns), usage_limits=UsageLimits(request_limit=None)) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        pass
    assert run.usage.requests == turns, run.usage
