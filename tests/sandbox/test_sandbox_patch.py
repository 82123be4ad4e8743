"""From a workspace to a patch and back."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from repo.errors import PatchRefused
from repo.patch import apply_to_tree
from sandbox.base import Command, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.errors import SandboxError, SandboxLost

pytestmark = pytest.mark.docker


def anything(path: str) -> bool:
    return True


async def edit(driver: DockerDriver, project: SandboxSpec, line: str) -> bytes:
    async with await driver.open(project) as sandbox:
        result = await sandbox.exec(Command(line))
        assert result.exit_code == 0, result.output
        return (await sandbox.patch(anything)).diff


async def test_a_patch_says_what_changed_and_applies_to_the_base(driver: DockerDriver, project: SandboxSpec):
    async with await driver.open(project) as sandbox:
        await sandbox.exec(Command("sed -i s/41/42/ src/app.py; git mv src/other.py src/moved.py; echo x > noise.log"))
        await sandbox.write("/workspace/data.bin", bytes(range(256)))
        patch = await sandbox.patch(anything)

    assert {(change.status, change.path) for change in patch.files} == {
        ("M", "src/app.py"),
        ("R", "src/moved.py"),
        ("A", "data.bin"),
    }
    assert project.git_dir is not None
    assert await apply_to_tree(project.git_dir, project.base, patch.diff) == patch.tree


async def test_an_untouched_workspace_gives_an_empty_patch(driver: DockerDriver, project: SandboxSpec):
    async with await driver.open(project) as sandbox:
        assert (await sandbox.exec(Command("git status --porcelain"))).output == b""
        assert (await sandbox.patch(anything)).empty


async def test_paths_outside_the_grant_are_refused_and_named(driver: DockerDriver, project: SandboxSpec):
    async with await driver.open(project) as sandbox:
        await sandbox.exec(Command("echo '# more' >> src/app.py; echo '# more' >> README.md"))
        patch = await sandbox.patch(lambda path: path.startswith("src/"))

    assert [change.path for change in patch.files] == ["src/app.py"]
    assert patch.refused == ("README.md",)


async def test_a_patch_is_taken_after_everything_has_stopped(driver: DockerDriver, project: SandboxSpec):
    async with await driver.open(project) as sandbox:
        await sandbox.exec(Command("setsid sh -c 'while :; do date +%N > busy; done' & echo"))
        await sandbox.patch(anything)
        assert (await sandbox.exec(Command("pgrep -c date; pgrep -cf bus[y]"))).output == b"0\n0\n"


async def test_a_snapshot_lets_work_go_on(driver: DockerDriver, project: SandboxSpec):
    async with await driver.open(project) as sandbox:
        working = asyncio.create_task(sandbox.exec(Command("until [ -e go ]; do sleep 0.01; done; echo done")))
        await sandbox.write("/workspace/first", b"1")
        first = await sandbox.snapshot()
        await sandbox.write("/workspace/go", b"")
        assert (await working).output == b"done\n"
        second = await sandbox.snapshot()

    assert [change.path for change in first.files] == ["first"]
    assert [change.path for change in second.files] == ["first", "go"]


@pytest.mark.parametrize(
    "change", ["echo 2 > first", "echo x > src/second", "rm README.md", "chmod +x first", "mv first third"]
)
async def test_a_snapshot_that_was_kept_is_taken_anew_after_any_change(
    driver: DockerDriver, project: SandboxSpec, change: str
):
    async with await driver.open(project) as sandbox:
        await sandbox.exec(Command("echo 1 > first; touch -d '2 days ago' first"))
        first = await sandbox.snapshot()
        kept = await sandbox.snapshot()
        await sandbox.exec(Command(f"{change}; touch -d '2 days ago' first src/second third 2>/dev/null"))
        second, whole = await sandbox.snapshot(), await sandbox.patch(anything)

    assert kept.diff == first.diff
    assert second.diff == whole.diff != first.diff


async def test_nothing_of_the_workspace_runs_on_the_host(driver: DockerDriver, project: SandboxSpec, tmp_path: Path):
    marker = tmp_path / "marker"
    hostile = f"""
        git config core.fsmonitor 'touch {marker}; true'
        git config filter.evil.clean 'touch {marker}; cat'
        git config diff.external 'touch {marker}; true'
        echo '* filter=evil diff=evil' > .gitattributes
        mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch {marker}\\n' > .git/hooks/post-index-change
        chmod +x .git/hooks/post-index-change; echo changed >> README.md
    """
    assert b"changed" in await edit(driver, project, hostile)
    assert not marker.exists()


async def test_two_sandboxes_of_one_checkout_do_not_see_each_other(driver: DockerDriver, project: SandboxSpec):
    first, second = await asyncio.gather(driver.open(project), driver.open(project))
    async with first, second:
        await first.exec(Command("echo '# in place' >> src/app.py; rm README.md"))

        assert (await second.exec(Command("grep -c place src/app.py; ls README.md"))).output == b"0\nREADME.md\n"
        assert (await second.patch(anything)).empty


async def test_a_patch_of_one_sandbox_applies_in_another(driver: DockerDriver, project: SandboxSpec):
    diff = await edit(driver, project, "sed -i s/41/42/ src/app.py; printf '\\000\\001' > data.bin; chmod +x README.md")
    async with await driver.open(project) as sandbox:
        await sandbox.apply(diff)
        assert b"42" in await sandbox.read("/workspace/src/app.py")
        assert (await sandbox.patch(anything)).diff == diff


@pytest.mark.parametrize("read_only", [False, True])
async def test_what_is_applied_as_base_is_not_in_the_patch(driver: DockerDriver, project: SandboxSpec, read_only: bool):
    given = await edit(driver, project, "sed -i s/41/42/ src/app.py; echo new > new.txt")
    async with await driver.open(replace(project, read_only=read_only)) as sandbox:
        await sandbox.apply(given, as_base=True)
        assert await sandbox.read("/workspace/new.txt") == b"new\n"
        assert (await sandbox.snapshot()).empty
        await sandbox.exec(Command("echo more >> new.txt"))
        patch = await sandbox.patch(anything)

    assert [change.path for change in patch.files] == ([] if read_only else ["new.txt"])


async def test_a_patch_that_does_not_fit_changes_nothing(driver: DockerDriver, project: SandboxSpec):
    diff = await edit(driver, project, "sed -i s/41/42/ src/app.py; echo new > new.txt")
    async with await driver.open(project) as sandbox:
        await sandbox.exec(Command("echo 'other text' > src/app.py"))
        with pytest.raises(PatchRefused, match=r"src/app\.py"):
            await sandbox.apply(diff)
        assert [change.path for change in (await sandbox.patch(anything)).files] == ["src/app.py"]


async def test_a_sandbox_that_is_gone_gives_no_patch(driver: DockerDriver, project: SandboxSpec):
    """Its workspace is not mounted any more: every file would read as deleted."""
    async with await driver.open(project) as sandbox:
        await asyncio.to_thread(subprocess.check_call, ["docker", "rm", "-f", sandbox.id], stdout=subprocess.DEVNULL)
        with pytest.raises(SandboxLost):
            await sandbox.snapshot()
        with pytest.raises(SandboxLost):
            await sandbox.patch(anything)


SWAP = """
import os
while True:
    os.symlink("/etc/hostname", "next"); os.replace("next", "swapped")
    open("next", "w").write("mine"); os.replace("next", "swapped")
"""


async def test_a_snapshot_never_reads_a_file_of_the_host(driver: DockerDriver, project: SandboxSpec, tmp_path: Path):
    """Files that turn into links while git looks: the sandbox is frozen, so each is either a file or a link."""
    hosts_own = b"canary-91c4"
    (tmp_path / "canary").write_bytes(hosts_own)
    async with await driver.open(project) as sandbox:
        await sandbox.write("/workspace/swap.py", SWAP.replace("/etc/hostname", str(tmp_path / "canary")).encode())
        await sandbox.exec(Command("/usr/bin/python3 swap.py > /dev/null 2>&1 & until [ -e swapped ]; do :; done"))
        for _ in range(5):
            assert hosts_own not in (await sandbox.snapshot()).diff
            assert (await sandbox.exec(Command("pgrep -fc swap[.]py"))).output == b"1\n"


async def test_without_a_base_there_is_no_patch(driver: DockerDriver, image: str):
    async with await driver.open(SandboxSpec(image)) as sandbox:
        with pytest.raises(SandboxError, match="without a git directory"):
            await sandbox.snapshot()


async def test_the_projects_own_tests_run_inside(driver: DockerDriver, project: SandboxSpec):
    async with await driver.open(project) as sandbox:
        result = await sandbox.exec(Command("python -m pytest -q"))

        assert result.exit_code == 0, result.output
        assert b"1 passed" in result.output
        assert (await sandbox.patch(anything)).empty  # what the tests leave is ignored by the project's own rules
