"""Applying a patch in memory: all of it, or an error. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from .elision import elided, newly_elided
from .fitting import fitted
from .indentation import common_step, indent_of
from .patch_text import parse_patch as parse_patch
from .patch_tree import Add, Chunk, Delete, Patch, Update
from .patch_tree import PatchRefused as PatchRefused
from .seek import MAX_PLACES, PASSES, Lines, plain
from .splice import Splice, spliced

BOM = "\ufeff"
MAX_SHOWN_PLACES = 5
# Where another part of a file begins: what is looked for below one such line is not below the next.
_DEFINITION = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|unsafe|pub(?:\([^)]*\))?)\s+)*"
    r"(?:class|def|func|fn|function|interface|struct|impl|trait|enum|module|namespace|record)\b"
)


@dataclass(frozen=True, slots=True)
class Patched:
    """`files` as `apply_patch` returns them. `loose` are those in which lines of the patch do not stand as it says;
    `remarks` tell which of several places was taken."""

    files: dict[str, str]
    loose: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Placed:
    start: int
    chunk: Chunk
    is_exact: bool = True
    remark: str = ""


def apply_patch(files: Mapping[str, str], patch: Patch | str) -> dict[str, str]:
    """The files (path → content) as the patch leaves them; what it does not name stays, what it deletes is gone.

    Sections apply in their order, each to what those before it left. An added file, or one that is moved, replaces
    what is there. Lines that stay keep the file's own text, and new ones get its indentation and line endings.
    `PatchRefused` when any chunk does not fit: then nothing is changed, and `files` never is.
    """
    return patched(files, patch).files


def patched(files: Mapping[str, str], patch: Patch | str) -> Patched:
    """As `apply_patch`, and how the lines of the patch were found."""
    after = dict(files)
    loose: list[str] = []
    remarks: list[str] = []
    for section in (parse_patch(patch) if isinstance(patch, str) else patch).sections:
        match section:
            case Add(path, text):
                if path in after:
                    _require_whole(path, text, after[path])
                after[path] = text
            case Delete(path):
                _taken(after, path)
            case Update(path, chunks, move_to):
                target = move_to or path
                after[target], placed = _updated(path, _taken(after, path), chunks)
                loose += [] if all(each.is_exact for each in placed) else [target]
                remarks += [each.remark for each in placed if each.remark]
    return Patched(after, tuple(dict.fromkeys(loose)), tuple(remarks))


def _taken(files: dict[str, str], path: str) -> str:
    if path not in files:
        raise PatchRefused(f"{path} does not exist; to create it, use '*** Add File:'")
    return files.pop(path)


def _require_whole(path: str, new: str, known: str) -> None:
    if line := newly_elided(new, known):
        raise PatchRefused(f"the patch of {path} adds {line!r} in place of lines, which would be lost; write them out")


def _updated(path: str, text: str, chunks: tuple[Chunk, ...]) -> tuple[str, list[_Placed]]:
    """The text after its chunks; with one, it ends with a newline, whether it did before or not."""
    if not chunks:
        return text, []
    body = text.removeprefix(BOM)
    bom = text[: len(text) - len(body)]
    if body and not body.endswith("\n"):
        body += "\r\n" if "\r\n" in body else "\n"
    lines = body.replace("\r\n", "\n")
    _require_whole(path, "\n".join(line for chunk in chunks for sign, line in chunk.lines if sign == "+"), lines)
    there = Lines(lines.removesuffix("\n").split("\n") if lines else [])
    placed = _placed(path, there, chunks)
    starts = [0]
    for line in there.lines:
        starts.append(starts[-1] + len(line) + 1)
    step, splices = common_step(lines), list[Splice]()
    for each in placed:
        end = each.start + len(each.chunk.old)
        fitting = fitted(there.lines[each.start : end], each.chunk.lines, step)
        if fitting is None:
            raise PatchRefused(
                f"the lines of a chunk stand at {_at([each.start])} of {path} with another indentation, and where its"
                " new lines belong there cannot be told; read it again and copy the lines with their indentation"
            )
        splices.append(Splice(starts[each.start], starts[end], "".join(f"{line}\n" for line in fitting)))
    return bom + spliced(body, lines, splices), placed


def _placed(path: str, there: Lines, chunks: tuple[Chunk, ...]) -> list[_Placed]:
    """Where each chunk starts, in the order of the file."""
    placed: list[_Placed] = []
    at = 0
    for chunk in chunks:
        at, header = _below_headers(path, there, chunk, at)
        if chunk.old:
            found = _found(path, there, chunk, at, header)
            at = found.start + len(chunk.old)
        else:
            found = _Placed(_where_added(path, there, chunk, at, header), chunk)
        placed.append(found)
    return sorted(placed, key=lambda each: each.start)


def _below_headers(path: str, there: Lines, chunk: Chunk, at: int) -> tuple[int, int | None]:
    """Where the lines of a chunk are looked for, and the line of its last header: below each in its turn, and the next
    one inside of the one before."""
    header = None
    for text in chunk.headers:
        places = _headed(there, text, at)
        above = [] if places or not chunk.old else [n for n in _headed(there, text, 0) if n < at]
        if above:
            header = above[-1]  # of a chunk before, too: `at` is below it already
            continue
        inside = [n for n in places if header is None or not _is_left(there, header, n)]
        if not inside:
            raise PatchRefused(_not_found(path, there, [text], "context line after '@@'", is_there=bool(places)))
        if not chunk.old and not chunk.at_end and text == chunk.headers[-1] and len(inside) > 1 and not chunk.span:
            raise PatchRefused(
                f"{path} has the context line after '@@' at {_at(inside)}, and which of them is meant cannot be told;"
                f" give lines around what is added:\n{text[:400]}"
            )
        header, at = inside[0], inside[0] + 1
    return at, header


def _headed(there: Lines, text: str, start: int) -> list[int]:
    """Where a header stands from `start` on: as a line, else as the beginning of one."""
    for prepare in PASSES:
        if places := there.places([text], prepare, start):
            return places
    begins = re.compile(re.escape(plain(text).strip()) + r"(?!\w)")
    found = (n for n in range(start, len(there.lines)) if begins.match(there.stripped[n]))
    return [*islice(found, MAX_PLACES)]


def _is_left(there: Lines, header: int, at: int) -> bool:
    """Does another definition begin between a header that is one and this line? Then the line is not inside of it."""
    first = there.lines[header]
    if not _DEFINITION.match(first.strip()):
        return False
    between = there.lines[header + 1 : at + 1]
    return any(
        len(indent_of(line)) <= len(indent_of(first)) and _DEFINITION.match(line.strip()) is not None
        for line in between
    )


def _found(path: str, there: Lines, chunk: Chunk, at: int, header: int | None) -> _Placed:
    where = "lines at the end of the file" if chunk.at_end else "lines"
    for number, prepare in enumerate(PASSES):
        places = there.places(chunk.old, prepare, at, at_end=chunk.at_end)
        if not places:
            continue
        inside = [n for n in places if header is None or chunk.span or not _is_left(there, header, n)]
        if not inside:
            raise PatchRefused(_not_found(path, there, chunk.old, f"{where} in {chunk.context.strip()!r}"))
        line = chunk.span.line - 1 if chunk.span else -1
        named = line >= at and there.places(chunk.old, prepare, line)[:1] == [line]
        start = line if named else inside[0]
        if len(inside) > 1 and number and not named:
            raise PatchRefused(
                f"{path} has no such lines as they are written, and what resembles them stands at {_at(inside)};"
                f" read it again and copy them exactly:\n{_shown(chunk.old)}"
            )
        is_clear = len(inside) == 1 or named or header is not None or at > 0
        remark = "" if is_clear else f"{path}: line {start + 1} was changed; the same stands at {_at(inside)}"
        return _Placed(start, chunk, number == 0, remark)
    raise PatchRefused(_not_found(path, there, chunk.old, where))


def _where_added(path: str, there: Lines, chunk: Chunk, at: int, header: int | None) -> int:
    """Below its context line; else where a unified header says; else at the end."""
    span = chunk.span
    if span and not span.count and at <= span.line <= len(there.lines):
        return span.line
    if chunk.at_end or (header is None and span is None):
        return len(there.lines)
    if header is None:
        raise PatchRefused(
            f"a chunk of {path} only adds lines, and its header does not say where; give lines around them"
        )
    return at


def _not_found(path: str, there: Lines, wanted: list[str], what: str, *, is_there: bool = True) -> str:
    if (not is_there or there.find(wanted, 0) is None) and (line := elided("\n".join(wanted))):
        return (
            f"{path} has no such {what}: the patch leaves lines out ({line!r}), and must have all lines that a chunk is"
            " about; change places that are far from each other in a chunk each"
        )
    if not is_there or there.find(wanted, 0) is None:
        return f"{path} has no such {what}; read it again and copy them exactly:\n{_shown(wanted)}"
    return (
        f"{path} has no such {what} in the place that the patch says; chunks follow the order of the file:"
        f"\n{_shown(wanted)}"
    )


def _shown(lines: Sequence[str]) -> str:
    return "\n".join(lines[:5])[:400]


def _at(places: Sequence[int]) -> str:
    shown = [str(place + 1) for place in places[:MAX_SHOWN_PLACES]]
    if len(places) > MAX_SHOWN_PLACES:
        shown.append("more")
    return f"line {shown[0]}" if len(shown) == 1 else f"lines {', '.join(shown[:-1])} and {shown[-1]}"
