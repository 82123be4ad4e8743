"""A patch as a tree: what its sections and chunks say. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .errors import Refused
from .fitting import Line


class PatchRefused(Refused):
    """Why a patch cannot be read or applied, in words for the model. Nothing of it was."""


@dataclass(frozen=True, slots=True)
class Span:
    """The lines that a unified diff says it is about, counted from 1; of none, after which line it comes."""

    line: int
    count: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """One change; `context` is a line above it or empty, and inside of `outer`, lines further up. `at_end` says that it
    is the end of the file."""

    context: str
    lines: tuple[Line, ...]
    at_end: bool = False
    outer: tuple[str, ...] = ()
    span: Span | None = None

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def headers(self) -> list[str]:
        return [header for header in (*self.outer, self.context) if header.strip()]


@dataclass(frozen=True, slots=True)
class Add:
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True)
class Update:
    """Without `chunks` it only moves."""

    path: str
    chunks: tuple[Chunk, ...]
    move_to: str | None = None


Section = Add | Delete | Update


@dataclass(frozen=True, slots=True)
class Patch:
    sections: tuple[Section, ...]

    @property
    def paths(self) -> list[str]:
        """Every path that it names, once, in the order of the patch."""
        moved = (section.move_to for section in self.sections if isinstance(section, Update) and section.move_to)
        return list(dict.fromkeys([*(section.path for section in self.sections), *moved]))

    def located(self, where: Callable[[str], str]) -> Patch:
        """The same patch with each of its paths as `where` says it."""
        return Patch(tuple(_located(section, where) for section in self.sections))


def _located(section: Section, where: Callable[[str], str]) -> Section:
    path = where(section.path)
    if isinstance(section, Update):
        return replace(section, path=path, move_to=section.move_to and where(section.move_to))
    return replace(section, path=path)
