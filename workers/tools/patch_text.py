"""Reading patches as models write them, strictly. Pure.

    *** Begin Patch
    *** Add File: path
    +every line of it
    *** Delete File: path
    *** Update File: path
    *** Move to: new path
    @@ a line somewhere above the change
     a line that stays
    -a line that goes
    +a line that comes
    *** End of File
    *** End Patch

Text around the envelope, as of a shell's here-document, is passed over; a line inside it that belongs to nothing is an
error.
"""

from __future__ import annotations

from collections import deque
from typing import cast

from .patch_tree import Add, Chunk, Delete, Patch, PatchRefused, Section, Sign, Update

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE, MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
END_OF_FILE = "*** End of File"

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
    chunks: list[Chunk] = []
    while lines:
        number, line = lines[0]
        if line.startswith("@@"):
            lines.popleft()
            chunks.append(_chunk(number, line.removeprefix("@@").removeprefix(" "), lines))
        elif not chunks and line[:1] in (" ", "-", "+"):  # only the first may do without its @@
            chunks.append(_chunk(number, "", lines))
        elif line.strip():
            break
        else:
            lines.popleft()
    if not chunks and move_to is None:
        where = f"line {lines[0][0]}: before it, " if lines else ""
        raise PatchRefused(
            f"{where}the update of {path} needs a chunk: '@@', then lines that start with ' ', '-' or '+'"
        )
    return Update(path, tuple(chunks), move_to)


def _chunk(number: int, context: str, lines: Numbered) -> Chunk:
    taken: list[tuple[Sign, str]] = []
    blank = 0  # lines that lost the blank they start with; at a chunk's end they only set it off from what follows
    while lines:
        line = lines[0][1]
        at_end = line.rstrip() == END_OF_FILE
        if line and line[0] not in " -+" and not at_end:
            break
        lines.popleft()
        if not line:
            blank += 1
            continue
        taken.extend((" ", "") for _ in range(blank))
        blank = 0
        if at_end:
            return _whole(number, Chunk(context, tuple(taken), at_end=True))
        taken.append((cast(Sign, line[0]), line[1:]))
    return _whole(number, Chunk(context, tuple(taken)))


def _whole(number: int, chunk: Chunk) -> Chunk:
    if chunk.lines:
        return chunk
    raise PatchRefused(f"line {number}: this chunk has no lines; they start with ' ', '-' or '+'")
