"""From a workspace to a patch and back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from repo.errors import PatchRefused
from repo.patch import apply_to_tree

from ..base import Command, Sandbox, SandboxSpec
from ..errors import SandboxError, SandboxLost
from .stage import Stage, raises

SWAP = """
import os
while True:
    os.symlink("CANARY", "next"); os.replace("next", "swapped")
    open("next", "w").write("mine"); os.replace("next", "swapped")
"""


def _anything(_path: str) -> bool:
    return True


async def _edit(stage: Stage, line: str) -> bytes:
    sandbox = await stage.open(await stage.project())
    result = await sandbox.exec(Command(line))
    assert result.exit_code == 0, result.output
    return (await sandbox.patch(_anything)).diff


async def _say(sandbox: Sandbox, line: str) -> bytes:
    return (await sandbox.exec(Command(line))).output


async def a_patch_says_what_changed_and_applies_to_the_base(stage: Stage) -> None:
    project = await stage.project()
    sandbox = await stage.open(project)
    await _say(sandbox, "sed -i s/41/42/ src/app.py; git mv src/other.py src/moved.py; echo x > noise.log")
    await sandbox.write("/workspace/data.bin", bytes(range(256)))
    patch = await sandbox.patch(_anything)

    changes = {(change.status, change.path) for change in patch.files}
    assert changes == {("M", "src/app.py"), ("R", "src/moved.py"), ("A", "data.bin")}
    assert project.git_dir is not None
    assert await apply_to_tree(project.git_dir, project.base, patch.diff) == patch.tree


async def an_untouched_workspace_gives_an_empty_patch(stage: Stage) -> None:
    sandbox = await stage.open(await stage.project())

    assert await _say(sandbox, "git status --porcelain") == b""
    assert (await sandbox.patch(_anything)).empty


async def paths_outside_the_grant_are_refused_and_named(stage: Stage) -> None:
    sandbox = await stage.open(await stage.project())
    await _say(sandbox, "echo '# more' >> src/app.py; echo '# more' >> README.md")
    patch = await sandbox.patch(lambda path: path.startswith("src/"))

    assert [change.path for change in patch.files] == ["src/app.py"]
    assert patch.refused == ("README.md",)


async def a_patch_is_taken_after_everything_has_stopped(stage: Stage) -> None:
    sandbox = await stage.open(await stage.project())
    await _say(sandbox, "setsid sh -c 'while :; do date +%N > busy; done' & echo")
    await sandbox.patch(_anything)

    assert await _say(sandbox, "pgrep -c date; pgrep -cf bus[y]") == b"0\n0\n"


async def a_snapshot_lets_work_go_on(stage: Stage) -> None:
    sandbox = await stage.open(await stage.project())
    working = asyncio.create_task(_say(sandbox, "until [ -e go ]; do sleep 0.01; done; echo done"))
    await sandbox.write("/workspace/first", b"1")
    first = await sandbox.snapshot()
    await sandbox.write("/workspace/go", b"")
    assert await working == b"done\n"
    second = await sandbox.snapshot()

    assert [change.path for change in first.files] == ["first"]
    assert [change.path for change in second.files] == ["first", "go"]


async def a_snapshot_that_was_kept_is_taken_anew_after_any_change(stage: Stage) -> None:
    for change in ("echo 2 > first", "echo x > src/second", "rm README.md", "chmod +x first", "mv first third"):
        sandbox = await stage.open(await stage.project())
        await _say(sandbox, "echo 1 > first; touch -d '2 days ago' first")
        first = await sandbox.snapshot()
        kept = await sandbox.snapshot()
        await _say(sandbox, f"{change}; touch -d '2 days ago' first src/second third 2>/dev/null")
        second, whole = await sandbox.snapshot(), await sandbox.patch(_anything)

        assert kept.diff == first.diff, change
        assert second.diff == whole.diff != first.diff, change


async def nothing_of_the_workspace_runs_on_the_host(stage: Stage) -> None:
    marker = stage.folder / "marker"
    hostile = f"""
        git config core.fsmonitor 'touch {marker}; true'
        git config filter.evil.clean 'touch {marker}; cat'
        git config diff.external 'touch {marker}; true'
        echo '* filter=evil diff=evil' > .gitattributes
        mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch {marker}\\n' > .git/hooks/post-index-change
        chmod +x .git/hooks/post-index-change; echo changed >> README.md
    """
    assert b"changed" in await _edit(stage, hostile)
    assert not marker.exists()


async def two_sandboxes_of_one_checkout_do_not_see_each_other(stage: Stage) -> None:
    project = await stage.project()
    first, second = await asyncio.gather(stage.open(project), stage.open(project))
    await _say(first, "echo '# in place' >> src/app.py; rm README.md")

    assert await _say(second, "grep -c place src/app.py; ls README.md") == b"0\nREADME.md\n"
    assert (await second.patch(_anything)).empty


async def a_patch_of_one_sandbox_applies_in_another(stage: Stage) -> None:
    diff = await _edit(stage, "sed -i s/41/42/ src/app.py; printf '\\000\\001' > data.bin; chmod +x README.md")
    sandbox = await stage.open(await stage.project())
    await sandbox.apply(diff)

    assert b"42" in await sandbox.read("/workspace/src/app.py")
    assert (await sandbox.patch(_anything)).diff == diff


async def what_is_applied_as_base_is_not_in_the_patch(stage: Stage) -> None:
    given = await _edit(stage, "sed -i s/41/42/ src/app.py; echo new > new.txt")
    for read_only, changed in ((False, ["new.txt"]), (True, [])):
        sandbox = await stage.open(replace(await stage.project(), read_only=read_only))
        await sandbox.apply(given, as_base=True)
        assert await sandbox.read("/workspace/new.txt") == b"new\n"
        assert (await sandbox.snapshot()).empty
        await _say(sandbox, "echo more >> new.txt")
        assert [change.path for change in (await sandbox.patch(_anything)).files] == changed


async def a_patch_that_does_not_fit_changes_nothing(stage: Stage) -> None:
    diff = await _edit(stage, "sed -i s/41/42/ src/app.py; echo new > new.txt")
    sandbox = await stage.open(await stage.project())
    await _say(sandbox, "echo 'other text' > src/app.py")

    with raises(PatchRefused, "src/app.py"):
        await sandbox.apply(diff)
    assert [change.path for change in (await sandbox.patch(_anything)).files] == ["src/app.py"]


async def a_snapshot_never_reads_a_file_of_the_host(stage: Stage) -> None:
    """Files that turn into links while git looks: each must be either a file or a link."""
    canary = stage.folder / "canary"
    canary.write_bytes(b"canary-91c4")
    sandbox = await stage.open(await stage.project())
    await sandbox.write("/workspace/swap.py", SWAP.replace("CANARY", str(canary)).encode())
    await _say(sandbox, "/usr/bin/python3 swap.py > /dev/null 2>&1 & until [ -e swapped ]; do :; done")

    for _ in range(5):
        assert b"canary-91c4" not in (await sandbox.snapshot()).diff
        assert await _say(sandbox, "pgrep -fc swap[.]py") == b"1\n"


async def a_closed_sandbox_gives_no_patch(stage: Stage) -> None:
    """Its workspace is not there any more: every file would read as deleted."""
    sandbox = await stage.open(await stage.project())
    await sandbox.close()

    with raises(SandboxLost):
        await sandbox.snapshot()
    with raises(SandboxLost):
        await sandbox.patch(_anything)


async def without_a_base_there_is_no_patch(stage: Stage) -> None:
    with raises(SandboxError, "without a git directory"):
        await (await stage.open(SandboxSpec(stage.image))).snapshot()


async def the_projects_own_tests_run_inside(stage: Stage) -> None:
    sandbox = await stage.open(await stage.project())
    result = await sandbox.exec(Command("python -m pytest -q"))

    assert result.exit_code == 0, result.output
    assert b"1 passed" in result.output
    assert (await sandbox.patch(_anything)).empty  # what the tests leave is ignored by the project's own rules
