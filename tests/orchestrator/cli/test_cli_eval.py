"""`muster eval` on the example, with scripted models over real HTTP, real sandboxes and real gates."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from scripted import scripted_model

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

EXAMPLE = Path(__file__).parents[3] / "examples" / "evaluation"
PRICE = {"input": 1_000_000, "output": 5_000_000}


@pytest.fixture(scope="module")
def fleet_environment() -> Iterator[dict[str, str]]:
    prices = json.dumps({"openai/careful": PRICE, "openai/hasty": PRICE})
    with scripted_model(EXAMPLE / "model.yaml") as environment:
        yield environment | {"MUSTER_PRICES": prices}


@pytest.fixture
def desk(fleet_desk):
    shutil.copytree(EXAMPLE, fleet_desk.home, dirs_exist_ok=True)
    return fleet_desk


def test_the_example_finds_the_worse_model(desk):
    done = desk.muster(
        "eval", "suite.toml", "--yes", "--report", "json=out/r.json", "--report", "markdown=out/r.md", "--report",
        "junit=out/r.xml",
    )  # fmt: skip
    print(done.stdout, done.stderr)

    assert done.exit_code == 0, done.stderr
