"""Files: what the tool server reads, writes and finds without a command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from sandbox.base import MIB, ExecResult, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.errors import PathError, SandboxError
from sandbox.opened import OpenSandbox

pytestmark = pytest.mark.docker
Run = Callable[..., Awaitable[ExecResult]]


async def test_what_was_written_is_read_back(sandbox: OpenSandbox):
    content = os.urandom(3 * MIB + 17)
    await sandbox.write("/workspace/deep/er/file.bin", content)

    assert await sandbox.read("/workspace/deep/er/file.bin") == content
    assert (
        await sandbox.read("/workspace/deep/er/file.bin", offset_bytes=3 * MIB, max_bytes=5) == content[3 * MIB :][:5]
    )
    assert (await sandbox.stat("/workspace/deep/er/file.bin")).size_bytes == len(content)


async def test_a_write_keeps_the_mode_unless_told_otherwise(sandbox: OpenSandbox, run: Run):
    await run("printf '#!/bin/sh\\necho old' > tool; chmod 750 tool")
    await sandbox.write("/workspace/tool", b"#!/bin/sh\necho new")
    assert (await run("./tool")).output == b"new\n"
    assert (await sandbox.stat("/workspace/tool")).mode == 0o750

    await sandbox.write("/workspace/tool", b"plain", mode=0o600)
    assert (await sandbox.stat("/workspace/tool")).mode == 0o600


async def test_a_reader_never_sees_half_a_write(sandbox: OpenSandbox, run: Run):
    await sandbox.write("/workspace/f", b"a" * MIB)
    watch = "while [ ! -e stop ]; do sha256sum f; done | sort -u | wc -l; rm stop"
    watching = asyncio.ensure_future(run(watch, timeout_s=60))
    for letter in (b"b", b"a", b"b", b"a"):
        await sandbox.write("/workspace/f", letter * MIB)
    await sandbox.write("/workspace/stop", b"")

    assert int((await watching).output) <= 2
    assert (await run("ls -A")).output == b"f\n"  # no temporary file stays


async def test_a_link_is_written_through_and_stays_a_link(sandbox: OpenSandbox, run: Run):
    await run("mkdir real; echo old > real/f; ln -s real/f link")
    await sandbox.write("/workspace/link", b"new")

    assert await sandbox.read("/workspace/real/f") == b"new"
    assert (await run("readlink link")).output == b"real/f\n"


async def test_a_link_out_of_the_workspace_ends_in_the_container(sandbox: OpenSandbox, run: Run):
    await run("ln -s /tmp/outside link; ln -s /etc/passwd read-only; ln -s / root")
    await sandbox.write("/workspace/link", b"inside the container")
    assert (await run("cat /tmp/outside")).output == b"inside the container"

    with pytest.raises(PathError, match="Read-only"):
        await sandbox.write("/workspace/read-only", b"root::0:0")
    with pytest.raises(PathError):
        await sandbox.write("/workspace/root/usr/x", b"")


@pytest.mark.parametrize("make", ["mkdir f", "mkfifo f", "ln -s f f", "true", "touch f; chmod 000 f"])
async def test_only_a_readable_regular_file_is_read(sandbox: OpenSandbox, run: Run, make: str):
    await run(make)
    with pytest.raises(PathError):
        await sandbox.read("/workspace/f")


async def test_a_folder_is_listed_with_what_each_entry_is(sandbox: OpenSandbox, run: Run):
    await run("mkdir d; printf 12345 > f; ln -s nowhere l; mkfifo p")
    entries = await sandbox.list("/workspace")

    assert [(e.path, e.kind) for e in entries] == [
        ("/workspace/d", "directory"),
        ("/workspace/f", "file"),
        ("/workspace/l", "symlink"),
        ("/workspace/p", "other"),
    ]
    assert entries[1].size_bytes == 5
    assert len(await sandbox.list("/workspace", limit=2)) == 2


async def test_a_name_that_is_no_text_does_not_break_a_listing(sandbox: OpenSandbox, run: Run):
    await run(r"touch $(printf 'a\377b')")
    await sandbox.write("/workspace/new\nline", b"")
    assert [entry.path for entry in await sandbox.list("/workspace")] == ["/workspace/a\\xffb", "/workspace/new\nline"]
    assert (await sandbox.glob("*"))[0] == ["/workspace/a\\xffb", "/workspace/new\nline"]


async def test_a_listing_of_many_files_comes_whole(sandbox: OpenSandbox, run: Run):
    await run("seq -f 'a-rather-long-file-name-%05g' 3000 | xargs touch")
    assert len(await sandbox.list("/workspace", limit=5000)) == 3000


async def test_glob_finds_hidden_files_and_leaves_git_and_ignored_folders_out(sandbox: OpenSandbox, run: Run):
    await run("git init -q .; mkdir -p a/b .hidden; touch a/x.py a/b/y.py a/z.txt .hidden/h.py")
    await run("mkdir build; touch build/copy.py .git/inside.py; echo build/ > .gitignore")
    found, more = await sandbox.glob("*.py")

    assert found == ["/workspace/.hidden/h.py", "/workspace/a/b/y.py", "/workspace/a/x.py"]
    assert not more
    assert await sandbox.glob("*.py", "/workspace/a", limit=1) == (["/workspace/a/b/y.py"], True)
    assert await sandbox.glob("*.rs") == ([], False)
    for everything in ("**", "**/*", "**/*.py"):
        assert not any("/.git/" in path for path in (await sandbox.glob(everything))[0])


async def test_grep_gives_path_line_and_text(sandbox: OpenSandbox):
    await sandbox.write("/workspace/a.py", b"one\ntwo: three\n")
    await sandbox.write("/workspace/b.txt", b"two\n")

    matches, more = await sandbox.grep("tw[o]")
    assert [(m.path, m.line_number, m.line) for m in matches] == [
        ("/workspace/a.py", 2, "two: three"),
        ("/workspace/b.txt", 1, "two"),
    ]
    assert not more
    assert [m.path for m in (await sandbox.grep("two", include="*.txt"))[0]] == ["/workspace/b.txt"]
    assert [m.path for m in (await sandbox.grep("two", "/workspace/b.txt"))[0]] == ["/workspace/b.txt"]
    assert await sandbox.grep("four") == ([], False)


async def test_grep_says_when_there_was_more(sandbox: OpenSandbox):
    await sandbox.write("/workspace/many", b"match\n" * 1_000_000)
    matches, more = await sandbox.grep("match", limit=7)

    assert [m.line_number for m in matches] == [1, 2, 3, 4, 5, 6, 7]
    assert more


async def test_a_pattern_cannot_become_an_option(sandbox: OpenSandbox):
    await sandbox.write("/workspace/-e", b"--pre=sh\n")

    assert [m.line for m in (await sandbox.grep("--pre=sh"))[0]] == ["--pre=sh"]
    assert [m.path for m in (await sandbox.grep("pre", "/workspace/-e"))[0]] == ["/workspace/-e"]


async def test_a_broken_pattern_is_explained(sandbox: OpenSandbox):
    with pytest.raises(SandboxError, match="unclosed group"):
        await sandbox.grep("(")


async def test_searching_a_missing_folder_is_an_error(sandbox: OpenSandbox):
    with pytest.raises(PathError, match="/workspace/none"):
        await sandbox.glob("*", "/workspace/none")
    with pytest.raises(PathError, match="/workspace/none"):
        await sandbox.grep("x", "/workspace/none")


async def test_a_read_only_workspace_cannot_be_changed(driver: DockerDriver, project: SandboxSpec):
    async with await driver.open(replace(project, read_only=True)) as sandbox:
        assert (await sandbox.read("/workspace/src/other.py")) == b"x = 1\n"
        with pytest.raises(PathError, match="Read-only"):
            await sandbox.write("/workspace/src/other.py", b"x = 2\n")
