"""What the runbooks tell people to type exists: at a bad hour nobody wants to find out that it does not.

(`muster …` with its options, files and links are held by tests/test_docs.py, queries by test_dashboards.py.)
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RUNBOOKS = Path(__file__).parent.parent.parent / "docs" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("Muster*.md"))
READER = (RUNBOOKS.parent.parent / "helm" / "muster" / "files" / "users.acl").read_text().partition("-reader")[2]


def blocks(page: Path, language: str) -> list[str]:
    code = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in code for line in block.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_says_how_to_look(page: Path):
    assert blocks(page, "promql") and blocks(page, "sh")


def test_whoever_looks_may_do_so():
    """`look` is the reader: what the pages have it do is among that user's rights."""
    used = {words for page in PAGES for words in re.findall(r"^look (\w+)|`look (\w+)", page.read_text(), re.MULTILINE)}
    allowed = {word.partition("|")[0] for word in re.findall(r"\+([\w|]+)", READER)}
    assert used
    assert {word for pair in used for word in pair if word} <= allowed


def test_settings_that_pages_name_exist():
    """A misspelt variable would be ignored in silence."""
    from orchestrator.settings import Settings
    from workers.settings import WorkerSettings

    known = {f"MUSTER_{name}".upper() for name in (*Settings.model_fields, *WorkerSettings.model_fields)}
    named = {name for page in PAGES for name in re.findall(r"`(MUSTER_[A-Z_]+)`", page.read_text())}
    assert named - known == set()
