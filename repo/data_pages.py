"""Style sheets and pages: entries that may stand once, and names that they define and use. Pure, on text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from .data_said import Said, differing, more_than_once


def styles(text: str) -> Said:
    """CSS, SCSS and Less: each property of a selector, with its value; variables, mixins and animations by name."""
    text = re.sub(r"/\*.*?\*/|(?:^|(?<=\s))//[^\n]*", "", text, flags=re.DOTALL)
    said = [(f"{place} {name}", value) for place, name, value in _declared(text)]
    defined = set(re.findall(r"(--[\w-]+|[$@][\w-]+)\s*:", text))
    defined |= set(re.findall(r"@(?:keyframes|mixin|function)\s+([\w-]+)", text))
    used = Counter(re.findall(r"--[\w-]+|[$@][\w-]+", re.sub(r"(--[\w-]+|[$@][\w-]+)\s*:", "", text)))
    used.update(re.findall(r"@include\s+([\w-]+)", text))
    used.update(
        word for animation in re.findall(r"animation(?:-name)?\s*:([^;}]*)", text) for word in animation.split()
    )
    return Said(differing(said), defined, used)


def _declared(text: str) -> Iterator[tuple[str, str, str]]:
    path: list[str] = []
    for part, end in re.findall(r"([^{};]*)([{};])", text):
        said = " ".join(part.split())
        if end == "{":
            path.append(said)
            continue
        name, colon, value = said.partition(":")
        if colon and path and not any(one.startswith("@font-face") for one in path):
            yield " / ".join(path), name.strip(), value.strip()
        if end == "}":
            del path[-1:]


def page(text: str) -> Said:
    """HTML and templates of it: ids, and who points to one."""
    ids = re.findall(r"\sid=[\"']([\w:.-]+)[\"']", text)
    used = Counter(re.findall(r"(?:href=[\"']#|for=[\"']|aria-\w+=[\"'])([\w:.-]+)", text))
    return Said(more_than_once((one,) for one in ids), set(ids), used)


def prose(text: str) -> Said:
    """Markdown: notes and links by their names, headings and who points to one."""
    once = re.findall(r"^\[(\^?[^\]\n]+)\]:\s*(.*)$", text, re.MULTILINE)
    heads = re.findall(r"^#+\s+(.*?)\s*#*$", text, re.MULTILINE)
    defined = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
    return Said(differing(once), defined, Counter(re.findall(r"\]\(#([\w-]+)\)", text)))
