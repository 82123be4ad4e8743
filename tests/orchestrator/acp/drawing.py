"""What an editor was told of a conversation, drawn as a picture: every word in it is the agent's or the person's."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
from rich.text import Text
from rich.theme import Theme

THEMES = {"dark": MONOKAI, "light": DEFAULT_TERMINAL_THEME}
# Markdown on either ground.
PLAIN = Theme({"markdown.code": "bold", "markdown.h1": "bold", "markdown.h2": "bold", "markdown.block_quote": "dim"})
MARKS = {"completed": ("✔", "green"), "failed": ("✗", "red"), "pending": ("?", "yellow"), "in_progress": ("▸", "cyan")}
WIDTH = 96


def drawn(story: Sequence[Any], *, title: str, theme: str, root: str) -> str:
    """As SVG; what differs from run to run, and where the repository is, is taken out."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor", theme=PLAIN
    )
    console.print(Group(*_rows(story)))
    svg = console.export_svg(title=title, unique_id="acp", theme=THEMES[theme])
    svg = re.sub(r"\s*(@font-face \{.*?\}|<!--.*?-->)", "", svg, flags=re.DOTALL)
    return svg.replace(root, "/home/me/thing")


def still(story: Sequence[Any]) -> list[Any]:
    """Costs and times are another run's."""
    return [_still(one) for one in _merged(story)]


def _still(one: Any) -> Any:
    if not isinstance(one, tuple):
        return one
    kind, text = one
    return kind, re.sub(r"\$\d+\.\d+ · \d+(\.\d+)? s", "$0.0026 · 4.1 s", text)


CHUNKS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "you"}


def _merged(story: Sequence[Any]) -> list[Any]:
    """Words that came in pieces as one, and each tool call once, where it began and as it is in the end."""
    rows: list[Any] = []
    calls: dict[str, dict[str, Any]] = {}
    for one in story:
        if isinstance(one, str):
            rows.append(("you", one))
        elif kind := CHUNKS.get(getattr(one, "session_update", "")):
            if rows and isinstance(rows[-1], tuple) and rows[-1][0] == kind:
                rows[-1] = (kind, rows[-1][1] + one.content.text)
            else:
                rows.append((kind, one.content.text))
        elif getattr(one, "session_update", "") in ("tool_call", "tool_call_update"):
            if one.tool_call_id not in calls:
                calls[one.tool_call_id] = {}
                rows.append(calls[one.tool_call_id])
            told = {name: getattr(one, name) for name in ("title", "kind", "status", "content")}
            calls[one.tool_call_id].update({name: value for name, value in told.items() if value is not None})
        else:
            rows.append(one)
    asked = {one.ask_id for one in rows if hasattr(one, "ask_id")}
    shown_with_its_ask = [calls[ask_id] for ask_id in asked if ask_id in calls]
    return [row for row in rows if not any(row is call for call in shown_with_its_ask)]


def _rows(story: Sequence[Any]) -> Iterator[RenderableType]:
    for one in story:
        match one:
            case ("you", text):
                yield Panel(Text(text), title="you", title_align="left", border_style="blue")
            case ("thought", text):
                yield Padding(Text(text.strip(), style="italic dim"), (0, 2))
            case ("agent", text):
                yield Padding(Markdown(text.strip()), (1, 1))
            case {"title": _}:
                yield from _call(one)
            case _ if hasattr(one, "ask_id"):
                yield _ask(one)
            case _:
                yield from _other(one)


def _call(call: dict[str, Any]) -> Iterator[RenderableType]:
    mark, style = MARKS[call.get("status", "pending")]
    yield Text.assemble((f" {mark} ", style), (call["title"], "bold"), (f"  {call.get('kind', '')}", "dim"))
    yield from (Padding(row, (0, 4)) for row in _content(call.get("content") or []))


def _content(content: Sequence[Any]) -> Iterator[RenderableType]:
    for one in content:
        if one.type != "diff":
            yield Markdown(one.content.text)
            continue
        yield Text(one.path, style="dim")
        yield from (Text(f"- {line}", style="red") for line in (one.old_text or "").splitlines())
        yield from (Text(f"+ {line}", style="green") for line in one.new_text.splitlines())


def _ask(asked: Any) -> RenderableType:
    """With the option that the person took, if they have taken one."""
    chosen = asked.answer.result() if asked.answer.done() else None
    buttons = Text("  ").join(
        Text(f" {name} ", style="reverse" if name == chosen else "bold") for name in asked.options
    )
    rows = (Text(asked.title, style="bold"), *_content(asked.content), Text(), buttons)
    return Panel(Group(*rows), title=f"? {asked.kind}", title_align="left", border_style="yellow")


def _other(update: Any) -> Iterator[RenderableType]:
    match update.session_update:
        case "plan":
            for entry in update.entries:
                mark, style = MARKS[entry.status] if entry.status != "pending" else ("·", "dim")
                yield Text.assemble((f"   {mark} ", style), entry.content)
        case "current_mode_update":
            yield Text(f" → mode: {update.current_mode_id}", style="magenta")
        case _:
            return
