"""What is told of a commit without a sandbox is what the sandbox shows; and where that is not sure, it is not told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envelope.messages import TaskInput, TaskProgress, Workspace
from sandbox.base import Limits
from workers.agent.surroundings import MAX_TREE_ENTRIES, git_of, tree_of
from workers.project.committed import CommittedFiles, Unclear, committed_files
from workers.project.instructions import Guidance, find_instructions
from workers.project.skills import find_skills
from workers.sandboxes.workspace import Prepared, Workspaces

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SKILL = "---\nname: {0}\ndescription: How to {0}.\n---\nAlways {0} twice.\n"
ODD = {
    ".gitignore": "build/\n*.log\n",
    "src/.gitignore": "made.py\n",
    "src/made.py": "tracked, and ignored all the same\n",
    "src/deep/build/out.txt": "so is this\n",
    "a b/ü\nsecond line.txt": "",
    "notes.log": "",
    ".hidden/x.py": "",
    "AGENTS.md": "Of the root.\n",
    "src/AGENTS.md": "Of the source.\n" * 4000,
    ".claude/skills/sing/SKILL.md": SKILL.format("sing"),
    ".claude/skills/bad/SKILL.md": "no front matter",
    ".muster/skills/deep/er/dance/SKILL.md": SKILL.format("dance"),
    ".muster/skills/dance/other.md": "",
    "src/a\tb/c.txt": "",
    **{f"many/f{number:03}/x.txt": "" for number in range(MAX_TREE_ENTRIES)},
}


@pytest.fixture
def prepare(driver, transport, image, tmp_path):
    """`await prepare(workspace)`: ready to be opened on this machine."""
    workspaces = Workspaces(driver, transport.blobs, tmp_path / "cache", image)

    async def prepared(workspace: Workspace) -> Prepared:
        return await workspaces.prepare(workspace, read_only=False, limits=Limits(), labels={})

    return prepared


async def files_of(prepared: Prepared) -> CommittedFiles | None:
    assert prepared.spec.git_dir and prepared.spec.checkout
    return await committed_files(prepared.spec.git_dir, prepared.spec.checkout, prepared.spec.base)


@pytest.mark.parametrize("folder", ["/workspace", "/workspace/src", "/workspace/many"])
async def test_a_commit_tells_what_its_sandbox_shows(prepare, pack, repository, driver, folder: str):
    (repository / os.fsdecode(b"caf\xe9.txt")).write_text("no UTF-8")
    (repository / "link.py").symlink_to("src/greet.py")
    prepared = await prepare(await pack(ODD))
    committed = await files_of(prepared)
    assert committed is not None

    told = (
        await committed.tree_and_git(folder),
        await find_instructions(committed, Guidance(), directory=folder),
        await find_skills(committed, None),
    )

    async with await driver.open(prepared.spec) as sandbox:
        shown = (
            (await tree_of(sandbox, folder), await git_of(sandbox)),
            await find_instructions(sandbox, Guidance(), directory=folder),
            await find_skills(sandbox, None),
        )
    assert told == shown
    assert [skill.name for skill in told[2].found] == ["dance", "sing"] and told[2].warnings
    assert told[1].files and told[0][0].paths


def link(repository: Path, at: str, to: str) -> None:
    (repository / at).parent.mkdir(parents=True, exist_ok=True)
    (repository / at).symlink_to(to)


@pytest.mark.parametrize(
    ("at", "to"), [("AGENTS.md", "docs/guide.md"), ("AGENTS.md", "/etc/hostname"), (".claude/skills", "../docs")]
)
async def test_where_a_link_leads_only_the_sandbox_tells(prepare, pack, repository, at: str, to: str):
    link(repository, at, to)
    committed = await files_of(await prepare(await pack({"docs/guide.md": "Use tabs."})))
    assert committed is not None

    with pytest.raises(Unclear):
        await find_instructions(committed, Guidance())
        await find_skills(committed, None)


async def test_folders_that_are_not_there_and_other_patterns_are_left_to_the_sandbox(prepare, workspace):
    committed = await files_of(await prepare(workspace))
    assert committed is not None

    for asked in (
        committed.tree_and_git("/workspace/gone"),
        committed.read("/etc/hostname", max_bytes=10),
        find_instructions(committed, Guidance(instructions=("docs/**/*.md",))),
    ):
        with pytest.raises(Unclear):
            await asked


async def test_ignore_files_that_git_does_not_know_are_left_to_the_sandbox(prepare, pack):
    assert await files_of(await prepare(await pack({"src/.ignore": "greet.py\n"}))) is None


@pytest.mark.parametrize(("files", "opened"), [({"AGENTS.md": "Use tabs."}, 0), ({".ignore": "src\n"}, 1)])
async def test_a_first_request_waits_for_a_sandbox_only_where_there_is_need(
    start_agents, pack, containers_of_task, files: dict[str, str], opened: int
):
    hands, _ = await start_agents("rules: [{fault: {stall_s: 600}}]")
    request = hands.request(agent="build", input=TaskInput(prompt="Look."), workspace=await pack(files))
    await hands.transport.submit([request])

    def began(progress: TaskProgress) -> bool:
        return any(event.kind == "turn_started" for event in progress.events)

    await hands.until(request.trace_id, began)

    assert len(containers_of_task(request.task_id)) == opened
    await hands.transport.cancel(request.task_id, by="test", reason="seen")
    assert (await hands.ended(request.task_id)).status == "cancelled"
