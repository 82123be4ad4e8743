"""Bundle → mirror → checkout → patch → tree."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repo.bundle import bundle
from repo.checkout import checkout
from repo.errors import CommitMissing, PatchRefused, RepositoryMissing, SourceRefused
from repo.git import git
from repo.mirror import mirror_of
from repo.patch import apply_to_tree, extract_patch


async def test_a_commit_travels_by_bundle_into_a_checkout_where_git_works(user, tmp_path):
    user.commit({"old.txt": "1\n"})
    head = user.commit({"src/a.py": "a = 1\n", "run.sh": "#!/bin/sh\n"})
    await bundle(user.root, head, tmp_path / "b")

    mirror = await mirror_of(tmp_path / "cache", bundle=tmp_path / "b", commit=head)
    folder = await checkout(mirror, head, tmp_path / "cache")

    assert (folder / "src/a.py").read_text() == "a = 1\n"

    def inside(*arguments):
        return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True).stdout

    assert inside("status", "--porcelain") == ""
    assert inside("log", "--format=%H").split() == [head]
    (folder / "src/a.py").write_text("a = 2\n")
    assert "+a = 2" in inside("diff")
    history = await git("rev-list", "--count", head, git_dir=mirror.git_dir)
    assert history.line == "2"


async def test_the_same_commit_gives_the_same_bundle(user, tmp_path):
    head = user.commit({f"f{n}.txt": "line\n" * n for n in range(50)})
    for name in ("one", "two"):
        await bundle(user.root, head, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


async def test_a_shallow_clone_travels_too(user, make_repository, tmp_path):
    user.commit({"a": "1\n"})
    head = user.commit({"a": "2\n"})
    clone = make_repository("shallow")
    clone.git("fetch", "--quiet", "--depth=1", user.root.as_uri(), "main")
    clone.git("reset", "--quiet", "--hard", "FETCH_HEAD")
    await bundle(clone.root, head, tmp_path / "b")

    mirror = await mirror_of(tmp_path / "cache", bundle=tmp_path / "b", commit=head)

    assert (await git("rev-list", head, git_dir=mirror.git_dir)).line.split() == [head]
    assert (await git("fsck", "--full", git_dir=mirror.git_dir)).exit_code == 0
    assert ((await checkout(mirror, head, tmp_path / "cache")) / "a").read_text() == "2\n"


async def test_a_mirror_fetches_by_address_only_where_the_operator_allows_the_protocol(user, tmp_path):
    head = user.commit({"a": "1\n"})
    with pytest.raises(SourceRefused, match="protocol"):
        await mirror_of(tmp_path, url=user.root.as_uri(), commit=head)
    with pytest.raises(SourceRefused, match="protocol"):
        await mirror_of(tmp_path, url=f"ext::touch {tmp_path}/ran", commit=head)
    assert not (tmp_path / "ran").exists()

    mirror = await mirror_of(tmp_path, url=user.root.as_uri(), commit="main", protocols=("file",))

    assert await mirror.resolve("main") == head
    newer = user.commit({"a": "2\n"})
    again = await mirror_of(tmp_path, url=user.root.as_uri(), commit=newer, protocols=("file",))
    assert again == mirror and await again.has(newer)


async def test_a_commit_or_repository_that_is_not_there_is_named(user, tmp_path):
    head = user.commit({"a": "1\n"})
    missing = "1" * 40
    with pytest.raises(CommitMissing, match=missing):
        await bundle(user.root, missing, tmp_path / "b")
    with pytest.raises(RepositoryMissing):
        await mirror_of(tmp_path, bundle=tmp_path / "b", commit=missing)
    with pytest.raises(RepositoryMissing):
        await mirror_of(tmp_path, url=(tmp_path / "nowhere").as_uri(), commit=head, protocols=("file",))
    await bundle(user.root, head, tmp_path / "b")
    with pytest.raises(CommitMissing, match=missing):
        await mirror_of(tmp_path, bundle=tmp_path / "b", commit=missing)


async def test_many_ask_at_once_and_one_checkout_is_made(user, mirror_at, tmp_path):
    head = user.commit({f"f{n}": f"{n}\n" for n in range(200)})
    mirror = await mirror_at(user, head)
    folders = await asyncio.gather(*(checkout(mirror, head, tmp_path / "cache") for _ in range(10)))
    assert len(set(folders)) == 1
    assert len(list(folders[0].iterdir())) == 201
    beside = [f"{head}.{kind}" for kind in ("index", "kept", "lock")]
    assert sorted(path.name for path in folders[0].parent.iterdir()) == [head, *beside]


async def test_what_a_killed_checkout_left_is_no_checkout(user, mirror_at, tmp_path):
    head = user.commit({"a": "1\n"})
    mirror = await mirror_at(user, head)
    part = tmp_path / "cache/checkouts" / mirror.key / f"{head}.part"
    (part / "half").mkdir(parents=True)
    folder = await checkout(mirror, head, tmp_path / "cache")
    assert not part.exists() and sorted(os.listdir(folder)) == [".git", "a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_root_gives_a_checkout_to_the_user_of_the_sandbox(user, mirror_at, tmp_path):
    head = user.commit({"src/a": "1\n"})
    folder = await checkout(await mirror_at(user, head), head, tmp_path / "cache", owner=(10001, 10001))
    owners = {(path.lstat().st_uid, path.lstat().st_gid) for path in (folder, *folder.rglob("*"))}
    assert owners == {(10001, 10001)}


NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20)
    .filter(lambda name: name not in (".", "..") and not name.lower().startswith((".git", "git~")))
    .filter(lambda name: len(name.encode()) < 200),
    min_size=1,
    max_size=2,
).map("/".join)
TREES = st.dictionaries(NAMES, st.binary(max_size=200), max_size=5).filter(
    lambda files: not any(a != b and b.startswith(a + "/") for a in files for b in files)
)


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


async def mirror_of_nothing(folder):
    await git("init", "--quiet", "--bare", str(folder / "empty.git"), git_dir=None, cwd=folder)
    return folder / "empty.git"


async def tree_of(git_dir, folder, files):
    write(folder, files)
    nothing = (await git("hash-object", "-w", "-t", "tree", "--stdin", git_dir=git_dir)).line
    patch = await extract_patch(git_dir=git_dir, base=nothing, work_tree=folder)
    return await apply_to_tree(git_dir, nothing, patch.diff)


@settings(max_examples=25, deadline=None)
@given(before=TREES, after=TREES)
def test_any_patch_makes_exactly_its_tree(tmp_path_factory, before, after):
    folder = tmp_path_factory.mktemp("any")

    async def check():
        git_dir = await mirror_of_nothing(folder)
        base = await tree_of(git_dir, folder / "before", before)
        write(folder / "after", after)

        patch = await extract_patch(git_dir=git_dir, base=base, work_tree=folder / "after")

        assert patch.warnings == () and patch.refused == ()
        assert await apply_to_tree(git_dir, base, patch.diff) == patch.tree
        assert patch.empty == (before == after) == (not patch.diff)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        assert {path for change in patch.files for path in change.paths} == changed

    asyncio.run(check())


async def test_a_patch_that_does_not_fit_is_refused(user, mirror_at):
    base = user.commit({"a": "1\n2\n3\n"})
    wanted = user.commit({"a": "1\ntwo\n3\n"})
    user.git("checkout", "--quiet", "-b", "other", base)
    other = user.commit({"a": "1\n2\nthree\n"})
    diff = (user.git("diff", "--full-index", base, wanted) + "\n").encode()
    mirror = await mirror_at(user, other)

    with pytest.raises(PatchRefused, match="does not apply"):
        await apply_to_tree(mirror.git_dir, other, diff)


@pytest.mark.parametrize("path", ["../outside", ".git/hooks/pre-commit", "/etc/outside"])
async def test_a_patch_that_reaches_outside_of_the_tree_is_refused(user, mirror_at, path):
    base = user.commit({"a": "1\n"})
    mirror = await mirror_at(user, base)
    diff = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(PatchRefused):
        await apply_to_tree(mirror.git_dir, base, diff.encode())
