"""What a workspace is made into so that the host, which reads it for a patch, reads or runs something else."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repo.errors import PatchRefused
from repo.patch import apply_to_tree
from sandbox.base import MIB, Command, Limits
from sandbox.contract import make_project

pytestmark = pytest.mark.docker

SPOILT = """
cd /workspace
ln -s {secret} stolen; ln -s {secret} src/stolen; ln -s / root
ln {secret} hard 2>/dev/null; ln /etc/hostname hard-etc 2>/dev/null
rm -rf tests; ln -s {folder} tests
mkdir closed; echo kept > closed/file; chmod 000 closed/file closed
echo mine > unreadable; chmod 000 unreadable
cp /bin/true setuid; chmod 6755 setuid
mkfifo src/.gitignore; mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
for each in core.fsmonitor core.sshCommand core.pager core.editor core.hooksPath core.gitProxy diff.external \
    diff.evil.textconv diff.evil.command filter.evil.clean filter.evil.smudge filter.evil.process merge.evil.driver \
    uploadpack.packObjectsHook core.alternateRefsCommand alias.diff gpg.program credential.helper; do
  git config $each 'touch {marker}; cat'
done
git config core.worktree {folder}; git config include.path {secret}; git config core.attributesFile {secret}
printf '* filter=evil diff=evil merge=evil\\n' > .gitattributes; printf '* filter=evil\\n' > .git/info/attributes
printf '{secret}\\n' > .git/objects/info/alternates
mkdir -p .git/hooks
for hook in pre-commit post-index-change post-checkout reference-transaction fsmonitor-watchman pre-applypatch; do
  printf '#!/bin/sh\\ntouch {marker}\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook
done
printf '[submodule "evil"]\\n\\tpath = evil\\n\\turl = ext::touch {marker}\\n\
\\tupdate = !touch {marker}\\n' > .gitmodules
mkdir -p nested/.git; echo inside > nested/file
"""


async def test_a_spoilt_workspace_gives_an_honest_patch(place: Any, tmp_path: Path):
    driver, image = place
    secret, marker = tmp_path / "secret", tmp_path / "marker"
    word = uuid.uuid4().hex
    secret.write_text(word)
    project = await make_project(tmp_path, image)
    assert project.git_dir is not None
    script = SPOILT.format(secret=secret, marker=marker, folder=tmp_path)
    async with await driver.open(project) as sandbox:
        await sandbox.exec(Command(script))
        patches = [await sandbox.snapshot(), await sandbox.patch(lambda _: True)]

    for patch in patches:
        changed = {change.path: change.status for change in patch.files}
        assert changed["stolen"] == changed["root"] == changed["closed/file"] == changed["unreadable"] == "A"
        assert changed["tests/test_app.py"] == "D"
        assert not {"hard", "hard-etc", "pipe", "socket"} & set(changed)
        assert "nested/file" in changed or any("nested" in warning for warning in patch.warnings)
        assert word.encode() not in patch.diff
        assert not any(path.startswith((".git/", "tests/secret")) for path in changed)
        assert any("stolen" in warning for warning in patch.warnings)
        assert await apply_to_tree(project.git_dir, project.base, patch.diff) == patch.tree
    assert not marker.exists()
    assert secret.read_text() == word


async def test_a_patch_writes_nowhere_but_into_the_workspace(place: Any, tmp_path: Path):
    """By name, or through a link that an earlier hunk or command has made."""
    driver, image = place
    new = "new file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n"
    link = "diff --git a/out b/out\n" + new.format(mode=120000, path="out", text=tmp_path)
    links = link + "\\ No newline at end of file\n"
    attacks = [
        f"diff --git a/{path} b/{path}\n" + new.format(mode=100644, path=path, text="x")
        for path in ("../owned", "a/../../owned", str(tmp_path / "owned"), ".git/hooks/pre-commit", "out/owned")
    ]
    async with await driver.open(await make_project(tmp_path, image)) as sandbox:
        await sandbox.exec(Command(["ln", "-s", str(tmp_path), "out"]))
        for attack in attacks:
            with pytest.raises(PatchRefused):
                await sandbox.apply(attack.encode())
        await sandbox.exec(Command("rm out"))
        with pytest.raises(PatchRefused):
            await sandbox.apply((links + attacks[-1]).encode())

        assert (await sandbox.snapshot()).empty
    assert not list(tmp_path.rglob("owned"))


async def test_a_file_larger_than_its_disk_is_left_out_and_said(place: Any, tmp_path: Path):
    """Sparse: it takes nothing from the disk, and would fill the host's if it were copied."""
    driver, image = place
    project = await make_project(tmp_path, image)
    async with await driver.open(project) as sandbox:
        await sandbox.exec(Command("truncate -s 200G huge; echo small > small"))
        async with asyncio.timeout(30):
            patch = await sandbox.patch(lambda _: True)

    assert [change.path for change in patch.files] == ["small"]
    assert any("huge" in warning for warning in patch.warnings)


async def test_a_full_workspace_still_gives_its_patch(place: Any, tmp_path: Path):
    driver, image = place
    project = await make_project(tmp_path, image)
    small = Limits(workspace_bytes=16 * MIB, workspace_inodes=256)
    async with await driver.open(replace(project, limits=small)) as sandbox:
        full = await sandbox.exec(Command("echo first > first; cat /dev/zero > noise.log"))
        patch = await sandbox.patch(lambda _: True)

    assert b"No space left" in full.output
    assert [change.path for change in patch.files] == ["first"]
