"""Codemods that need not be spelt out: what a step says in a word or two, and the command that it is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .part import Part, Text

LIBCST = ("python3", "-m", "libcst.tool", "codemod")
PLACE = "{path}"  # filled in, quoted, for each shard
FOR_ANY_PYTHON = "E7,W"  # of ruff's rules those whose safe fixes make a file no newer
TARGET_VERSION = "target_version"  # the place of the oldest Python that the shard's package supports


class AstGrep(Part):
    """`rewrite` for each place that `pattern` matches; both as ast-grep writes them, with `$NAME` for parts."""

    pattern: Text
    rewrite: str
    lang: Text


@dataclass(frozen=True, slots=True)
class Shorthand:
    """`install`: what makes the program available where the image has none; empty: it is a part of every image.

    `places`: options that are filled in for each shard.
    """

    words: Callable[[Any], tuple[str, ...]]
    ok_exit_codes: tuple[int, ...] = (0,)
    install: str = ""
    places: str = ""

    def command(self, value: Any) -> str:
        words = self.words(value)
        return f"{_found_or_said(words[0], self.install)}{shlex.join(words)}{self.places} {PLACE}"


SHORTHANDS: Mapping[str, Shorthand] = {
    # 1: some findings have no safe fix. What the project configures for its own checks is no part of a codemod; which
    # Pythons it supports is, and `--isolated` would forget it.
    "ruff": Shorthand(
        lambda rules: ("ruff", "check", "--isolated", "--quiet", "--fix", "--select", rules),
        ok_exit_codes=(0, 1),
        install="pip install ruff",
        places=f" --target-version {{{TARGET_VERSION}}}",
    ),
    # One process: shards run side by side already. Unformatted: a formatter would change lines that nobody asked for.
    "libcst": Shorthand(
        lambda codemod: (*LIBCST, "--no-format", "--hide-progress", "--jobs=1", *shlex.split(codemod)),
    ),
    "ast_grep": Shorthand(
        lambda one: ("ast-grep", "run", "-p", one.pattern, "-r", one.rewrite, "-l", one.lang, "--update-all"),
        ok_exit_codes=(0, 1),  # 1: the pattern is nowhere in this shard
        install="pip install ast-grep-cli",
    ),
}


def _found_or_said(program: str, install: str) -> str:
    if not install:
        return ""
    said = f'the sandbox image has no {program}; add to the batch file: [setup] commands = ["{install}"]'
    return f"command -v {program} >/dev/null || {{ echo {shlex.quote(said)} >&2; exit 127; }}; "
