"""One look at a fleet as a screen of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from transport.base import PoolStats

from ..overview import AtWork, Going, Overview
from ..session.said import doing
from ..units import dollars, duration, tokens
from ..words import counted, short
from .console import plain
from .tree import GLYPHS

BAR_CHARS = 10
# Title, the pools' and the goals' own blank lines, and the line that counts what is left out.
FRAME_ROWS = 4
MAX_ASKS = 5
MAX_MODELS = 4


def top_picture(seen: Overview, *, max_rows: int) -> RenderableType:
    """What is asked of people comes before what goes on: it waits for whoever looks."""
    asks = [*_dead_rows(seen), *_ask_rows(seen)]
    models = list(seen.models.items())[:MAX_MODELS]
    rows = max(1, max_rows - FRAME_ROWS - len(seen.pools) - len(models) - len(asks))
    return Group(_headline(seen), _pools(seen), *_models(models), *asks, Text(), _going(seen, rows))


def _headline(seen: Overview) -> Text:
    running, ready = sum(pool.running for pool in seen.pools), sum(pool.ready for pool in seen.pools)
    facts = [
        counted(len(seen.workers), "worker"),
        f"{running} running",
        f"{ready} in line",
        f"{dollars(seen.cost_microusd)} so far",
        f"{dollars(seen.microusd_per_hour)} an hour",
    ]
    return Text.assemble(("muster", "bold"), "  ", " · ".join(facts))


def _pools(seen: Overview) -> Table:
    table = Table.grid(padding=(0, 2))
    for pool in seen.pools:
        table.add_row(*_pool_cells(seen, pool))
    return table


def _pool_cells(seen: Overview, pool: PoolStats) -> tuple[Text, ...]:
    cards = seen.cards_of(pool.pool)
    slots = sum(card.slots for card in cards)
    oldest = f"the oldest for {duration(int(pool.oldest_ready_age_s * 1000))}" if pool.ready else ""
    return (
        Text(pool.pool, style="bold"),
        Text(bar(pool.running, slots), style="cyan"),
        Text(
            f"{pool.running} of {counted(slots, 'slot')}" if cards else "nobody serves it", style="" if cards else "red"
        ),
        Text.assemble(
            (f"{pool.ready} in line", "yellow" if pool.ready else "dim"), _trend(seen.grown.get(pool.pool, 0))
        ),
        Text(oldest, style="dim"),
    )


def _trend(grown: int) -> Text:
    """How a line has changed within the last half minute."""
    return Text(f" ▲ {grown}", style="yellow") if grown > 0 else Text(f" ▼ {-grown}" if grown else "", style="green")


def _models(models: Sequence[tuple[str, AtWork]]) -> Iterator[RenderableType]:
    if not models:
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, one in models:
        table.add_row(
            Text(name, style="bold"),
            f"{counted(one.tasks, 'task')} at work",
            tokens(one.spent.usage.total_tokens),
            dollars(one.spent.cost_microusd),
        )
    yield table


def bar(running: int, slots: int) -> str:
    """
    >>> bar(1, 4), bar(0, 0), bar(9, 4)
    ('███·······', '··········', '██████████')
    """
    full = min(BAR_CHARS, -(-BAR_CHARS * running // slots)) if slots else 0
    return "█" * full + "·" * (BAR_CHARS - full)


def _dead_rows(seen: Overview) -> Iterator[Text]:
    if seen.dead:
        yield Text.assemble(("! ", "bold red"), f"dead letters: {seen.dead}", ("  muster dlq list", "dim"))


def _ask_rows(seen: Overview) -> Iterator[Text]:
    asks = [(ask_id, text) for one in seen.going for ask_id, text in one.asks.items()]
    for ask_id, text in asks[:MAX_ASKS]:
        how = f"  muster ask show {short(ask_id)}"
        yield Text.assemble(("? ", "bold yellow"), plain(text.partition("\n")[0]), (how, "dim"), overflow="ellipsis")
    if more := max(0, len(asks) - MAX_ASKS):
        yield Text(f"  … {counted(more, 'ask')} more: muster ask list", style="dim")


def _going(seen: Overview, max_rows: int) -> RenderableType:
    if not seen.going:
        return Text("nothing is under way", style="dim")
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=3, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=2, no_wrap=True, overflow="ellipsis", style="dim")
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    for one in seen.going[:max_rows]:
        table.add_row(*_going_cells(one, seen.now_ms))
    if more := seen.others + len(seen.going[max_rows:]):
        table.add_row(Text(f"… {more} more", style="dim"))
    return table


def _going_cells(one: Going, now_ms: int) -> tuple[Text | str, ...]:
    record, view = one.record, one.view
    glyph, style = GLYPHS[record.state]
    used = view.usage.total_tokens
    started = record.started_at_ms
    return (
        Text(short(record.task_id), style="bold"),
        Text.assemble((glyph, style), f" {record.agent} ", plain(record.intent)),
        Text(_at_work(one)),
        f"{one.tasks_ended}/{one.tasks}",
        tokens(used) if used else "",
        dollars(view.cost_microusd) if view.cost_microusd else "",
        duration(now_ms - started) if started is not None else "in line",
    )


def _at_work(one: Going) -> str:
    """The task that does something now; the latest one, for the others wait for it or beside it."""
    busy = [task for task in one.view.tasks.values() if not task.ended and doing(task)]
    return f"{busy[-1].agent}: {doing(busy[-1])}" if busy else ""
