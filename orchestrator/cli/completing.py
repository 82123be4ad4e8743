"""Names that a shell completes: agents, tasks, asks. Nothing is started for it, and no error is ever shown: there is
only nothing to complete.

Imported with every command that names a task, so what it needs itself is imported on use.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..client import Muster

Offered = list[tuple[str, str]]  # the word, and what is said of it

# A shell stands still meanwhile.
PATIENCE_S = 2.0
LATEST = 50
_NO_NAME = re.compile(r"[^\w./@-]")
_NO_WORDS = re.compile(r"[^\w .,;/@-]")


def agent_names(incomplete: str) -> Offered:
    """Of this machine and of the repository here."""
    return _quietly(_agents(), incomplete)


def task_ids(incomplete: str) -> Offered:
    """The latest goals, batches and shards of the fleet that runs, by the ends of their ids."""
    return _quietly(_of_fleet(_tasks), incomplete)


def ask_ids(incomplete: str) -> Offered:
    """What people are asked by the fleet that runs."""
    return _quietly(_of_fleet(_asks), incomplete)


def _quietly(finding: Awaitable[Offered], incomplete: str) -> Offered:
    async def found() -> Offered:
        async with asyncio.timeout(PATIENCE_S):
            return [safe(word, about) for word, about in await finding if word.startswith(incomplete)]

    with contextlib.suppress(Exception):  # of whatever kind: a person at a prompt has asked for a word, not for that
        return asyncio.run(found())
    return []


def safe(word: str, about: str) -> tuple[str, str]:
    """Some shells evaluate what they are given, and a file of a repository may be called anything.

    >>> safe("a$(rm)", "It's `x`; see docs/a.md")
    ('arm', 'Its x; see docs/a.md')
    """
    return _NO_NAME.sub("", word), _NO_WORDS.sub("", " ".join(about.split()))


async def _agents() -> Offered:
    from pathlib import Path

    from .agents_here import catalogue_here, is_for_people

    return [(agent.name, agent.description) for agent in (await catalogue_here(Path())).agents if is_for_people(agent)]


async def _of_fleet(read: Callable[[Muster], Awaitable[Offered]]) -> Offered:
    from transport.embedded import socket_path

    from ..client import Muster
    from ..settings import load_settings
    from .fleet import quiet_logs

    quiet_logs()
    settings = load_settings()
    if not settings.redis_url and not socket_path(settings.state_dir).exists():
        return []
    async with Muster.connect(settings) as muster:
        return await read(muster)


async def _tasks(muster: Muster) -> Offered:
    from ..words import short

    return [(short(task.task_id), f"{task.state}: {task.intent}") for task in await muster.tasks(limit=LATEST)]


async def _asks(muster: Muster) -> Offered:
    from ..words import short

    return [(short(one.ask.ask_id), one.ask.question) for one in await muster.asks()]
