"""`muster top`: the whole fleet on one screen, as it changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Annotated

import typer
from rich.live import Live

from ..client import Muster
from ..overview import Overview, Overviews
from ..settings import Settings, load_settings
from ..supervisor.attach import attached
from .console import data, people
from .fleet import open_records, quiet_logs
from .interrupt import interrupts
from .options import JsonLines
from .top_picture import top_picture

# A look costs a read for each goal that is under way.
LOOK_EVERY_S = 1.0
ONE_FRAME_ROWS = 1000  # what is only printed has room for all


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one look, and leave.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Watch the fleet: pools, workers, what waits, every goal that is under way, its cost, and what people are asked.

    Ctrl-C leaves; the fleet goes on. The cost of an hour is that of what runs now, at its pace so far.
    """
    asyncio.run(_once(as_json) if once or not (as_json or people().is_terminal) else _live(as_json))


async def _once(as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        seen = await Overviews(muster).look()
    if as_json:
        _print_json(seen)
    else:
        people().print(top_picture(seen, max_rows=ONE_FRAME_ROWS))


async def _live(as_json: bool) -> None:
    async with _running_fleet(load_settings()) as muster:
        if as_json:
            await _keep_looking(muster, _print_json)
            return
        with Live(console=people(), screen=True, auto_refresh=False) as live:
            await _keep_looking(muster, lambda seen: _draw(live, seen))


def _draw(live: Live, seen: Overview) -> None:
    live.update(top_picture(seen, max_rows=live.console.size.height), refresh=True)


def _print_json(seen: Overview) -> None:
    data(json.dumps(seen.as_json()))


async def _keep_looking(muster: Muster, show: Callable[[Overview], None]) -> None:
    """Until Ctrl-C. A fleet is looked at, not listened to: nothing tells of a queue that grows."""
    looks = Overviews(muster)
    async with interrupts() as heard:
        while not heard.first.is_set():
            show(await looks.look())
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await heard.first.wait()
            except TimeoutError:
                continue


@asynccontextmanager
async def _running_fleet(settings: Settings) -> AsyncGenerator[Muster]:
    """`FleetError` where none runs: there would be nothing to see, and looking is no reason to start one."""
    quiet_logs()
    if settings.redis_url:
        async with Muster.connect(settings) as muster:
            yield muster
        return
    async with attached(settings, start=False), Muster.connect(settings) as muster:
        yield muster
