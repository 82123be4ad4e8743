"""Processes that are there to be killed: a template that has imported everything forks one for each order.

python -m lab.mortal      orders come as JSON lines on standard input, what became of them on standard output
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import orchestrator.cli
from orchestrator.api.serve import serve
from orchestrator.cli.main import main as muster
from orchestrator.client import Muster
from orchestrator.jobs import JOBS
from orchestrator.settings import load_settings
from orchestrator.webhooks.run import run_webhooks
from transport.metrics.common import PROCESS
from transport.metrics.shown import Shown

from .server import die_with_parent

SAY = os.dup(1)


def say(**what: Any) -> None:
    os.write(SAY, json.dumps(what).encode() + b"\n")


async def api() -> None:
    """Whoever calls at once is heard as soon as the fleet is."""
    settings = load_settings()
    listening = socket.create_server(("127.0.0.1", 0))
    say(port=listening.getsockname()[1])
    async with Muster.connect(settings) as client:
        await serve(client, listening, Shown(PROCESS), lambda at: None)


async def job(name: str) -> None:
    async with Muster.connect(load_settings()) as client:
        await JOBS[name].work(client.transport)


async def requeue(task_id: str) -> None:
    async with Muster.connect(load_settings()) as client:
        await client.requeue(task_id, by="ann")


async def submit(tasks: list[dict[str, Any]]) -> None:
    async with Muster.connect(load_settings()) as client:
        handles = await client.submit_many([{**task, "auth_scope": ("read:**",)} for task in tasks])  # pyright: ignore[reportArgumentType]
        await client.gather(handles, timeout_s=0)


async def webhooks() -> None:
    settings = load_settings()
    async with Muster.connect(settings) as client:
        await run_webhooks(client.transport, settings.webhooks, timeout_s=settings.webhook_timeout_s)


DEEDS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (api, job, requeue, submit, webhooks)}


def _live(deed: str, env: dict[str, str], log: str, arguments: dict[str, Any]) -> None:
    """In the child; never returns into the template's loop."""
    die_with_parent()
    os.environ.update(env)
    heard = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(heard, 1)
    os.dup2(heard, 2)
    os.chdir(Path(log).parent)
    code = 1
    try:
        if deed == "muster":
            muster(arguments["words"])
        asyncio.run(DEEDS[deed](**arguments))
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    die_with_parent()
    for module in iter_modules(orchestrator.cli.__path__):
        import_module(f"orchestrator.cli.{module.name}")
    gc.freeze()  # what is imported is never garbage: children need not look at it
    say(ready=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _live(**json.loads(line))
        say(pid=pid)
        say(ended=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
