"""What an editor was told of a conversation, drawn as a picture: every word in it is the agent's or the person's."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
from rich.text import Text
from rich.theme import Theme

THEMES = {"dark": (MONOKAI, "monokai"), "light": (DEFAULT_TERMINAL_THEME, "friendly")}
TASK, A_TASK = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}", "01a1f0c2-5d3e-7a10-9b44-2f6c1d8e0a57"
HOME = "/home/me/thing"  # where the repository is in the pictures
# Markdown on either ground.
PLAIN = Theme({"markdown.code": "bold", "markdown.h1": "bold", "markdown.h2": "bold", "markdown.block_quote": "dim"})
MARKS = {"completed": ("✔", "green"), "failed": ("✗", "red"), "pending": ("?", "yellow"), "in_progress": ("▸", "cyan")}
WIDTH = 96


def drawn(story: Sequence[Any], *, title: str, theme: str, root: str) -> str:
    """As SVG, with the repository `root` in a place that all runs have."""
    ground, code = THEMES[theme]
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor", theme=PLAIN
    )
    console.print(Group(*Drawing(root, code).rows(still(story))))
    svg = console.export_svg(title=title, unique_id="acp", theme=ground)
    return re.sub(r"\s*(@font-face \{.*?\}|<!--.*?-->)", "", svg, flags=re.DOTALL)


def still(story: Sequence[Any]) -> list[Any]:
    """Costs and times are another run's; and the gate's first run, which is beside the work, is over at any time."""
    rows = [_still(one) for one in _merged(story)]
    first, last = (next((row for row in rows if _is_gate(row, name)), None) for name in ("before", "after"))
    if first and last:
        rows.remove(first)
        rows.insert(rows.index(last), first)
    return rows


def _is_gate(row: Any, name: str) -> bool:
    return isinstance(row, dict) and row.get("title") == f"gate {name}"


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


@dataclass(frozen=True)
class Drawing:
    root: str
    code_theme: str

    def rows(self, story: Sequence[Any]) -> Iterator[RenderableType]:
        for one in story:
            match one:
                case ("you", text):
                    yield Panel(Text(text), title="you", title_align="left", border_style="blue")
                case ("thought", text):
                    yield Padding(Text(text.strip(), style="italic dim"), (0, 2))
                case ("agent", text):
                    yield Padding(self._markdown(text.strip()), (1, 1))
                case {"title": _}:
                    yield from self._call(one)
                case _ if hasattr(one, "ask_id"):
                    yield self._ask(one)
                case _:
                    yield from self._other(one)

    def _call(self, call: dict[str, Any]) -> Iterator[RenderableType]:
        mark, style = MARKS[call.get("status", "pending")]
        yield Text.assemble(
            (f" {mark} ", style), (self._still(call["title"]), "bold"), (f"  {call.get('kind', '')}", "dim")
        )
        yield from (Padding(row, (0, 4)) for row in self._content(call.get("content") or []))

    def _content(self, content: Sequence[Any]) -> Iterator[RenderableType]:
        for one in content:
            if one.type != "diff":
                yield self._markdown(one.content.text)
                continue
            yield Text(self._still(one.path), style="dim")
            yield from (Text(f"- {line}", style="red") for line in (one.old_text or "").splitlines())
            yield from (Text(f"+ {line}", style="green") for line in one.new_text.splitlines())

    def _ask(self, asked: Any) -> RenderableType:
        """With the option that the person took, if they have taken one."""
        chosen = asked.answer.result() if asked.answer.done() else None
        buttons = Text("  ").join(
            Text(f" {name} ", style="reverse" if name == chosen else "bold") for name in asked.options
        )
        rows = (Text(asked.title, style="bold"), *self._content(asked.content), Text(), buttons)
        return Panel(Group(*rows), title=f"? {asked.kind}", title_align="left", border_style="yellow")

    def _other(self, update: Any) -> Iterator[RenderableType]:
        match update.session_update:
            case "plan":
                for entry in update.entries:
                    mark, style = MARKS[entry.status] if entry.status != "pending" else ("·", "dim")
                    yield Text.assemble((f"   {mark} ", style), entry.content)
            case "current_mode_update":
                yield Text(f" → mode: {update.current_mode_id}", style="magenta")
            case _:
                return

    def _still(self, place: str) -> str:
        return re.sub(TASK, A_TASK, place.replace(self.root, HOME))

    def _markdown(self, text: str) -> Markdown:
        return Markdown(text, code_theme=self.code_theme)
