"""The change of a session is offered in two editors, and one of them applies another part of it meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from acp_editor import git

from envelope.agents import AgentCard, WorkerCard
from envelope.messages import PatchRef
from orchestrator.acp.book import Book, Kept
from orchestrator.acp.change import Change, apply, change_of, require
from orchestrator.errors import BadInput

BUILDER = AgentCard(name="build", mode="primary", pool="build", auth_scope=("edit:**",))
NO_TREE = "0" * 40  # nobody looks at it here


@dataclass
class Told:
    """A session whose prompts change `a.txt`, one after the other."""

    stage: Any
    book: Book
    begun: Kept
    base: str

    @property
    def kept(self) -> Kept:
        return self.book.latest(self.begun)

    @property
    def text(self) -> str:
        return Path(self.begun.root, "a.txt").read_text()

    async def prompt(self, text: str) -> Change:
        """What is offered at its end, with `text` in the file."""
        diff = "".join(unified_diff(["one\n"], text.splitlines(keepends=True), "a/a.txt", "b/a.txt"))
        work = await self.stage.work(f"make it {text!r}")
        patch = PatchRef(base=self.base, diff=await self.stage.transport.blobs.put(diff.encode()), tree=NO_TREE)
        await work.end(patch=patch)
        self.book.change(self.kept, lambda now: now.with_task(work.task_id, "it"))
        return require(await change_of(self.stage.muster, self.kept))

    async def apply(self, change: Change) -> None:
        await apply(self.stage.muster, change, self.book, self.kept)


@pytest_asyncio.fixture
async def told(memory_stage, tmp_path: Path) -> Told:
    await memory_stage.transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=(BUILDER,)), ttl_s=600)
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        git(root, *words)
    book = Book(tmp_path / "state")
    return Told(memory_stage, book, book.begin(str(root), str(root), "build"), git(root, "rev-parse", "HEAD"))


async def test_an_earlier_one_is_in_the_files_with_a_later_one(told: Told):
    earlier, later = await told.prompt("one\nmore\n"), await told.prompt("one\nmore\nmore\n")
    await told.apply(later)
    await told.apply(earlier)

    assert told.text == "one\nmore\nmore\n"
    assert told.kept.applied == later.whole


async def test_of_a_later_one_what_an_earlier_one_has_not_brought_is_applied_once(told: Told):
    earlier, later = await told.prompt("two\n"), await told.prompt("three\n")
    await told.apply(earlier)
    await told.apply(later)
    await told.apply(later)

    assert told.text == "three\n"


async def test_what_nobody_has_seen_is_not_applied(told: Told):
    earlier, later = await told.prompt("two\n"), await told.prompt("three\n")
    await told.prompt("four\n")
    await told.apply(earlier)
    with pytest.raises(BadInput, match="another change of this session was applied meanwhile"):
        await told.apply(later)

    assert told.text == "two\n"
