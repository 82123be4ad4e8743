"""Which model answers for a task, and what it costs, by the operator's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .errors import NoModel
from .llm.base import ChatModel
from .llm.limits import ModelLimits
from .llm.litellm import LiteLlmModel, list_limits, list_price
from .llm.prices import Price


@dataclass(frozen=True, slots=True)
class Models:
    """`base_url` and `api_key` belong to the provider of `default`: another provider's model never gets them."""

    default: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    known_limits: Mapping[str, ModelLimits] = field(default_factory=dict[str, ModelLimits])

    def choose(self, *wanted: str) -> str:
        """The first name that is given, else the worker's own; `NoModel` when there is none."""
        name = next((name for name in (*wanted, self.default) if name), "")
        if not name:
            raise NoModel("no model is configured", hint="set MUSTER_MODEL, for example openai/gpt-5, or submit one")
        return name

    def named(
        self, name: str, *, temperature: float | None = None, output_limit: Callable[[], int | None] = lambda: None
    ) -> ChatModel:
        is_ours = _provider(name) == _provider(self.default)
        base_url, api_key = (self.base_url, self.api_key) if is_ours else ("", "")
        return LiteLlmModel(
            name, base_url=base_url, api_key=api_key, temperature=temperature, output_limit=output_limit
        )

    async def price(self, name: str) -> Price | None:
        """The operator's, else the public list's. None: nobody knows it; a task with a cost cap must not call it."""
        return self.prices[name] if name in self.prices else await list_price(name)

    async def limits(self, name: str) -> ModelLimits:
        """The operator's, else the public list's; zeros when nobody knows them."""
        return self.known_limits[name] if name in self.known_limits else await list_limits(name)


def _provider(name: str) -> str:
    return name.partition("/")[0]
