"""What every panel of every dashboard shows after a small real load: the table of docs/dashboards.md.

    python -m benchmarks.dashboards

A Redis, an orchestrator process and a worker of each pool run agents (a scripted model), a batch with its merge and its
gate, and a dead letter; Debian's Prometheus scrapes them and the Redis
exporter. Values are of that run, and say that the query finds something; they are no measurement.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from envelope.agents import WorkerCard
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskInput, TaskResult
from scripts.monitoring.panels import DASHBOARDS
from scripts.monitoring.watch import Prometheus, asked, prometheus

from .agent_fleet import AgentFleet, agent_fleet, commit_all, repository
from .agent_scripts import calls, prompt

PAGE = Path(__file__).parent.parent / "docs" / "dashboards.md"
BEGIN, END = "<!-- panels: python -m benchmarks.dashboards -->\n", "<!-- end -->\n"
GONE = "gpu"
POOLS = ("explore", "general", "build")
SHARDS = 6
SHOWN_ROWS = 3  # of a query with many
NOTHING = "–"
MUSTER = Path(sys.executable).parent / "muster"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@asynccontextmanager
async def exporter(redis_url: str) -> AsyncGenerator[str]:
    """Its address, which Prometheus scrapes as soon as it is there."""
    address = f"127.0.0.1:{free_port()}"
    words = (f"-redis.addr={redis_url}", f"-web.listen-address={address}", "-set-client-name=false")
    process = await asyncio.create_subprocess_exec(
        "prometheus-redis-exporter", *words, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield address
    finally:
        process.terminate()
        await process.wait()


async def work(fleet: AgentFleet, folder: Path) -> None:
    """A little of everything that there is a panel for."""
    where = await repository(fleet.transport)
    tools = ("read", "bash", "bash-writes")
    await fleet.run(
        [fleet.request(prompt(tool, 5), workspace=where, recipient=pool) for tool in tools for pool in POOLS]
    )
    await bury(fleet)
    await fleet.transport.fund("default", 100_000_000, by="dashboards")
    await asyncio.to_thread(batch, fleet, folder, await project(folder))


async def bury(fleet: AgentFleet) -> None:
    """A worker of its own pool gives a task up, and is not seen again."""
    await fleet.transport.announce(WorkerCard(worker="dashboards", pool=GONE, slots=1, host="here", pid=0), ttl_s=60)
    letter = fleet.request("", recipient=GONE, agent="recipe", input=TaskInput(params={"commands": ["true"]}))
    await fleet.transport.submit([letter])
    [claim] = await fleet.transport.claim(GONE, "dashboards", slots=1, wait_s=60)
    failed = TaskResult(
        trace_id=letter.trace_id, task_id=letter.task_id, attempt=claim.lease.attempt, status=State.ERROR,
        errors=(ErrorInfo.of(ErrorCode.BAD_INPUT, "nobody can do it"),),
    )  # fmt: skip
    await fleet.transport.finish(claim.lease, failed, dead="nobody can do it")


async def project(folder: Path) -> Path:
    root = folder / "project"
    root.mkdir()
    for number in range(SHARDS):
        (root / f"part_{number}.txt").write_text("old\n")
    await commit_all(root)
    file = folder / "batch.toml"
    file.write_text(
        'name = "panels"\nrepositories = [{ path = "project" }]\nshards = { glob = "*.txt" }\n'
        'steps = [{ recipe = ["sed -i s/old/new/ {path}"] }]\n'
        '[gate]\ncommands = ["true"]\nmin_tests = 0\n'
    )
    return file


def batch(fleet: AgentFleet, folder: Path, file: Path) -> None:
    done = subprocess.run(
        [MUSTER, "batch", "run", file, "--json", "--no-input"],
        cwd=folder, env=fleet.environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


async def table(source: Prometheus) -> str:
    lines: list[str] = []
    for board in DASHBOARDS:
        lines += [f"### {board.title}", "", "| panel | query | value |", "| --- | --- | --- |"]
        for panel in board.panels:
            for legend, query in panel.queries:
                value = told(legend, await source.ask(asked(query)))
                lines.append(f"| {panel.title} | `{query.replace('|', chr(92) + '|')}` | {value} |")
        lines.append("")
    return "\n".join(lines)


def told(legend: str, rows: Sequence[dict[str, Any]]) -> str:
    """The first rows by their legends: `build 3, general 0, and 4 more`."""
    told = [row for row in rows if row["value"][1] != "NaN"]  # a quantile of nothing
    named = sorted((name_of(legend, row["metric"]), number(row["value"][1])) for row in told)
    words = [" ".join(filter(None, pair)) for pair in named[:SHOWN_ROWS]]
    more = [f"and {len(named) - SHOWN_ROWS} more"] if len(named) > SHOWN_ROWS else []
    return ", ".join([*words, *more]) or NOTHING


def name_of(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)


def number(text: str) -> str:
    return f"{float(text):.3g}"


async def main() -> None:
    program = shutil.which("prometheus")
    assert program, "no prometheus: make tools"
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-panels-")))
        fleet = await stack.enter_async_context(agent_fleet(calls))
        await fleet.orchestrator()
        for pool in POOLS:
            worker = await fleet.worker(pool)
            stack.push_async_callback(worker.process.finish)  # it closes its sandboxes
        while len(cards := await fleet.transport.workers()) < len(POOLS) + 1:
            await asyncio.sleep(0.1)
        targets = {card.pool: f"127.0.0.1:{card.metrics_port}" for card in cards}
        targets["redis"] = await stack.enter_async_context(exporter(fleet.environment["MUSTER_REDIS_URL"]))
        source = await stack.enter_async_context(prometheus(program, folder, targets))
        await source.until(f"count(up == 1) == {len(targets)}")
        await work(fleet, folder)
        await source.until("muster_dead_letter_tasks == 1")
        await source.until('muster_batch_shards{state="completed"} == 0 and on () muster_budget_remaining_ratio')
        made = await table(source)
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + BEGIN + made + END + rest.partition(END)[2])
    empty = made.count(f"| {NOTHING} |")
    print(json.dumps({"queries": made.count("\n| ") - 2 * len(DASHBOARDS), "empty": empty}))


if __name__ == "__main__":
    asyncio.run(main())
