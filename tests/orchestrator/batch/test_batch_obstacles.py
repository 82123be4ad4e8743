"""What would stop a batch that can be run as it stands is told before it is run."""

from __future__ import annotations

import pytest

from envelope.agents import AgentCard, ModelPrice, WorkerCard
from orchestrator.batch.file import parse_batch
from orchestrator.batch.obstacles import too_old_packages, unknown_agents, unknown_places, without_price

BUILD = AgentCard(name="build", mode="primary", pool="build")
PRICE = ModelPrice(input_microusd=1, output_microusd=2)


def batch(step: str, shards: str = 'glob = "*.py"'):
    return parse_batch(f'name = "b"\n[[repositories]]\npath = "."\n[shards]\n{shards}\n[[steps]]\n{step}')


def worker(model: str = "openai/own", price: ModelPrice | None = None, agents: tuple[AgentCard, ...] = (BUILD,)):
    return WorkerCard(worker="w", pool="build", slots=1, agents=agents, model=model, price=price)


ASKS = 'agent = "build"\nprompt = "Look at {path}."'


@pytest.mark.parametrize(
    ("cards", "told"),
    [
        ([worker()], "the price of openai/own is not known, so that no agent may spend of the budget"),
        ([worker(price=PRICE)], ""),
        ([worker(model="")], ""),
        ([worker(agents=(BUILD.model_copy(update={"model": "openai/other"}),))], ""),
        ([], ""),
    ],
    ids=["unknown", "known", "no model", "another model is asked", "nobody is there"],
)
def test_a_model_without_a_price_is_told(cards, told):
    assert [line.partition(":")[0] for line in without_price(batch(ASKS), cards)] == ([told] if told else [])
    assert list(without_price(batch('ruff = "UP"'), cards)) == []


def test_an_agent_that_no_worker_knows_is_told_where_workers_are():
    misspelt = batch(ASKS.replace("build", "biuld"))

    assert list(unknown_agents(misspelt, [worker()])) == ["no worker knows the agent 'biuld'; did you mean 'build'?"]
    assert list(unknown_agents(misspelt, [])) == []
    assert list(unknown_agents(batch(ASKS), [worker()])) == []


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ('recipe = ["fix {pth}"]', ["{pth} in a step stays as it is: did you mean {path}?"]),
        ('recipe = ["fix {path} {other}"]', []),
        ('recipe = ["echo ${nam}"]', []),
        (
            'agent = "build"\nprompt = "{folders} of {repository}"',
            ["{folders} in a step stays as it is: did you mean {folder}?"],
        ),
    ],
)
def test_what_is_nearly_a_place_is_told(step, told):
    assert list(unknown_places(batch(step))) == told
    assert list(unknown_places(batch(step, shards='command = "list"'))) == []


@pytest.mark.parametrize(
    ("step", "oldest", "told"),
    [
        ('ruff = "UP"', (2, 7), ["demo supports Python 2.7, and {target_version} is py37 there: "]),
        ('ruff = "UP"', (3, 7), []),
        ('ruff = "UP"', None, []),
        ('ruff = "E7,W"', (2, 7), []),
        ('recipe = ["fix {path}"]', (2, 7), []),
    ],
)
def test_a_package_of_older_pythons_than_ruff_knows_is_told(step, oldest, told):
    said = list(too_old_packages(batch(step), {"demo": oldest}))

    assert [line[: len(words)] for line, words in zip(said, told, strict=True)] == told
