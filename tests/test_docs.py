"""What the documents name exists: files, `make` targets, `muster` commands with their options, and links."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from transport.keys import BLOBS, CONTROL, REGISTRY
from transport.limits import Limits

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHIPPED = ("envelope", "repo", "sandbox", "transport", "workers", "orchestrator", "muster")
FOLDERS = ("examples", "docs", "helm", "requirements", "scripts", "benchmarks", "tests")

names = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page: Path):
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_files_named_in_backquotes_exist(page: Path):
    quoted = re.findall(r"`((?:" + "|".join((*SHIPPED, *FOLDERS)) + r")/[\w./*-]*)`", page.read_text())
    assert [name for name in quoted if not any(ROOT.glob(name.rstrip("/")))] == []


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_make_targets_exist(page: Path):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", page.read_text(), re.MULTILINE))
    assert {word for pair in named for word in pair if word} <= targets


def commands_in(text: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Each `muster …` in code: its command words and its long options."""
    code = [*re.findall(r"`(muster [^`]+)`", text), *re.findall(r"^(muster .+?)(?:\s+#.*)?$", text, re.MULTILINE)]
    for line in code:
        words = line.replace("|", " ").split()[1:]
        path = tuple(word for word in words[:2] if re.fullmatch(r"[a-z]+", word))
        yield path, tuple(re.findall(r"(?<!\S)--[a-z-]+", line))


@pytest.mark.parametrize(
    ("path", "options"), sorted({found for page in PAGES for found in commands_in(page.read_text())})
)
def test_commands_and_options_exist(path: tuple[str, ...], options: tuple[str, ...]):
    code, shown = help_of(path)
    if code != 0 and len(path) == 2:
        code, shown = help_of(path[:1])  # the second word was an argument
    assert code == 0
    assert [option for option in options if option not in shown] == []


@functools.cache
def help_of(words: tuple[str, ...]) -> tuple[int, str]:
    """The exit code and the text of the command's `--help`; tests/orchestrator/cli runs it as a process."""
    told = io.StringIO()
    with redirect_stdout(told):
        code = run([*words, "--help"], verbose=False)
    return code, told.getvalue()


def test_every_page_is_listed():
    docs = ROOT / "docs"
    linked = {(docs / target).resolve() for target in re.findall(r"\]\(([^)#:]+)", (docs / "README.md").read_text())}
    with_lists_of_their_own = (docs / "decisions", docs / "runbooks")
    pages = {page for page in docs.rglob("*.md") if page.parent not in with_lists_of_their_own} - {docs / "README.md"}
    assert pages - linked == set()


def test_every_decision_is_listed():
    pages = {page.name for page in (ROOT / "docs" / "decisions").glob("0*.md")}
    assert pages == set(re.findall(r"\]\((0[^)]+)\)", (ROOT / "docs" / "decisions" / "README.md").read_text()))


PROTOCOL = ROOT / "docs" / "protocol.md"
SCRIPTS = ROOT / "transport" / "redis" / "scripts"


def keys_table() -> list[str]:
    rows = [
        f"| `{key.pattern}` | {key.type} | {key.owner} | {key.lifetime} | {key.holds} |"
        for key in (*CONTROL, *BLOBS, REGISTRY)
    ]
    return ["| name | type | made by | lives | holds |", "| --- | --- | --- | --- | --- |", *rows]


def limits_table() -> list[str]:
    values = {field.name: getattr(Limits(), field.name) for field in fields(Limits)}
    values["expiry_grace_ms"] = Limits().expiry_grace_ms
    return ["| limit | default |", "| --- | --- |", *(f"| `{name}` | {value:,} |" for name, value in values.items())]


TABLES = {"keys": keys_table, "limits": limits_table}


def generated(text: str, name: str) -> tuple[int, int]:
    """Where the generated table of this name stands in the page, between its two marks."""
    start = text.index("\n", text.index(f"<!-- {name}: ")) + 1
    return start, text.index("<!-- end -->", start)


@pytest.mark.parametrize("name", TABLES)
def test_the_protocols_tables_are_those_of_the_code(name: str):
    text = PROTOCOL.read_text()
    start, end = generated(text, name)
    assert text[start:end].splitlines() == TABLES[name](), "write it anew: python tests/test_docs.py"


def test_the_protocol_tells_what_each_script_does():
    told = re.findall(r"^\| `(\w+\.lua)` \| .+ \|$", PROTOCOL.read_text(), re.MULTILINE)
    assert sorted(told) == sorted(path.name for path in SCRIPTS.glob("*.lua"))


def test_the_reasons_that_the_protocol_tells_are_those_of_the_scripts():
    scripts = "".join(path.read_text() for path in SCRIPTS.glob("*.lua"))
    life = PROTOCOL.read_text().partition("## The life of a task")[2].partition("\n## ")[0]
    told = re.findall(r"\| `([^`]+)` \|$", life, re.MULTILINE)
    assert len(told) > 4
    assert [reason for reason in told if not reason.startswith("waits for") and f"'{reason}'" not in scripts] == []


if __name__ == "__main__":
    page = PROTOCOL.read_text()
    for table, rendered in TABLES.items():
        first, last = generated(page, table)
        page = page[:first] + "\n".join([*rendered(), ""]) + page[last:]
    PROTOCOL.write_text(page)
