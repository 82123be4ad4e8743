"""Debian's exporter shows what our queries ask of Redis, with the labels that they use."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.dashboards import exporter
from transport.embedded import embedded_redis

EXPECTED = (Path(__file__).parent / "exporters.txt").read_text().splitlines()
OF_REPLICATION = ("redis_connected_slave_", "redis_master_")  # which one server alone has not
OF_PROMETHEUS = ("up", "process_")
TIMEOUT_S = 60


def page(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as response:
        return response.read().decode()


async def until_it_answers(address: str) -> str:
    while True:
        try:
            return await asyncio.to_thread(page, address)
        except OSError:
            await asyncio.sleep(0.05)


@pytest.mark.redis
async def test_it_shows_what_our_queries_ask_for(debian_program: Callable[[str], str], tmp_path: Path):
    debian_program("prometheus-redis-exporter")
    async with asyncio.timeout(TIMEOUT_S), embedded_redis(tmp_path) as server, exporter(server.url) as address:
        text = await until_it_answers(address)

    shown = {name: set(re.findall(r'(\w+)="', labels)) for name, labels in re.findall(r"^(\w+)(\{.*\})? ", text, re.M)}
    asked = {name: set(labels) for name, *labels in map(str.split, EXPECTED)}
    of_one_server = [name for name in asked if not name.startswith((*OF_REPLICATION, *OF_PROMETHEUS))]
    assert [name for name in of_one_server if name not in shown or not asked[name] <= shown[name]] == []
