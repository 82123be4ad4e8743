"""What each command says of itself, kept as text: a change of it is seen by whoever reviews.

Write the texts anew, and look at the difference: `python tests/orchestrator/cli/test_cli_help_texts.py`.
"""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer

from orchestrator.cli.commands import COMMANDS, PLUGINS, build_app
from orchestrator.cli.main import run

FOLDER = Path(__file__).parent / "help"
GROUPS = sorted({*COMMANDS, *(point.name for point in entry_points(group=PLUGINS))})
WIDTH = "80"


def commands_of(group: str) -> Iterator[tuple[str, ...]]:
    """The group itself, and each command in it."""
    yield (group,)
    app = typer.main.get_command(build_app([group, "x"]))
    yield from ((group, name) for name in sorted(getattr(app.commands[group], "commands", {})))  # pyright: ignore


def help_of(words: tuple[str, ...]) -> str:
    told = io.StringIO()
    with redirect_stdout(told):
        assert run([*words, "--help"], verbose=True) == 0
    return told.getvalue()


def texts_of(group: str) -> str:
    return "\n".join(f"$ muster {' '.join(words)} --help\n{help_of(words)}" for words in commands_of(group))


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_is_as_it_was(group: str, monkeypatch):
    monkeypatch.setenv("COLUMNS", WIDTH)
    assert texts_of(group) == (FOLDER / f"{group}.txt").read_text(), f"if it is meant so: python {Path(__file__).name}"


@pytest.mark.parametrize("example", [example for command in COMMANDS.values() for example in command.examples])
def test_an_example_is_a_command_line_that_is_understood(example: str):
    """Its words and options; what it would do is not done."""
    _, *words = shlex.split(example)
    assert help_of(tuple(words)).startswith("Usage: muster")


def test_no_text_is_kept_of_a_command_that_is_gone():
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == GROUPS


if __name__ == "__main__":
    os.environ["COLUMNS"] = WIDTH
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name in GROUPS:
        (FOLDER / f"{name}.txt").write_text(texts_of(name))
