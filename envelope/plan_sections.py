"""What a plan file has to say, section by section. Pure."""

from __future__ import annotations

import re

SECTIONS = ("Overview", "Approach", "Files to modify", "Implementation steps", "Verification")
_HEADING = re.compile(r"#{1,6}[ \t](.*)")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")


def section_faults(text: str) -> list[str]:
    """The sections that are missing or empty, each in a few words; a heading may be of any level and case.

    >>> section_faults("# Overview\\nIt is small.\\n## Approach\\n## Files to modify\\na.py\\n## Verification\\npytest")
    ['the section "Approach" is empty', 'the section "Implementation steps" is missing']
    """
    found = _sections(text)
    faults = {
        name: "is missing" if name.casefold() not in found else "is empty"
        for name in SECTIONS
        if not found.get(name.casefold(), "").strip()
    }
    return [f'the section "{name}" {what}' for name, what in faults.items()]


def _sections(text: str) -> dict[str, str]:
    """The text below each of the headings that count, up to the next of them; a line in a code block is no heading."""
    known = {name.casefold() for name in SECTIONS}
    found: dict[str, list[str]] = {}
    here, in_code = "", False
    for line in text.splitlines():
        in_code ^= bool(_FENCE.match(line))
        heading = None if in_code else _HEADING.match(line)
        title = heading[1].strip(" \t").rstrip("#").rstrip(" \t").casefold().rstrip(":") if heading else ""
        if title in known:
            here = title
            found.setdefault(here, [])
        elif here:
            found[here].append(line)
    return {title: "\n".join(lines) for title, lines in found.items()}
