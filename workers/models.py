"""Which model answers for a task, through which engine, and what it costs, by the operator's settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .agent.compaction import MAX_OUTPUT_TOKENS
from .errors import NoModel
from .llm.base import Kind
from .llm.direct import DirectModel
from .llm.limited import rate_key
from .llm.limits import UNKNOWN, ModelLimits
from .llm.listed import Listed, listed, resold
from .llm.litellm import LiteLlmModel
from .llm.openai_format import thinks
from .llm.options import max_tokens, service_rank
from .llm.prices import DEFAULT_RANK, FREE, USUAL_RANKS, Price, dearest
from .llm.providers import PROVIDERS, is_private

Engine = Literal["auto", "direct", "litellm"]


@dataclass(frozen=True, slots=True)
class Models:
    """`base_url` and `api_key` belong to the provider of `default`: another provider's model never gets them.

    `engine`: `auto` asks a provider directly where we speak its format, which costs a tenth of litellm's time, and
    leaves all others to litellm.
    """

    default: str = ""
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    engine: Engine = "auto"
    known_limits: Mapping[str, ModelLimits] = field(default_factory=dict[str, ModelLimits])
    known_sight: Mapping[str, frozenset[Kind]] = field(default_factory=dict[str, frozenset[Kind]])
    effort: str = ""
    reasoning_key: str = ""  # the default's: under what name its server wants thoughts again

    def choose(self, *wanted: str) -> str:
        """The first name that is given, else the worker's own; `NoModel` when there is none."""
        name = next((name for name in (*wanted, self.default) if name), "")
        if not name:
            raise NoModel(
                "no model is configured",
                hint="set MUSTER_MODEL, such as openai/gpt-5, and its key for the workers, or say --model",
            )
        return name

    def named(
        self,
        name: str,
        *,
        temperature: float | None = None,
        output_limit: Callable[[], int | None] = lambda: None,
        effort: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> DirectModel | LiteLlmModel:
        """`output_limit`: tokens of the next reply at most; None: as its vendor's own tools have it. `effort`: how hard
        it is to think, `low` to `max`; by default the worker's own. `options`: see `llm.options`."""
        base_url, api_key = self._access(name)
        known = listed(name)
        make = DirectModel if self._is_direct(name, known, base_url) else LiteLlmModel
        own_limit = _least(_output_limit(name, known, self.known_limits.get(name)), max_tokens(options or {}))
        model = make(
            *(name, base_url, api_key, temperature),
            output_limit=lambda: _least(output_limit(), own_limit),
            effort=effort or self.effort,
            context_tokens=self._context_tokens(name, known),
            options=self._options(name, base_url, options or {}),
        )
        is_ours = _provider(name) == _provider(self.default)
        return replace(model, reasoning_key=self.reasoning_key) if self.reasoning_key and is_ours else model

    def _options(self, name: str, base_url: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Where nothing is said, OpenAI serves with the rank of the key's project, which may cost more than a budget
        knows of (platform.openai.com/docs, "Priority processing", 2026-11)."""
        is_openai = _provider(name) == "openai" and not base_url
        return options if service_rank(options) or not is_openai else {**options, "service_tier": DEFAULT_RANK}

    def _context_tokens(self, name: str, known: Listed | None) -> int:
        return self.known_limits[name].context if name in self.known_limits else (known.context if known else 0) or 0

    def rate_key(self, name: str) -> str:
        """What the limiter knows this model by. Whose key is in the environment, all of a fleet's workers share."""
        return rate_key(name, *self._access(name))

    def _access(self, name: str) -> tuple[str, str]:
        is_ours = _provider(name) == _provider(self.default)
        return (self.base_url, self.api_key) if is_ours else ("", "")

    async def price(self, name: str, options: Mapping[str, Any] | None = None) -> Price | None:
        """The operator's, else the public list's; nothing is paid for a model that runs here. None: nobody knows it; a
        task with a cost cap must not call it. `options` of its calls: a rank of service may cost more."""
        usual, rank = await self._usual_price(name), service_rank(options or {})
        if usual is None or usual == FREE:
            return usual
        known = None if name in self.prices else await asyncio.to_thread(listed, name)
        ranks = {DEFAULT_RANK: usual, **(known.ranks if known else {})}
        if rank == "auto" and _provider(name) == "openai":
            rank = "priority"  # what the project's settings say, which nobody tells us before
        asked = ranks.get(rank) or (usual if rank in USUAL_RANKS else dearest(usual))
        return replace(asked, ranks=(*(ranks | {rank or DEFAULT_RANK: asked}).items(),))

    async def _usual_price(self, name: str) -> Price | None:
        if name in self.prices:
            return self.prices[name]
        provider = PROVIDERS.get(_provider(name))
        if provider and provider.is_self_hosted:
            return FREE
        known = await asyncio.to_thread(listed, name)
        # At an address of one's own a model of the list is the provider's all the same: a gateway leads there.
        if known and known.price:
            return known.price
        if not is_private(name, self._access(name)[0], os.environ):
            return None
        meant = resold(name)
        return meant.price if meant and meant.price else FREE

    async def limits(self, name: str) -> ModelLimits:
        """The operator's, else the public list's; zeros when nobody knows them. A reply has half of a small window."""
        if name in self.known_limits:
            return self.known_limits[name].with_room()
        known = await asyncio.to_thread(listed, name)
        return ModelLimits(known.context or 0, known.output or 0).with_room() if known else UNKNOWN

    async def sees(self, name: str) -> frozenset[Kind]:
        """What kinds of files the model can be shown: as the operator says, else the public list; nothing when nobody
        knows, for a provider refuses a whole request for one image too many."""
        if name in self.known_sight:
            return self.known_sight[name]
        known = await asyncio.to_thread(listed, name)
        return known.sees if known else frozenset()

    def _is_direct(self, name: str, known: Listed | None, base_url: str) -> bool:
        if self.engine != "auto":
            return self.engine == "direct"
        # What only completes a text is behind another API, which litellm translates.
        is_elsewhere = known is not None and known.mode == "completion" and not base_url
        return _provider(name) in PROVIDERS and not is_elsewhere


def _output_limit(name: str, known: Listed | None, told: ModelLimits | None) -> int | None:
    """Thoughts count in the limit: of a model that thinks it is the model's own. OpenAI's need none at all."""
    own = (told.output if told else 0) or (known.output if known else 0) or 0
    if thinks(name.removeprefix("openai/")):
        return None
    is_thinking = known is not None and known.thinks
    return (own if is_thinking else min(own, MAX_OUTPUT_TOKENS)) or None


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _provider(name: str) -> str:
    return name.partition("/")[0]
