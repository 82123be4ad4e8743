"""The `muster.toml` that `muster init` writes: what was guessed, why, and what else could stand there. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from .files import INSTRUCTIONS, ProjectFiles
from .guess import Guess

NAME = "muster.toml"


def text_of(guessed: Guess, files: ProjectFiles) -> str:
    """Comments and all; what nobody could guess stands as a comment to be filled in."""
    return "\n".join([*_lines(guessed, files), ""])


def _lines(guessed: Guess, files: ProjectFiles) -> Iterator[str]:
    yield "# What `muster run` and `muster fanout` do here, where their command line does not say otherwise."
    yield "# It counts once it is committed, and trusted: muster trust"
    yield ""
    yield "# Makes the project's dependencies available: run once per commit, and cached, in a sandbox that reaches the"
    yield f"# package index and nothing else.{_from(guessed.why_setup)}"
    yield _value("setup", guessed.setup, 'pip install -e ".[test]"')
    yield ""
    yield f"# The project's own tests: they alone prove a change.{_from(guessed.why_gate)}"
    if guessed.needs:
        yield f"# The sandbox image must have `{guessed.needs}`; name another image with MUSTER_IMAGE."
    yield _value("gate", guessed.gate, "python -m pytest -q")
    yield "# What it must not lose, such as coverage; docs/gate.md has all of them."
    yield '# gate_rules = { min_coverage = "base" }'
    yield ""
    known = f" The repository's own: {', '.join(files.agents)}." if files.agents else ""
    yield f"# Who does a goal that names nobody.{plain(known)}"
    yield '# agent = "build"'
    yield ""
    if told := files.first(*INSTRUCTIONS):
        yield f"# Every agent reads {told} of its own accord."
        yield ""
    yield "# What a goal may cost in dollars, how long it may take, and who answers."
    yield "# budget = 2.50"
    yield '# deadline = "30m"'
    yield '# model = "openai/gpt-5"'


def _from(why: str) -> str:
    return f" Guessed: {plain(why)}." if why else ""


def _value(name: str, commands: Sequence[str], example: str) -> str:
    """JSON's texts are TOML's, too."""
    shown = ", ".join(json.dumps(command, ensure_ascii=False) for command in commands or (example,))
    return f"{'' if commands else '# '}{name} = [{shown}]"


def plain(text: str) -> str:
    """A comment ends with its line, whatever a file is called."""
    return "".join(char if char.isprintable() else "?" for char in text)
