"""Repositories that try to run something on the host. Each trap leaves a marker file; no test may find one."""

from __future__ import annotations

import asyncio
import base64
import os
import select
import subprocess
import zlib

import pytest

from repo import search
from repo.bundle import bundle
from repo.checkout import checkout
from repo.cover import MAX_BYTES, over_files
from repo.errors import GitTimedOut, OutputTooLarge, PatchRefused, PatternRefused, RepoError
from repo.git import git
from repo.local import describe
from repo.mirror import mirror_of
from repo.patch import MAX_APPLY_BYTES, apply_to_tree, extract_patch
from repo.publish import publish_branch

HOOKS = (
    *("post-checkout", "post-commit", "post-index-change", "post-merge", "post-rewrite", "pre-auto-gc"),
    *("pre-commit", "reference-transaction", "fsmonitor-watchman", "post-update", "update", "pre-receive"),
)
ATTRIBUTES = "* filter=trap diff=trap merge=trap\n"


def set_traps(git_dir, marker):
    """Every setting of a repository that names a program, as far as the commands used here could meet it."""
    trap = git_dir / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> '{marker}'\ncat\n")
    trap.chmod(0o755)
    hooks = git_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).symlink_to(trap)
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info/attributes").write_text(ATTRIBUTES)
    with open(git_dir / "config", "a") as config:
        config.write(
            f"""
[core]
    fsmonitor = {trap}
    hooksPath = {hooks}
    pager = {trap}
    editor = {trap}
    sshCommand = {trap}
    gitProxy = {trap}
    askPass = {trap}
    alternateRefsCommand = {trap}
    attributesFile = {git_dir}/info/attributes
[filter "trap"]
    clean = {trap}
    smudge = {trap}
    process = {trap}
    required = true
[diff]
    external = {trap}
[diff "trap"]
    command = {trap}
    textconv = {trap}
[merge "trap"]
    driver = {trap} %A
[uploadpack]
    packObjectsHook = {trap}
[credential]
    helper = !{trap}
[gpg]
    program = {trap}
[commit]
    gpgSign = true
[log]
    showSignature = true
[alias]
    status = !{trap}
    bundle = !{trap}
"""
        )
    return trap


async def test_the_traps_do_spring_for_plain_git(user, tmp_path):
    user.commit({".gitattributes": ATTRIBUTES, "a": "1\n"})
    set_traps(user.root / ".git", tmp_path / "ran")
    (user.root / "a").write_text("2\n")
    subprocess.run(["git", "-C", user.root, "status"], capture_output=True, check=False)
    assert (tmp_path / "ran").exists()


async def test_no_trap_springs_in_the_users_repository(user, tmp_path):
    head = user.commit({".gitattributes": ATTRIBUTES, "a": "1\n"})
    set_traps(user.root / ".git", tmp_path / "ran")
    (user.root / "a").write_text("2\n")

    found = await describe(user.root)
    await bundle(user.root, head, tmp_path / "b")
    mirror = await mirror_of(tmp_path / "cache", bundle=tmp_path / "b", commit=head)
    commit = ("commit-tree", f"{head}^{{tree}}", "-p", head, "-m", "next")
    successor = (await git(*commit, git_dir=mirror.git_dir)).line
    await publish_branch(user.root, mirror, "muster/next", successor)
    await mirror_of(tmp_path, url=user.root.as_uri(), commit=head, protocols=("file",))

    assert found.dirty == ("a",)
    assert (user.root / ".git/refs/heads/muster/next").read_text().strip() == successor
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


async def test_no_trap_springs_in_a_workspace(user, mirror_at, tmp_path):
    head = user.commit({".gitattributes": ATTRIBUTES, "a": "1\n", "sub/b": "1\n"})
    mirror = await mirror_at(user, head)
    tree = await checkout(mirror, head, tmp_path / "cache")
    set_traps(tree / ".git", tmp_path / "ran")
    subprocess.run(["git", "init", "--quiet", tree / "sub"], check=True)
    set_traps(tree / "sub/.git", tmp_path / "ran")
    (tree / "a").write_text("2\n")
    (tree / "sub/b").write_text("2\n")

    patch = await extract_patch(git_dir=mirror.git_dir, base=head, work_tree=tree)

    assert {change.path: change.added for change in patch.files} == {"a": 1, "sub/b": 1}
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


async def test_no_trap_springs_from_the_environment_or_the_users_settings(user, tmp_path, monkeypatch):
    user.commit({"a": "1\n"})
    trap = set_traps(user.root / ".git", tmp_path / "ran")
    (tmp_path / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n[diff]\n\texternal = {trap}\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND", "GIT_TRACE"):
        monkeypatch.setenv(name, str(trap))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")

    assert (await describe(user.root)).root == user.root
    seen = await git("-c", "alias.env=!env", "env", git_dir=user.root / ".git")

    assert b"canary" not in seen.stdout and b"elsewhere" not in seen.stdout
    assert not (tmp_path / "ran").exists()


async def test_a_hostile_promisor_remote_is_not_asked_for_missing_objects(user, tmp_path):
    head = user.commit({"a": "1\n"})
    trap = set_traps(user.root / ".git", tmp_path / "ran")
    user_config = user.root / ".git/config"
    user_config.write_text(
        user_config.read_text()
        + f'[extensions]\n partialClone = far\n[remote "far"]\n promisor = true\n url = ext::{trap}\n'
        + "[protocol]\n allow = always\n"
    )
    blob = user.root / ".git/objects" / "d0" / "0491fd7e5bb6fa28c517a0bb32b8b506539d4d"  # the blob "1\n"
    blob.unlink()
    with pytest.raises(RepoError):
        await bundle(user.root, head, tmp_path / "b")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "b").exists()


async def test_a_late_git_is_killed_with_all_that_it_started(tmp_path):
    pid_file = tmp_path / "pid"
    slow = f"alias.slow=!sleep 1000 & echo $! > '{pid_file}'; wait"
    with pytest.raises(GitTimedOut, match=r"0\.5 seconds"):
        await git("-c", slow, "slow", git_dir=None, cwd=tmp_path, timeout_s=0.5)
    assert not is_running(int(pid_file.read_text()))


async def test_a_cancelled_git_is_killed_with_all_that_it_started(tmp_path):
    os.mkfifo(tmp_path / "ready")
    slow = f"alias.slow=!sleep 1000 & echo $! > '{tmp_path}/ready'; wait"
    task = asyncio.create_task(git("-c", slow, "slow", git_dir=None, cwd=tmp_path))
    pid = int(await asyncio.to_thread((tmp_path / "ready").read_text))
    end = os.pidfd_open(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    try:  # it was killed, but the kernel may take a moment on a busy machine
        readable, _, _ = await asyncio.to_thread(select.select, [end], [], [], 10)
    finally:
        os.close(end)
    assert readable == [end]


async def test_too_much_output_ends_git(tmp_path):
    with pytest.raises(OutputTooLarge):
        await git("-c", "alias.flood=!yes", "flood", git_dir=None, cwd=tmp_path, max_stdout_bytes=1_000_000)


async def test_an_expression_that_would_take_all_memory_is_refused(user, mirror_at, monkeypatch):
    monkeypatch.setattr(search, "MAX_MEMORY_BYTES", 128 * 1024 * 1024)
    commit = user.commit({"a.txt": "one a\n"})
    mirror = await mirror_at(user, commit)

    assert len(await search.occurrences(mirror.git_dir, commit, "a{1,2}")) == 1
    with pytest.raises(PatternRefused, match="Memory exhausted"):
        await search.occurrences(mirror.git_dir, commit, "a{1,200}{1,200}{1,20}")


def is_running(pid):
    """An orphan that nobody has reaped yet is dead all the same."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _number(size: int) -> bytes:
    found = b""
    while size > 0x7F:
        found, size = found + bytes([size & 0x7F | 0x80]), size >> 7
    return found + bytes([size])


async def test_a_diff_of_bytes_that_names_gigabytes_is_refused(user, mirror_at):
    """A delta says how large its file is, and copies a part of the one before again and again."""
    size = 1 << 20
    commit = user.commit({"a": "y\n" * (size // 2)})
    old = user.git("rev-parse", "HEAD:a")
    copies = MAX_APPLY_BYTES // size + 1
    delta = _number(size) + _number(size * copies) + (bytes([0xF0]) + size.to_bytes(3, "little")) * copies
    packed = zlib.compress(delta, 9)
    lines = b""
    for at in range(0, len(packed), 52):
        part = packed[at : at + 52]
        count = len(part)
        sign = ord("A") + count - 1 if count <= 26 else ord("a") + count - 27
        lines += bytes([sign]) + base64.b85encode(part, pad=True) + b"\n"
    head = f"diff --git a/a b/a\nindex {old}..{'1' * 40} 100644\nGIT binary patch\ndelta {len(delta)}\n"

    with pytest.raises(PatchRefused, match="memory"):
        await apply_to_tree((await mirror_at(user, commit)).git_dir, commit, head.encode() + lines + b"\n")


NEW_FILE = "diff --git a/{0} b/{0}\nnew file mode 100644\nindex {1}..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n"


async def test_a_diff_that_names_what_a_setup_left_has_no_more_read_than_is_bearable(user, mirror_at, tmp_path):
    commit = user.commit({"a": "1\n"})
    git_dir = (await mirror_at(user, commit)).git_dir
    folder = tmp_path / "layer"
    (folder / "real").mkdir(parents=True)
    (folder / "real/kept").write_text("left by a setup\n")
    (folder / "linked").symlink_to("real")
    with (folder / "large").open("wb") as large:
        large.truncate(MAX_BYTES + 1)

    def adding(*paths: str) -> bytes:
        return "".join(NEW_FILE.format(path, "0" * 40) for path in paths).encode()

    with pytest.raises(PatchRefused, match="64 MiB"):
        await over_files(git_dir, commit, adding("large"), folder)
    beside = adding("linked/kept", "none/of/these", "a2")
    assert await over_files(git_dir, commit, beside, folder) == beside
    assert b"-left by a setup" in await over_files(git_dir, commit, adding("real/kept"), folder)
