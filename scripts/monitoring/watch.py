"""A real Prometheus with our rules, on loopback, for tests and for docs/dashboards.md."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.parse
import urllib.request
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).parent.parent.parent / "helm" / "muster" / "rules"
INTERVAL = "1s"
WINDOW = "5m"  # of rates, where a dashboard takes as long as suits its picture
PAUSE_S = 0.2  # between two looks at an API that cannot tell by itself


@dataclass(frozen=True)
class Prometheus:
    url: str

    async def ask(self, query: str) -> list[dict[str, Any]]:
        """What the query gives now: rows of `metric` and `value`."""
        found = await self._get("query", query=query)
        assert found["resultType"] in ("vector", "scalar"), found
        return found["result"] if found["resultType"] == "vector" else [{"metric": {}, "value": found["result"]}]

    async def alerts(self) -> dict[str, list[dict[str, Any]]]:
        """Those that are pending or firing, by name."""
        found: dict[str, list[dict[str, Any]]] = {}
        for alert in (await self._get("alerts"))["alerts"]:
            found.setdefault(alert["labels"]["alertname"], []).append(alert)
        return found

    async def until(self, query: str) -> list[dict[str, Any]]:
        """What the query gives, as soon as it gives anything."""
        while not (found := await self.ask(query)):
            await asyncio.sleep(PAUSE_S)
        return found

    async def until_alert(self, name: str, state: str) -> dict[str, Any]:
        while True:
            for alert in (await self.alerts()).get(name, []):
                if alert["state"] == state:
                    return alert
            await asyncio.sleep(PAUSE_S)

    async def _get(self, what: str, **parameters: str) -> Any:
        address = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        return await asyncio.to_thread(_json, address)


def _json(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=30) as response:
        return json.load(response)["data"]


def asked(query: str) -> str:
    """As Grafana asks it, with everything chosen."""
    return re.sub(r'"\$\w+"', '".*"', query).replace("$__rate_interval", WINDOW)


def hurried(rules: str) -> str:
    """The rules with `for` of two seconds in place of minutes: what they look at, and from when on, is as it ships."""
    return re.sub(r"^(\s+for:) \w+$", r"\1 2s", rules, flags=re.MULTILINE)


@asynccontextmanager
async def prometheus(
    program: str, folder: Path, targets: Mapping[str, str], *, change: Callable[[str], str] = hurried
) -> AsyncGenerator[Prometheus]:
    """Scrapes `targets` (name → host:port) each second, and reads our rules as `change` gives them as often."""
    for file in RULES.glob("*.yaml"):
        (folder / file.name).write_text(change(file.read_text()))
    configuration = {
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [str(folder / file.name) for file in RULES.glob("*.yaml")],
        "scrape_configs": [
            {
                "job_name": "muster",
                "static_configs": [
                    {"targets": [address], "labels": {"instance": name, "fleet": "main"}}
                    for name, address in targets.items()
                ],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        address = await _listening(process)
        reading = asyncio.create_task(_drain(process))
        yield Prometheus(f"http://{address}")
        reading.cancel()
    finally:
        process.terminate()
        await process.wait()


async def _listening(process: asyncio.subprocess.Process) -> str:
    """Its log tells the port that it was given, and when it is ready."""
    assert process.stderr
    address, said = "", ""
    async for line in process.stderr:
        said += line.decode()
        if found := re.search(r'msg="Listening on" address=(\S+)', said):
            address = found[1]
        if address and "Server is ready" in said:
            return address
    raise AssertionError(f"Prometheus has ended: {said}")


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stderr
    while await process.stderr.readline():
        pass
