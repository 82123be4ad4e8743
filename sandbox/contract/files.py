"""Files: what a sandbox reads, writes and finds without a command."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from ..base import MIB
from ..errors import PathError, SandboxError
from .stage import Stage, raises


async def what_was_written_is_read_back(stage: Stage) -> None:
    box, content, path = await stage.box(), os.urandom(3 * MIB + 17), "/workspace/deep/er/file.bin"
    await box.write(path, content)

    assert await box.read(path) == content
    assert await box.read(path, offset_bytes=3 * MIB, max_bytes=5) == content[3 * MIB :][:5]
    assert (await box.stat(path)).size_bytes == len(content)


async def a_write_keeps_the_mode_unless_told_otherwise(stage: Stage) -> None:
    box = await stage.box()
    await stage.run("printf '#!/bin/sh\\necho old' > tool; chmod 750 tool")
    await box.write("/workspace/tool", b"#!/bin/sh\necho new")
    assert (await stage.run("./tool")).output == b"new\n"
    assert (await box.stat("/workspace/tool")).mode == 0o750

    await box.write("/workspace/tool", b"plain", mode=0o600)
    assert (await box.stat("/workspace/tool")).mode == 0o600


async def a_reader_never_sees_half_a_write(stage: Stage) -> None:
    box = await stage.box()
    await box.write("/workspace/f", b"a" * MIB)
    watch = "while [ ! -e stop ]; do sha256sum f; done | sort -u | wc -l; rm stop"
    watching = asyncio.ensure_future(stage.run(watch, timeout_s=60))
    for letter in (b"b", b"a", b"b", b"a"):
        await box.write("/workspace/f", letter * MIB)
    await box.write("/workspace/stop", b"")

    assert int((await watching).output) <= 2
    assert (await stage.run("ls -A")).output == b"f\n"  # no temporary file stays


async def a_link_is_written_through_and_stays_a_link(stage: Stage) -> None:
    box = await stage.box()
    await stage.run("mkdir real; echo old > real/f; ln -s real/f link")
    await box.write("/workspace/link", b"new")

    assert await box.read("/workspace/real/f") == b"new"
    assert (await stage.run("readlink link")).output == b"real/f\n"


async def a_link_out_of_the_workspace_ends_inside(stage: Stage) -> None:
    box = await stage.box()
    await stage.run("ln -s /tmp/outside link; ln -s /etc/passwd read-only; ln -s / root")
    await box.write("/workspace/link", b"inside")
    assert (await stage.run("cat /tmp/outside")).output == b"inside"

    with raises(PathError, "Read-only"):
        await box.write("/workspace/read-only", b"root::0:0")
    with raises(PathError):
        await box.write("/workspace/root/usr/x", b"")


async def only_a_readable_regular_file_is_read(stage: Stage) -> None:
    box = await stage.box()
    for make in ("mkdir f", "mkfifo f", "ln -s f f", "true", "touch f; chmod 000 f"):
        await stage.run(f"rm -rf f; {make}")
        with raises(PathError):
            await box.read("/workspace/f")


async def a_folder_is_listed_with_what_each_entry_is(stage: Stage) -> None:
    box = await stage.box()
    await stage.run("mkdir d; printf 12345 > f; ln -s nowhere l; mkfifo p")
    entries = await box.list("/workspace")

    assert [(entry.path, entry.kind) for entry in entries] == [
        ("/workspace/d", "directory"),
        ("/workspace/f", "file"),
        ("/workspace/l", "symlink"),
        ("/workspace/p", "other"),
    ]
    assert entries[1].size_bytes == 5
    assert len(await box.list("/workspace", limit=2)) == 2


async def a_name_that_is_no_text_does_not_break_a_listing(stage: Stage) -> None:
    box = await stage.box()
    await stage.run(r"touch $(printf 'a\377b')")
    await box.write("/workspace/new\nline", b"")

    assert [entry.path for entry in await box.list("/workspace")] == ["/workspace/a\\xffb", "/workspace/new\nline"]
    assert (await box.glob("*"))[0] == ["/workspace/a\\xffb", "/workspace/new\nline"]


async def a_listing_of_many_files_comes_whole(stage: Stage) -> None:
    await stage.run("seq -f 'a-rather-long-file-name-%05g' 3000 | xargs touch")

    assert len(await (await stage.box()).list("/workspace", limit=5000)) == 3000


async def glob_finds_hidden_files_and_leaves_git_and_ignored_folders_out(stage: Stage) -> None:
    box = await stage.box()
    await stage.run("git init -q .; mkdir -p a/b .hidden; touch a/x.py a/b/y.py a/z.txt .hidden/h.py")
    await stage.run("mkdir build; touch build/copy.py .git/inside.py; echo build/ > .gitignore")
    found, more = await box.glob("*.py")

    assert found == ["/workspace/.hidden/h.py", "/workspace/a/b/y.py", "/workspace/a/x.py"]
    assert not more
    assert await box.glob("*.py", "/workspace/a", limit=1) == (["/workspace/a/b/y.py"], True)
    assert await box.glob("*.rs") == ([], False)
    for everything in ("**", "**/*", "**/*.py"):
        assert not any("/.git/" in path for path in (await box.glob(everything))[0])


async def grep_gives_path_line_and_text(stage: Stage) -> None:
    box = await stage.box()
    await box.write("/workspace/a.py", b"one\ntwo: three\n")
    await box.write("/workspace/b.txt", b"two\n")

    matches, more = await box.grep("tw[o]")
    assert [(match.path, match.line_number, match.line) for match in matches] == [
        ("/workspace/a.py", 2, "two: three"),
        ("/workspace/b.txt", 1, "two"),
    ]
    assert not more
    assert [match.path for match in (await box.grep("two", include="*.txt"))[0]] == ["/workspace/b.txt"]
    assert [match.path for match in (await box.grep("two", "/workspace/b.txt"))[0]] == ["/workspace/b.txt"]
    assert await box.grep("four") == ([], False)


async def grep_says_when_there_was_more(stage: Stage) -> None:
    box = await stage.box()
    await box.write("/workspace/many", b"match\n" * 1_000_000)
    matches, more = await box.grep("match", limit=7)

    assert [match.line_number for match in matches] == [1, 2, 3, 4, 5, 6, 7]
    assert more


async def a_search_tells_in_the_order_of_the_paths(stage: Stage) -> None:
    """Also where not everything is kept."""
    box = await stage.box()
    await stage.run("mkdir a a.c z; for name in z/y b a-b a/x a.c/x; do printf 'two\\ntwo\\n' > $name; done")
    places = [f"/workspace/{name}" for name in ("a/x", "a-b", "a.c/x", "b", "z/y")]
    assert (await box.glob("**"))[0] == places
    found = [(match.path, match.line_number) for match in (await box.grep("two"))[0]]
    assert found == [(place, line) for place in places for line in (1, 2)]

    await box.write("/workspace/c", b"two\n" * 500_000)
    found = [(match.path, match.line_number) for match in (await box.grep("two", limit=9))[0]]
    assert found == [*((place, line) for place in places[:4] for line in (1, 2)), ("/workspace/c", 1)]


async def a_pattern_cannot_become_an_option(stage: Stage) -> None:
    box = await stage.box()
    await box.write("/workspace/-e", b"--pre=sh\n")

    assert [match.line for match in (await box.grep("--pre=sh"))[0]] == ["--pre=sh"]
    assert [match.path for match in (await box.grep("pre", "/workspace/-e"))[0]] == ["/workspace/-e"]


async def a_broken_pattern_is_explained(stage: Stage) -> None:
    with raises(SandboxError, "unclosed group"):
        await (await stage.box()).grep("(")


async def searching_a_missing_folder_is_an_error(stage: Stage) -> None:
    box = await stage.box()
    with raises(PathError, "/workspace/none"):
        await box.glob("*", "/workspace/none")
    with raises(PathError, "/workspace/none"):
        await box.grep("x", "/workspace/none")


async def a_read_only_workspace_cannot_be_changed(stage: Stage) -> None:
    box = await stage.open(replace(await stage.project(), read_only=True))

    assert (await box.read("/workspace/src/other.py")) == b"x = 1\n"
    with raises(PathError, "Read-only"):
        await box.write("/workspace/src/other.py", b"x = 2\n")
