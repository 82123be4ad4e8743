"""Applying a patch in memory: all of it, or an error. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from .patch_text import parse_patch as parse_patch
from .patch_tree import Add, Chunk, Delete, Patch, Update
from .patch_tree import PatchRefused as PatchRefused
from .seek import Lines

BOM = "\ufeff"


def apply_patch(files: Mapping[str, str], patch: Patch | str) -> dict[str, str]:
    """The files (path → content) as the patch leaves them; what it does not name stays, what it deletes is gone.

    Sections apply in their order, each to what those before it left. An added file, or one that is moved, replaces
    what is there. Lines that stay keep the file's own text, and new ones get its line endings. `PatchRefused` when any
    chunk does not fit: then nothing is changed, and `files` never is.
    """
    after = dict(files)
    for section in (parse_patch(patch) if isinstance(patch, str) else patch).sections:
        match section:
            case Add(path, text):
                after[path] = text
            case Delete(path):
                _taken(after, path)
            case Update(path, chunks, move_to):
                after[move_to or path] = _updated(path, _taken(after, path), chunks)
    return after


def _taken(files: dict[str, str], path: str) -> str:
    if path not in files:
        raise PatchRefused(f"{path} does not exist; to create it, use '*** Add File:'")
    return files.pop(path)


def _updated(path: str, text: str, chunks: tuple[Chunk, ...]) -> str:
    """The text after its chunks; with one, it ends with a newline, whether it did before or not."""
    if not chunks:
        return text
    body = text.removeprefix(BOM)
    bom, carriage_return = text[: len(text) - len(body)], "\r" if "\r\n" in body else ""
    lines = body.removesuffix("\n").split("\n") if body else []
    if lines and not body.endswith("\n"):
        lines[-1] += carriage_return
    after: list[str] = []
    done = 0
    for start, chunk in _placed(path, lines, chunks):
        after += lines[done:start]
        done = start
        for sign, line in chunk.lines:
            if sign == "+":
                after.append(line + carriage_return)
            elif sign == " ":
                after.append(lines[done])
            done += sign != "+"
    return bom + "".join(f"{line}\n" for line in [*after, *lines[done:]])


def _placed(path: str, lines: list[str], chunks: tuple[Chunk, ...]) -> list[tuple[int, Chunk]]:
    """Where each chunk starts, in the order of the file. One that replaces nothing goes to the end."""
    there = Lines([line.removesuffix("\r") for line in lines])
    placed: list[tuple[int, Chunk]] = []
    at = 0
    for chunk in chunks:
        if chunk.context.strip():
            found = there.find([chunk.context], at)
            if found is None:
                raise PatchRefused(_not_found(path, there, [chunk.context], "context line after '@@'"))
            at = found + 1
        if not chunk.old:
            placed.append((len(lines), chunk))
            continue
        start = there.find(chunk.old, at, at_end=chunk.at_end)
        if start is None:
            where = "lines at the end of the file" if chunk.at_end else "lines"
            raise PatchRefused(_not_found(path, there, chunk.old, where))
        placed.append((start, chunk))
        at = start + len(chunk.old)
    return sorted(placed, key=lambda place: place[0])


def _not_found(path: str, there: Lines, wanted: list[str], what: str) -> str:
    shown = "\n".join(wanted[:5])[:400]
    if there.find(wanted, 0) is None:
        return f"{path} has no such {what}; read it again and copy them exactly:\n{shown}"
    return f"{path} has no such {what} in the place that the patch says; chunks follow the order of the file:\n{shown}"
