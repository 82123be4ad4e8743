"""HTML as a stream of texts and tags. Pure, and in time proportional to the page, whoever wrote it.

The standard library's parser looks for the end of what is never closed again and again, which takes minutes for a
page that was made for that. Here, as in browsers, what is never closed ends with the page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Attribute values may hold a `>`. The groups are possessive: what does not fit is not tried in another way.
_TAG = re.compile(r"""<(/?)([A-Za-z][^\s/>]*+)((?:[^>"']++|"[^"]*+"|'[^']*+')*+)>""")
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'>]++))?+""")
_LONE = re.compile(r"<+(?=<)|<")  # that begin nothing
# Their content is no HTML.
RAW = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
_ENDS = {name: re.compile(f"</{name}(?=[\\s/>])", re.IGNORECASE) for name in RAW}


@dataclass(frozen=True, slots=True)
class Tag:
    name: str  # lower case
    is_end: bool = False
    attributes: dict[str, str] = field(default_factory=dict[str, str])


def pieces(page: str) -> Iterator[str | Tag]:
    """Texts (with their entities replaced) and tags in their order; comments and declarations are left out."""
    at = 0
    while at < len(page):
        opens = page.find("<", at)
        if opens != at:
            yield _unescaped(page[at : opens if opens >= 0 else len(page)])
        if opens < 0:
            return
        following = page[opens + 1 : opens + 2]
        if not (following.isascii() and following.isalpha()) and following not in ("/", "!", "?"):
            lone = _LONE.match(page, opens)
            at = lone.end() if lone else opens + 1
            yield page[opens:at]
        elif following in ("!", "?"):
            at = _after(page, "-->" if page.startswith("<!--", opens) else ">", opens)
        elif tag := _TAG.match(page, opens):
            name = tag[2].lower()
            yield Tag(name, bool(tag[1]), {} if tag[1] else _attributes(tag[3]))
            at = tag.end()
            if name in RAW and not tag[1]:
                end = _ENDS[name].search(page, at)
                stop = end.start() if end else len(page)
                yield _unescaped(page[at:stop])
                at = stop
        elif following == "/":
            at = _after(page, ">", opens)
        else:
            return


def _after(page: str, mark: str, start: int) -> int:
    found = page.find(mark, start)
    return len(page) if found < 0 else found + len(mark)


def _attributes(text: str) -> dict[str, str]:
    found = ((match[1].lower(), (match[2] or "").strip("\"'")) for match in _ATTRIBUTE.finditer(text))
    attributes: dict[str, str] = {}
    for name, value in found:
        attributes.setdefault(name, _unescaped(value))
    return attributes


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a character's number with thousands of digits
        return text
