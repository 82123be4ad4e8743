"""Which model answers for a task, and what it costs, by the operator's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import NoModel
from .llm.base import ChatModel
from .llm.limited import rate_key
from .llm.litellm import LiteLlmModel, list_price
from .llm.prices import Price


@dataclass(frozen=True, slots=True)
class Models:
    """`base_url` and `api_key` belong to the provider of `default`: another provider's model never gets them."""

    default: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])

    def choose(self, *wanted: str) -> str:
        """The first name that is given, else the worker's own; `NoModel` when there is none."""
        name = next((name for name in (*wanted, self.default) if name), "")
        if not name:
            raise NoModel("no model is configured", hint="set MUSTER_MODEL, for example openai/gpt-5, or submit one")
        return name

    def named(self, name: str, *, temperature: float | None = None) -> ChatModel:
        base_url, api_key = self._access(name)
        return LiteLlmModel(name, base_url=base_url, api_key=api_key, temperature=temperature)

    def rate_key(self, name: str) -> str:
        """What the limiter knows this model by. Whose key is in the environment, all of a fleet's workers share."""
        return rate_key(name, *self._access(name))

    def _access(self, name: str) -> tuple[str, str]:
        is_ours = _provider(name) == _provider(self.default)
        return (self.base_url, self.api_key) if is_ours else ("", "")

    async def price(self, name: str) -> Price | None:
        """The operator's, else the public list's. None: nobody knows it; a task with a cost cap must not call it."""
        return self.prices[name] if name in self.prices else await list_price(name)


def _provider(name: str) -> str:
    return name.partition("/")[0]
