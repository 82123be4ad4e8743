"""Which engine answers for a model, what it costs to have it, and what the list in litellm's wheel says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from envelope.budget import Usage
from workers.agent.compaction import should_compact, usable_tokens
from workers.llm.direct import DirectModel
from workers.llm.limits import ModelLimits
from workers.llm.listed import listed
from workers.llm.litellm import LiteLlmModel, read_list
from workers.llm.options import service_rank
from workers.llm.prices import Price, Rates, cost_microusd
from workers.models import Models

SONNET = Price(3_000_000, 15_000_000, 300_000, 3_750_000)


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("openai/gpt-4o", DirectModel),
        ("openai/what-my-own-server-calls-it", DirectModel),
        ("anthropic/claude-sonnet-4-5", DirectModel),
        ("ollama/llama3", DirectModel),
        ("gemini/gemini-2.5-pro", LiteLlmModel),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", LiteLlmModel),
        ("openai/gpt-5-codex", DirectModel),  # behind another API than chat completions, which we speak, too
    ],
)
def test_a_model_is_asked_directly_where_we_speak_its_format(name, engine):
    assert type(Models().named(name)) is engine


def test_an_operator_can_force_an_engine():
    assert type(Models(engine="litellm").named("openai/gpt-4o")) is LiteLlmModel
    assert type(Models(engine="direct").named("openai/gpt-5-codex")) is DirectModel


def test_a_model_behind_an_address_of_ones_own_is_asked_there_whatever_its_name():
    assert type(Models("openai/gpt-5-codex", "http://here/v1").named("openai/gpt-5-codex")) is DirectModel


def test_an_agents_file_may_lower_the_limit_of_a_reply_and_not_raise_it():
    def limit(name: str, **options) -> int | None:
        return Models().named(name, options=options).output_limit()

    assert limit("anthropic/claude-opus-5", maxTokens=4_000) == 4_000
    assert limit("anthropic/claude-opus-5", max_tokens=900_000) == 128_000
    assert limit("openai/gpt-5.5", maxOutputTokens=4_000) == 4_000
    assert (
        Models().named("openai/gpt-5.5", output_limit=lambda: 500, options={"max_tokens": 4_000}).output_limit() == 500
    )


@pytest.mark.parametrize(
    ("name", "asked", "limit"),
    [
        ("anthropic/claude-sonnet-4-5", None, 64_000),  # thoughts count in it
        ("anthropic/claude-opus-5-5", None, 128_000),
        ("openai/gpt-4o", None, 16_384),
        ("openai/gpt-5.5", None, None),  # as OpenAI's own tool has it
        ("openai/gpt-5.5", 500, 500),
        ("openai/gpt-4o", 500, 500),
        ("openai/unheard-of", None, None),
    ],
)
def test_the_limit_of_a_reply_is_the_models_own_where_thoughts_count_in_it(name, asked, limit):
    assert Models().named(name, output_limit=lambda: asked).output_limit() == limit


async def test_a_history_has_half_of_a_small_window():
    for name in read_list():
        limits = await Models().limits(name)
        assert not limits.context or usable_tokens(limits) >= limits.context // 2 - 1, name
    told = Models(known_limits={"openai/own": ModelLimits(32_000)})
    assert not should_compact(Usage(input_tokens=9_000), await told.limits("openai/own"))


async def test_prices_come_from_the_list_in_the_wheel():
    known = await Models().price("openai/gpt-4o")

    assert isinstance(known, Price) and 0 < known.input_microusd < known.output_microusd
    assert await Models().price("openai/scripted") is None


async def test_the_operators_price_goes_before_the_list():
    models = Models(prices={"openai/gpt-4o": Price(9, 9)})

    price = await models.price("openai/gpt-4o")
    assert price and (price.input_microusd, price.output_microusd) == (9, 9)


@pytest.mark.parametrize(
    ("name", "tier", "times"),
    [
        ("openai/gpt-4o", "priority", 1.7),  # as the list has it
        ("openai/gpt-5.5", "flex", 0.5),
        ("openai/gpt-5.5", "default", 1.0),
        ("openai/gpt-5.5", "auto", 2.5),  # what the key's project has, which may be the best one
        ("anthropic/claude-sonnet-4-5", "auto", 1.0),
        ("openai/gpt-5.5", "scale", 2.5),  # nobody says what: at most so much
        ("anthropic/claude-sonnet-4-5", "standard_only", 1.0),
        ("groq/own", "performance", 2.5),  # the operator's price is the usual one
        ("groq/own", "flex", 1.0),
    ],
)
async def test_a_better_rank_of_service_is_charged_as_one(name, tier, times):
    models = Models(prices={"groq/own": Price(4_000_000, 8_000_000)})
    usual = await models.price(name)

    ranked = await models.price(name, {"serviceTier": tier})

    assert usual and ranked
    found = (ranked.input_microusd / usual.input_microusd, ranked.output_microusd / usual.output_microusd)
    assert found == (times, times)


@pytest.mark.parametrize(
    ("asked", "served", "times"),
    [
        ("priority", "", 2.5),
        ("priority", "priority", 2.5),
        ("priority", "default", 1.0),  # there was no room
        ("auto", "default", 1.0),
        ("auto", "flex", 0.5),
        ("", "priority", 2.5),
        ("", "scale", 2.5),
        ("flex", "default", 1.0),
    ],
)
async def test_what_the_provider_has_served_is_what_is_charged(asked, served, times):
    price = await Models().price("openai/gpt-5.5", {"service_tier": asked} if asked else {})
    usual = await Models().price("openai/gpt-5.5")
    usage = Usage(input_tokens=10_000, output_tokens=10_000)

    assert price and usual
    assert cost_microusd(price, usage, served) == times * cost_microusd(usual, usage)


@pytest.mark.parametrize(
    ("name", "base_url", "options", "sent"),
    [
        ("openai/gpt-5.5", "", {}, "default"),
        ("openai/gpt-5.5", "", {"serviceTier": "priority"}, "priority"),
        ("openai/gpt-5.5", "http://127.0.0.1:4000/v1", {}, ""),
        ("groq/x", "", {}, ""),
    ],
)
def test_openai_is_told_which_rank_of_service_is_paid(name, base_url, options, sent):
    assert service_rank(Models(name, base_url).named(name, options=options).options) == sent


async def test_what_costs_nothing_costs_nothing_in_any_rank():
    assert await Models().price("ollama/llama3", {"service_tier": "priority"}) == Price(0, 0)


async def test_a_long_call_of_a_better_rank_is_never_cheaper_than_a_usual_one():
    for name, row in read_list().items():
        known = listed(name) if row.get("mode") == "chat" else None
        for rank in known.ranks if known and known.price else ():
            for tokens in (1_000, 250_000, 300_000, 900_000) if rank == "priority" else ():
                ranked, usual = known.ranks[rank].rates(tokens), known.price.rates(tokens)
                assert ranked.output_microusd >= usual.output_microusd, name


def test_the_list_knows_windows_cache_prices_and_tiers():
    sonnet, gemini = listed("anthropic/claude-sonnet-4-5"), listed("gemini/gemini-2.5-pro")

    assert (sonnet.context, sonnet.output, sonnet.price) == (200_000, 64_000, SONNET)
    assert [above for above, _ in gemini.price.tiers] == [200_000]
    assert listed("nobody/nothing") is None


@pytest.mark.parametrize(
    ("price", "usage", "microusd"),
    [
        (SONNET, Usage(input_tokens=1_000_000), 3_000_000),
        (SONNET, Usage(input_tokens=1_000_000, cached_tokens=1_000_000), 300_000),
        (SONNET, Usage(input_tokens=1_000_000, cached_tokens=400_000, cache_write_tokens=600_000), 2_370_000),
        (SONNET, Usage(output_tokens=1_000_000, reasoning_tokens=900_000), 15_000_000),  # thoughts are output
        (SONNET, Usage(input_tokens=10, cached_tokens=50, cache_write_tokens=50), 3),  # no more than was sent
        (Price(5, 7, tiers=((10, Rates(50, 70)),)), Usage(input_tokens=10, output_tokens=10), 1),
        (Price(5_000_000, 0, tiers=((10, Rates(50_000_000, 0)),)), Usage(input_tokens=11), 550),
    ],
)
def test_a_call_costs_what_each_sort_of_token_costs(price, usage, microusd):
    assert cost_microusd(price, usage) == microusd


# One process for all of it: an import of litellm takes seconds.
WATCH = """
import asyncio, importlib, sys
seen = []
sys.addaudithook(lambda name, args: seen.append(name) if name in ("socket.connect", "socket.getaddrinfo") else None)
parts = "agent.loop", "agents.registry", "cli.worker", "delivery.runner", "service"
for module in (f"workers.{part}" for part in parts):
    importlib.import_module(module)
from workers.llm.base import ChatMessage
from workers.llm.script import load_script
from workers.llm.scripted_server import ScriptedServer
from workers.models import Models

async def main():
    price = await Models().price("openai/gpt-4o")
    offline = list(seen)
    async with ScriptedServer(load_script("rules: [{reply: {text: hi}}]")) as server:
        model = Models("openai/x", server.base_url, "sk-nobody-0123456789").named("openai/x")
        events = [event async for event in model.stream([ChatMessage(role="user", content="hello")], [])]
    print(price is not None, offline, events[-1].text, "litellm" in sys.modules)
    seen.clear()
    unknown = Models(engine="litellm").named("no-such-provider/no-such-model")
    events = [event async for event in unknown.stream([ChatMessage(role="user", content="hello")], [])]
    print(events[-1].failure, "litellm" in sys.modules, seen)

asyncio.run(main())
"""


def test_a_worker_that_asks_directly_never_imports_litellm_whose_import_asks_nobody():
    done = subprocess.run([sys.executable, "-X", "dev", "-c", WATCH], capture_output=True, text=True, check=True)

    assert done.stdout == "True [] hi False\nunknown_model True []\n"
    assert "Unclosed" not in done.stderr
