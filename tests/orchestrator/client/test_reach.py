"""docs/orchestrator/reach.md names what there is: each command, method and route, and none is left out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import muster
from orchestrator.api.app import create_app
from orchestrator.batch.client import Batches
from orchestrator.cli.commands import COMMANDS
from orchestrator.cli.main import run
from orchestrator.client import Muster
from orchestrator.evaluation.client import Evals
from orchestrator.publication.client import Publications, Published

PAGE = (Path(__file__).parents[3] / "docs" / "orchestrator" / "reach.md").read_text()


def methods_of(kind: type, prefix: str = "") -> set[str]:
    return {f"{prefix}{name}" for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


METHODS = {
    *methods_of(Muster),
    *methods_of(Batches, "batches."),
    *methods_of(Evals, "evals."),
    *methods_of(Publications, "publications."),
    *methods_of(Published, "published."),
}
OTHERS = {"transport.audit", "shards.failures_of", "publications.published"}  # no methods of these
PREFIX = "/v1"


def cells(column: int) -> Iterator[str]:
    """What stands in backquotes in a column of any table; 1 is the command line's."""
    for line in PAGE.splitlines():
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(row) > column and not row[0].startswith(("to", "---")):
            yield from re.findall(r"`([^`]+)`", row[column])


@pytest.mark.parametrize("line", sorted(set(cells(1))))
def test_each_command_is_there_with_its_options(line: str):
    words = line.split()
    told = StringIO()
    with redirect_stdout(told):
        code = run([*(word for word in words if not word.startswith("-")), "--help"], verbose=False)

    assert code == 0
    assert [word for word in words if word.startswith("-") and word not in told.getvalue()] == []


def test_every_command_and_group_is_named():
    assert set(COMMANDS) - {line.split()[0] for line in cells(1)} == set()


def test_each_method_is_there_and_every_one_is_named():
    named = {name for name in cells(2) if re.fullmatch(r"[\w.]+", name)}
    assert [name for name in named if name not in METHODS | OTHERS and not hasattr(muster, name)] == []
    assert METHODS - named == set()


def test_each_route_is_there_and_every_one_is_named(memory_stage):
    described = create_app(memory_stage.muster).openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    named = {route.replace(" ", f" {PREFIX}", 1) for route in cells(3) if re.match(r"[A-Z]+ /", route)}
    assert (named - routes, routes - named) == (set(), set())
