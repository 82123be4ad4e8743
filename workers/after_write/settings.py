"""Which programs look after written files; none unless the operator names some. They run in the task's sandbox."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Suffix = Annotated[str, StringConstraints(pattern=r"^\.[^/\s]+$")]


class Formatter(BaseModel):
    """`command` formats one file in place; `$FILE` in it is the file's path."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: tuple[str, ...] = Field(min_length=1)
    extensions: tuple[Suffix, ...] = Field(min_length=1)
    timeout_s: float = Field(default=10.0, gt=0, le=120)


class LanguageServer(BaseModel):
    """`command` speaks the Language Server Protocol on its standard input and output."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: tuple[str, ...] = Field(min_length=1)
    extensions: tuple[Suffix, ...] = Field(min_length=1)
    language_id: str
    wait_s: float = Field(default=5.0, gt=0, le=60)  # for what it finds in a file; the first answer may come too late


class AfterWrite(BaseModel):
    model_config = ConfigDict(frozen=True)

    formatters: dict[str, Formatter] = Field(default_factory=dict[str, Formatter])
    language_servers: dict[str, LanguageServer] = Field(default_factory=dict[str, LanguageServer])


Program = TypeVar("Program", Formatter, LanguageServer)


class Chosen(Generic[Program]):
    """Programs by the suffix of the files that they are for; the one named last in the settings wins."""

    def __init__(self, programs: Mapping[str, Program]) -> None:
        self._by_suffix = {
            suffix: (name, program) for name, program in programs.items() for suffix in program.extensions
        }

    def of(self, path: str) -> tuple[str, Program] | None:
        return self._by_suffix.get(posixpath.splitext(path)[1])
