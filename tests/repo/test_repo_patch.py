"""What an agent may leave in its work tree, and what becomes of it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time

import pytest

from repo.errors import CommitMissing, PatchRefused
from repo.fairness import MANY
from repo.git import git
from repo.patch import apply_to_tree, extract_patch


def by_path(patch):
    return {change.path: change for change in patch.files}


async def content(work, patch, path):
    """From the tree that the patch makes in the mirror, so every look is also a round trip."""
    assert await apply_to_tree(work.mirror.git_dir, work.base, patch.diff) == patch.tree
    return (await git("cat-file", "blob", f"{patch.tree}:{path}", git_dir=work.mirror.git_dir)).stdout


async def test_an_untouched_work_tree_gives_an_empty_patch(work_on):
    work = await work_on({"a": "1\n"})
    patch = await work.patch()
    assert patch.empty and patch.diff == b"" and patch.base == work.base and patch.warnings == ()


async def test_every_kind_of_change_comes_back(work_on):
    long = "".join(f"line {n}\n" for n in range(20))
    work = await work_on({"edit": "1\n", "gone": "x\n", "old": long, "run": "#!\n", "bin": b"\0\1" * 99, "kind": "k\n"})
    (work.tree / "edit").write_text("1\n2\n")
    (work.tree / "gone").unlink()
    (work.tree / "old").rename(work.tree / "new")
    (work.tree / "run").chmod(0o755)
    (work.tree / "bin").write_bytes(b"\0\2" * 99)
    (work.tree / "added").write_bytes(b"crlf\r\nlf\n no newline at end")
    (work.tree / "kind").unlink()
    (work.tree / "kind").symlink_to("edit")

    patch = await work.patch()

    changes = by_path(patch)
    statuses = {path: change.status for path, change in changes.items()}
    assert statuses == {"edit": "M", "gone": "D", "new": "R", "run": "M", "bin": "M", "added": "A", "kind": "T"}
    assert changes["new"].old_path == "old"
    assert (changes["edit"].added, changes["edit"].removed) == (1, 0)
    assert changes["bin"].added is None and changes["run"].mode == "100755" and changes["gone"].mode == "000000"
    assert await content(work, patch, "added") == b"crlf\r\nlf\n no newline at end"
    assert await content(work, patch, "bin") == b"\0\2" * 99
    assert patch.warnings == ()


async def test_very_many_files_come_back_and_hold_up_nobody(work_on):
    """They are sorted out beside the event loop."""
    work = await work_on({"a": "1\n"})
    for number in range(MANY + 1):
        (work.tree / f"f{number}").touch()
    patching = asyncio.ensure_future(work.patch(allowed=lambda path: sum(range(20_000)) > 0 and path != "f7"))
    longest_s = 0.0
    while not patching.done():
        began_s = time.monotonic()
        await asyncio.sleep(0.001)
        longest_s = max(longest_s, time.monotonic() - began_s)

    patch = await patching
    assert (len(patch.files), patch.refused) == (MANY, ("f7",))
    assert longest_s < 0.5, "to look at all takes two seconds"


async def test_an_edit_of_the_same_size_right_after_the_checkout_is_seen(work_on):
    work = await work_on({"a": "1\n"})
    (work.tree / "a").write_text("2\n")
    assert by_path(await work.patch())["a"].status == "M"


async def test_an_edit_of_the_same_size_in_the_second_of_the_commit_is_seen(work_on):
    """git compares whole seconds: a fresh commit, its checkout and an edit may all fall into one."""
    work = await work_on({"a.py": "X = 1\n"})
    committed_s = int((await git("log", "-1", "--format=%ct", work.base, git_dir=work.mirror.git_dir)).line)
    (work.tree / "a.py").write_text("X = 2\n")
    os.utime(work.tree / "a.py", (committed_s, committed_s))

    assert [file.path for file in (await work.patch()).files] == ["a.py"]


async def test_ignored_files_stay_out_unless_they_are_tracked(work_on):
    work = await work_on({".gitignore": "*.log\n/build/\n", "src/a": "1\n"})
    (work.tree / "x.log").write_text("noise")
    (work.tree / "build").mkdir()
    (work.tree / "build/out").write_text("noise")
    (work.tree / "src/new").write_text("signal")
    assert set(by_path(await work.patch())) == {"src/new"}


async def test_crlf_by_attribute_round_trips(work_on):
    work = await work_on({".gitattributes": "*.bat text eol=crlf\n", "a.bat": "one\n"})
    assert (work.tree / "a.bat").read_bytes() == b"one\r\n"
    (work.tree / "a.bat").write_bytes(b"one\r\ntwo\r\n")
    patch = await work.patch()
    assert by_path(patch)["a.bat"].added == 1
    assert await content(work, patch, "a.bat") == b"one\ntwo\n"


async def test_a_change_outside_the_allowed_paths_is_kept_apart_and_named(work_on):
    work = await work_on({"src/a": "1\n", "secret/key": "k\n"})
    (work.tree / "src/a").write_text("2\n")
    (work.tree / "secret/key").write_text("mine\n")

    patch = await work.patch(allowed=lambda path: path.startswith("src/"))

    assert patch.refused == ("secret/key",)
    assert set(by_path(patch)) == {"src/a"} and b"mine" not in patch.diff
    assert b"mine" in patch.refused_diff
    assert await content(work, patch, "secret/key") == b"k\n"


@pytest.mark.parametrize(("old", "new"), [("src/a", "docs/a"), ("docs/b", "src/b")])
async def test_a_rename_needs_both_of_its_paths(work_on, old, new):
    text = "".join(f"{n}\n" for n in range(20))
    work = await work_on({"src/a": text, "docs/b": text.upper() + "end\n"})
    (work.tree / old).rename(work.tree / new)
    patch = await work.patch(allowed=lambda path: path.startswith("src/"))
    assert patch.refused == tuple(sorted((old, new)))
    assert patch.empty


async def test_a_file_that_a_refused_one_pushes_out_is_named_too(work_on):
    work = await work_on({"a": "1\n"})
    (work.tree / "a").unlink()
    (work.tree / "a").mkdir()
    (work.tree / "a/b").write_text("new\n")
    patch = await work.patch(allowed=lambda path: path != "a")
    assert patch.empty and patch.refused == ("a", "a/b")
    assert await content(work, patch, "a") == b"1\n"


@pytest.mark.parametrize("name", ["new\nline", 'quo"te', "tab\tbed", " lead", "ünï", "-rf", ":(exclude)x", "a\\b"])
async def test_odd_names_are_only_names(work_on, name):
    work = await work_on({"a": "1\n"})
    (work.tree / name).write_text("odd\n")
    patch = await work.patch()
    assert set(by_path(patch)) == {name}
    assert await content(work, patch, name) == b"odd\n"


async def test_a_name_that_is_no_utf8_is_left_out_and_said(work_on):
    work = await work_on({"a": "1\n"})
    with open(os.fsencode(work.tree) + b"/bad\xff", "wb") as file:
        file.write(b"x")
    (work.tree / "good").write_text("1\n")
    patch = await work.patch()
    assert set(by_path(patch)) == {"good"} and patch.refused == ()
    assert patch.warnings == (r"bad\xff has a name that is not UTF-8 and was left out",)


async def test_a_warning_carries_no_control_codes_and_never_floods(work_on):
    work = await work_on({"a": "1\n"})
    os.mkfifo(work.tree / "\x1b[2Jpipe")
    for n in range(30):
        os.mkfifo(work.tree / f"p{n}")
    warnings = (await work.patch()).warnings
    assert warnings[0] == r"\x1b[2Jpipe is not a regular file and was left out"
    assert len(warnings) == 21 and warnings[-1] == "11 more warnings of this kind"


async def test_links_that_leave_the_tree_stay_links_and_are_pointed_out(work_on):
    work = await work_on({"dir/a": "1\n"})
    (work.tree / "abs").symlink_to("/etc/passwd")
    (work.tree / "dir/up").symlink_to("../../outside")
    (work.tree / "dir/fine").symlink_to("../dir/a")
    patch = await work.patch()
    assert {change.mode for change in patch.files} == {"120000"}
    assert await content(work, patch, "abs") == b"/etc/passwd"
    assert patch.warnings == (
        "abs is a link that leaves the tree, to /etc/passwd",
        "dir/up is a link that leaves the tree, to ../../outside",
    )


async def test_a_folder_replaced_by_a_link_is_not_followed(work_on, tmp_path):
    work = await work_on({"dir/a": "1\n"})
    (tmp_path / "host").mkdir()
    (tmp_path / "host/a").write_text("secret of the host\n")
    (work.tree / "dir/a").unlink()
    (work.tree / "dir").rmdir()
    (work.tree / "dir").symlink_to(tmp_path / "host")
    patch = await work.patch()
    assert b"secret of the host" not in patch.diff
    assert {path: change.status for path, change in by_path(patch).items()} == {"dir": "A", "dir/a": "D"}


def make_nested(folder, *, commit):
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    (folder / "inner").write_text("inner\n")
    (folder / ".gitignore").write_text("*.o\n")
    (folder / "x.o").write_text("object\n")
    if commit:
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", folder, "add", "."], check=True)
        subprocess.run(["git", "-C", folder, *author, "commit", "--quiet", "-m", "inner"], check=True)


@pytest.mark.parametrize("commit", [False, True])
async def test_files_of_a_repository_inside_the_tree_are_collected_and_said(work_on, commit):
    work = await work_on({"a": "1\n", "sub/tracked": "t\n", "sub/removed": "r\n"})
    make_nested(work.tree / "sub", commit=commit)
    (work.tree / "sub/tracked").write_text("changed\n")
    (work.tree / "sub/removed").unlink()
    (work.tree / "b").write_text("outside\n")

    patch = await work.patch()

    statuses = {path: change.status for path, change in by_path(patch).items()}
    assert statuses == {"b": "A", "sub/.gitignore": "A", "sub/inner": "A", "sub/tracked": "M", "sub/removed": "D"}
    assert patch.warnings == ("sub is a repository of its own: its files were collected, its history not",)
    assert await content(work, patch, "sub/inner") == b"inner\n"


async def test_a_repository_in_an_ignored_folder_stays_out(work_on):
    work = await work_on({".gitignore": "/vendor/\n"})
    make_nested(work.tree / "vendor/lib", commit=True)
    assert (await work.patch()).empty


async def test_a_name_that_would_be_git_on_another_system_is_left_out_and_said(work_on):
    work = await work_on({"a": "1\n"})
    (work.tree / ".GIT").mkdir()
    (work.tree / ".GIT/config").write_text("[core]\n")
    (work.tree / "good").write_text("1\n")
    patch = await work.patch()
    assert set(by_path(patch)) == {"good"}
    assert any(".GIT/config" in warning for warning in patch.warnings)


@pytest.mark.parametrize("kind", ["file", "link", "gone"])
async def test_the_work_trees_own_git_folder_does_not_matter(work_on, tmp_path, kind):
    work = await work_on({"a": "1\n"})
    (work.tree / ".git").rename(tmp_path / "moved")
    if kind == "file":
        (work.tree / ".git").write_text("gitdir: /nowhere\n")
    if kind == "link":
        (work.tree / ".git").symlink_to(tmp_path / "moved")
    (work.tree / "a").write_text("2\n")
    assert set(by_path(await work.patch())) == {"a"}


async def test_pipes_and_sockets_are_said(work_on):
    work = await work_on({"a": "1\n"})
    os.mkfifo(work.tree / "pipe")
    folder = os.open(work.tree, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/socket")  # a socket's path has 107 bytes at most
    os.close(folder)
    patch = await work.patch()
    assert patch.empty
    assert patch.warnings == tuple(f"{n} is not a regular file and was left out" for n in ("pipe", "socket"))


@pytest.mark.parametrize("name", [".gitignore", "src/.gitattributes", "new/.gitignore", "own/deep/.gitmodules"])
async def test_a_pipe_in_the_place_of_gits_rules_holds_nobody_up(work_on, name):
    """git would open it, and wait for whoever writes there."""
    work = await work_on({"a": "1\n", "src/b": "2\n"})
    (work.tree / "own" / ".git").mkdir(parents=True)
    (work.tree / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(work.tree / name)
    (work.tree / "a").write_text("changed\n")

    patch = await work.patch()

    assert [file.path for file in patch.files] == ["a"]
    assert f"{name} is a pipe where git looks for its rules, and was removed" in patch.warnings
    assert not (work.tree / name).exists()


async def test_a_huge_file_is_left_out_and_a_huge_patch_refused(work_on):
    work = await work_on({".gitignore": "cache\n", "a": "1\n"})
    for name in ("huge", "cache"):
        with open(work.tree / name, "wb") as file:
            file.truncate(1 << 40)  # sparse: a terabyte to read, nothing on disk
    patch = await work.patch(max_bytes=10_000)
    assert patch.empty and patch.warnings == ("huge is larger than 10000 bytes and was left out",)

    for n in range(20):
        (work.tree / f"f{n}").write_text(f"{n}" * 900)
    with pytest.raises(PatchRefused, match="larger than 10000 bytes"):
        await work.patch(max_bytes=10_000)


async def test_a_wrong_encoding_cannot_fail_the_collection(work_on):
    work = await work_on({"a": "1\n"})
    (work.tree / ".gitattributes").write_text("* working-tree-encoding=UTF-16\n")
    (work.tree / "a").write_bytes(b"no utf-16")
    assert set(by_path(await work.patch())) == {".gitattributes", "a"}


async def test_a_patch_may_stand_on_a_tree_of_earlier_changes(work_on):
    work = await work_on({".gitignore": "*.log\n", "a": "1\n"})
    (work.tree / "a").write_text("2\n")
    first = await work.patch()
    base = await apply_to_tree(work.mirror.git_dir, work.base, first.diff)
    (work.tree / "b").write_text("3\n")
    second = await extract_patch(git_dir=work.mirror.git_dir, base=base, work_tree=work.tree, index_seed=work.seed)
    assert set(by_path(second)) == {"b"}
    assert await apply_to_tree(work.mirror.git_dir, base, second.diff) == second.tree


async def test_extraction_writes_nothing_to_the_mirror_or_the_work_tree(work_on):
    work = await work_on({"a": "1\n"})
    (work.tree / "a").write_text("2\n")

    def snapshot():
        return {(p, p.lstat().st_mtime_ns) for top in (work.mirror.git_dir, work.tree) for p in top.rglob("*")}

    before = snapshot()
    await work.patch()
    assert snapshot() == before


async def test_an_unknown_base_is_named(work_on):
    work = await work_on({"a": "1\n"})
    with pytest.raises(CommitMissing, match="f" * 40):
        await extract_patch(git_dir=work.mirror.git_dir, base="f" * 40, work_tree=work.tree)
