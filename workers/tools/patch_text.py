"""Reading patches as models write them, strictly. Pure.

    *** Begin Patch
    *** Add File: path
    +every line of it
    *** Delete File: path
    *** Update File: path
    *** Move to: new path
    @@ class A, or another line further up
    @@ a line somewhere above the change
     a line that stays
    -a line that goes
    +a line that comes
    *** End of File
    *** End Patch

Text around the envelope, as of a shell's here-document, is passed over; a line inside it that belongs to nothing is an
error. Headers of unified diffs (`@@ -1,3 +1,4 @@ def f`) are read as well, and so is what git writes around them.
"""

from __future__ import annotations

import re
from collections import deque
from typing import cast

from .fitting import Line, Sign
from .patch_tree import Add, Chunk, Delete, Patch, PatchRefused, Section, Span, Update

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE, MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
END_OF_FILE = "*** End of File"

_UNIFIED = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,\d{1,9})? @@ ?(.*)")
_NO_NEWLINE = "\\ No newline at end of file"

Numbered = deque[tuple[int, str]]  # what is still to be read: lines with their numbers in the whole text, from 1


def parse_patch(text: str) -> Patch:
    """The patch in a text. `PatchRefused` names the line that is wrong."""
    lines = _inside_envelope(text)
    sections: list[Section] = []
    while lines:
        number, line = lines.popleft()
        if line.strip():
            sections.append(_section(number, line, lines))
    if not sections:
        raise PatchRefused("the patch is empty: there is no section between its begin and its end")
    return Patch(tuple(sections))


def _inside_envelope(text: str) -> Numbered:
    lines = text.replace("\r\n", "\n").split("\n")
    begins = [number for number, line in enumerate(lines) if line.strip() == BEGIN]
    if not begins:
        raise PatchRefused(f"there is no line {BEGIN!r}: a patch starts with it")
    # not stripped on the left: there the mark would be a line of context that happens to read so
    end = next((number for number in range(begins[0], len(lines)) if lines[number].rstrip() == END), None)
    if end is None:
        raise PatchRefused(f"there is no line {END!r} after line {begins[0] + 1}: a patch ends with it")
    if begins[-1] > end:
        raise PatchRefused(f"line {begins[-1] + 1}: a second patch begins; put all sections into one")
    return deque(enumerate(lines[begins[0] + 1 : end], begins[0] + 2))


def _section(number: int, line: str, lines: Numbered) -> Section:
    for header, parse in ((ADD, _add), (DELETE, _delete), (UPDATE, _update)):
        if line.startswith(header):
            return parse(_path(number, line, header), lines)
    raise PatchRefused(
        f"line {number}: {line[:80]!r} belongs to no section. A section starts with {ADD!r}, {DELETE!r} or {UPDATE!r};"
        " lines of an added file start with '+', and lines of a chunk with ' ', '-' or '+' after a line '@@'"
    )


def _path(number: int, line: str, header: str) -> str:
    if path := line.removeprefix(header).strip():
        return path
    raise PatchRefused(f"line {number}: {header!r} names no path")


def _add(path: str, lines: Numbered) -> Add:
    text: list[str] = []
    while lines and lines[0][1].startswith("+"):
        text.append(lines.popleft()[1][1:] + "\n")
    return Add(path, "".join(text))


def _delete(path: str, lines: Numbered) -> Delete:
    return Delete(path)


def _update(path: str, lines: Numbered) -> Update:
    move_to = None
    if lines and lines[0][1].startswith(MOVE):
        move_to = _path(*lines.popleft(), MOVE)
    if len(lines) > 1 and lines[0][1].startswith("--- ") and lines[1][1].startswith("+++ "):  # of a unified diff
        lines.popleft()
        lines.popleft()
    chunks: list[Chunk] = []
    while lines:
        number, line = lines[0]
        if line.startswith("@@"):
            chunks.append(_chunk(number, _headers(lines), lines))
        elif not chunks and line[:1] in (" ", "-", "+"):  # only the first may do without its @@
            chunks.append(_chunk(number, [("", None)], lines))
        elif line.strip() and line.strip() != _NO_NEWLINE:
            break
        else:
            lines.popleft()
    if not chunks and move_to is None:
        where = f"line {lines[0][0]}: before it, " if lines else ""
        raise PatchRefused(
            f"{where}the update of {path} needs a chunk: '@@', then lines that start with ' ', '-' or '+'"
        )
    return Update(path, tuple(chunks), move_to)


def _headers(lines: Numbered) -> list[tuple[str, Span | None]]:
    """One below the other, each inside of the one above it."""
    headers: list[tuple[str, Span | None]] = []
    while lines and lines[0][1].startswith("@@"):
        line = lines.popleft()[1]
        if unified := _UNIFIED.fullmatch(line.rstrip()):
            headers.append((unified[3], Span(int(unified[1]), int(unified[2] or 1))))
            continue
        text = line.removeprefix("@@").removeprefix(" ").rstrip()
        text = text.removesuffix("@@").rstrip() if text.endswith(" @@") else text
        headers.append(("" if text.strip() in ("...", "…", "@@") else text, None))
    return headers


def _chunk(number: int, headers: list[tuple[str, Span | None]], lines: Numbered) -> Chunk:
    taken: list[Line] = []
    blank = 0  # lines that lost the blank they start with; at a chunk's end they only set it off from what follows
    at_end = False
    while lines and not at_end:
        line = lines[0][1]
        at_end = line.rstrip() == END_OF_FILE
        is_remark = line.rstrip() == _NO_NEWLINE
        if line and line[0] not in " -+" and not at_end and not is_remark:
            break
        lines.popleft()
        if not line:
            blank += 1
        elif not is_remark:
            taken.extend((" ", "") for _ in range(blank))
            blank = 0
            if not at_end:
                taken.append((cast(Sign, line[0]), line[1:]))
    if not taken:
        raise PatchRefused(f"line {number}: this chunk has no lines; they start with ' ', '-' or '+'")
    *outer, (context, _) = headers
    span = next((span for _, span in reversed(headers) if span), None)
    return Chunk(context, tuple(taken), at_end, tuple(text for text, _ in outer), span)
