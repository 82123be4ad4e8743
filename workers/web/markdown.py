"""A page as Markdown or as plain text, for a model to read. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urljoin

from .html import RAW, Tag, pieces

HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
MARKS = {"strong": "**", "b": "**", "em": "_", "i": "_", "code": "`"}
PARAGRAPHS = frozenset({"p", "table", "figure", "dl", "article", "section", "main", "header", "footer", "nav", "form"})
LINES = frozenset(
    {
        "div",
        "tr",
        "tbody",
        "thead",
        "dt",
        "dd",
        "br",
        "address",
        "aside",
        "details",
        "summary",
        "fieldset",
        "figcaption",
        "option",
    }
)
# Nobody reads them: programs, drawings, and what is shown to those without programs.
SKIPPED = RAW | {"svg", "template", "noscript", "math", "object", "canvas"}
LINKS = ("http://", "https://", "mailto:")
# Each level stands in every line below it, and each link repeats the address of its page: what is short as HTML may
# be gigabytes here.
MAX_DEPTH = 8
MAX_CHARS = 8 * 1024 * 1024
MAX_READ_S = 3.0  # of processor time; the largest pages that people read take a third of it

_BLANKS = re.compile(r"[ \t\r\n\f\xa0]+")
_TRAILING = re.compile(r"(?<![ \t])[ \t]++$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{3,}")


def to_markdown(page: str, base_url: str = "") -> str:
    """`base_url`: what links are relative to.

    >>> to_markdown("<h1>A</h1><p>See <a href='/b'>the <b>next</b></a>.", "https://example.com/a")
    '# A\\n\\nSee [the **next**](https://example.com/b).'
    """
    return _render(page, _Writer(base_url))


def to_text(page: str) -> str:
    """The words and their lines, without links and marks."""
    return _render(page, _Writer("", is_plain=True))


@dataclass(slots=True)
class _List:
    depth: int  # how many prefixes there were before it
    number: int | None  # of the last item; None: not a numbered list


@dataclass(slots=True)
class _Writer:
    base_url: str
    is_plain: bool = False
    parts: list[str] = field(default_factory=list[str])
    size_chars: int = 0
    prefixes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # element, what begins its lines
    last_prefix: str = ""  # of the line that is being written
    lists: list[_List] = field(default_factory=list[_List])
    href: str = ""  # of the link that is open
    is_pre: bool = False
    newlines: int = 0  # that come before the next text: 1 for a line, 2 for a paragraph
    after_blank: bool = True  # another blank would say nothing

    def put(self, text: str) -> None:
        prefix = "".join(prefix for _, prefix in self.prefixes)
        if self.newlines and self.parts:
            between = min(prefix, self.last_prefix, key=len).rstrip() + "\n" if self.newlines > 1 else ""
            text = f"\n{between}{prefix}{text}"
        elif not self.parts:
            text = prefix + text
        self.newlines, self.last_prefix = 0, prefix
        self.parts.append(text)
        self.size_chars += len(text)

    def words(self, text: str) -> None:
        if self.is_pre:
            prefix = "".join(prefix for _, prefix in self.prefixes)
            self.put(text.replace("\r\n", "\n").replace("\n", "\n" + prefix))
            return
        text = _BLANKS.sub(" ", text)
        text = text.removeprefix(" ") if self.after_blank else text
        if text:
            self.put(text)
            self.after_blank = text.endswith(" ")

    def mark(self, mark: str) -> None:
        """A sign that plain text goes without."""
        if not self.is_plain:
            self.put(mark)

    def line(self, *, gap: bool = False) -> None:
        """What comes next begins a line; with a gap, a paragraph."""
        self.newlines = max(self.newlines, 2 if gap else 1)
        self.after_blank = True

    def open(self, name: str, prefix: str) -> None:
        if len(self.prefixes) < MAX_DEPTH:
            self.prefixes.append((name, "" if self.is_plain and name == "blockquote" else prefix))

    def close(self, name: str) -> None:
        """The innermost element of this name, with all that was left open in it."""
        found = [depth for depth, (held, _) in enumerate(self.prefixes) if held == name]
        if found:
            del self.prefixes[found[-1] :]


def _render(page: str, writer: _Writer) -> str:
    skipped, depth = "", 0
    ends_s = time.thread_time() + MAX_READ_S
    for piece in pieces(page):
        if isinstance(piece, str):
            if not skipped:
                writer.words(piece)
        elif skipped:
            depth += (-1 if piece.is_end else 1) if piece.name == skipped else 0
            skipped = skipped if depth else ""
        elif piece.name in SKIPPED:
            skipped, depth = ("", 0) if piece.is_end else (piece.name, 1)
        else:
            _tag(writer, piece)
        if writer.size_chars > MAX_CHARS or time.thread_time() > ends_s:
            break
    text = "".join(writer.parts)[:MAX_CHARS]
    return _EMPTY_LINES.sub("\n\n", _TRAILING.sub("", text)).strip("\n ")


def _tag(writer: _Writer, tag: Tag) -> None:
    if writer.is_pre and tag.name in MARKS:
        return
    if tag.name in MARKS:
        writer.mark(MARKS[tag.name])
    elif tag.name in PARAGRAPHS:
        writer.line(gap=True)
    elif tag.name in LINES:
        writer.line()
    elif handler := HANDLERS.get(tag.name):
        handler(writer, tag)


def _heading(writer: _Writer, tag: Tag) -> None:
    writer.line(gap=True)
    if not tag.is_end:
        writer.mark(HEADINGS[tag.name])


def _rule(writer: _Writer, tag: Tag) -> None:
    writer.line(gap=True)
    writer.mark("---")
    writer.line(gap=True)


def _link(writer: _Writer, tag: Tag) -> None:
    if writer.href:
        writer.mark(f"]({writer.href})")
        writer.href = ""
    if not tag.is_end and (href := _absolute(writer.base_url, tag.attributes.get("href", ""))):
        writer.mark("[")
        writer.href = href


def _image(writer: _Writer, tag: Tag) -> None:
    if alt := tag.attributes.get("alt", "").strip():
        writer.words(f"[image: {alt}]")


def _pre(writer: _Writer, tag: Tag) -> None:
    if tag.is_end == writer.is_pre:
        writer.line(gap=not tag.is_end)
        writer.mark("```")
        writer.line(gap=tag.is_end)
        writer.is_pre = not tag.is_end


def _quote(writer: _Writer, tag: Tag) -> None:
    writer.line(gap=True)
    if tag.is_end:
        writer.close("blockquote")
    else:
        writer.open("blockquote", "> ")


def _list(writer: _Writer, tag: Tag) -> None:
    writer.line(gap=not writer.lists)
    if not tag.is_end and len(writer.lists) < MAX_DEPTH:
        writer.lists.append(_List(len(writer.prefixes), 0 if tag.name == "ol" else None))
    elif tag.is_end and writer.lists:
        del writer.prefixes[writer.lists.pop().depth :]
        writer.line(gap=not writer.lists)


def _item(writer: _Writer, tag: Tag) -> None:
    around = writer.lists[-1] if writer.lists else _List(len(writer.prefixes), None)
    del writer.prefixes[around.depth :]  # the item before it, closed or not
    if tag.is_end:
        return
    bullet = "- "
    if around.number is not None:
        around.number += 1
        bullet = f"{around.number}. "
    writer.line()
    writer.put(bullet)
    writer.open("li", " " * len(bullet))


def _cell(writer: _Writer, tag: Tag) -> None:
    """Cells are parted where the next one begins: its end tag may be left out."""
    if not tag.is_end and not writer.newlines and writer.parts:
        writer.words(" | ")


HANDLERS: dict[str, Callable[[_Writer, Tag], None]] = {
    **dict.fromkeys(HEADINGS, _heading),
    **dict.fromkeys(("ul", "ol"), _list),
    **dict.fromkeys(("td", "th"), _cell),
    "li": _item,
    "a": _link,
    "img": _image,
    "pre": _pre,
    "blockquote": _quote,
    "hr": _rule,
}


def _absolute(base_url: str, href: str) -> str:
    """The link in full; empty when it leads nowhere that can be fetched."""
    if not href.strip() or href.startswith("#") or len(href) > 2000:
        return ""
    try:
        full = urljoin(base_url, href.strip())
    except ValueError:
        return ""
    return re.sub(r"[\s()<>]", lambda found: f"%{ord(found[0]):02X}", full) if full.lower().startswith(LINKS) else ""
