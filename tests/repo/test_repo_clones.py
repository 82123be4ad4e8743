"""Clones that hold less than their remote: shallow ones, as every CI makes them, and partial ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repo.bundle import bundle
from repo.changes import FileChange
from repo.checkout import checkout
from repo.cover import Layer, bundle_layers
from repo.errors import BranchRefused, CommitMissing
from repo.fast_import import NewFile
from repo.local import describe, locate
from repo.merge import merge_patches
from repo.merge_sides import Changeset
from repo.mirror import Mirror, mirror_of
from repo.patch import patch_between
from repo.publish import publish_branch
from repo.remotes import Remote, push_branch
from repo.series import write_branch_bundle, write_series
from repo.weave import Piece, Weave

DIFF = b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-2\n+3\n"
ONE = Changeset("one", DIFF, "one", (FileChange("a", "M", None, 1, 1, "100644"),))
WAYS = {
    "full": (),
    "shallow": ("--depth=1",),
    "shallow by two": ("--depth=2",),
    "without older files": ("--filter=blob:none",),
    "without older folders": ("--filter=tree:0",),
    "shallow and partial": ("--depth=1", "--filter=blob:none"),
}
FEW = ("shallow", "without older files")


@pytest.fixture
def history(user: Any) -> Any:
    """Five commits with a merge; its server can leave out what a client does not want."""
    user.git("config", "uploadpack.allowFilter", "true")
    user.commit({"a": "0\n", "old": "gone later\n"})
    user.git("checkout", "--quiet", "-b", "side")
    user.commit({"b": "side\n"})
    user.git("checkout", "--quiet", "main")
    user.git("rm", "--quiet", "old")
    user.commit({"a": "1\n"})
    user.git("merge", "--quiet", "--no-edit", "side")
    user.commit({"a": "2\n"})
    return user


@pytest.fixture
def clone(history: Any, tmp_path: Path) -> Any:
    def make(way: str, *more: str) -> Any:
        cloned = type(history)(tmp_path / "clone")
        history.git("clone", "--quiet", *WAYS[way], *more, history.root.as_uri(), str(cloned.root))
        return cloned

    return make


async def mirror_from(clone: Any, tmp_path: Path) -> tuple[Mirror, str]:
    local = await describe(clone.root)
    assert (local.dirty, local.untracked) == ((), ())
    await bundle(local.place, local.head, tmp_path / "b")
    return await mirror_of(
        tmp_path / "cache", bundle=tmp_path / "b", commit=local.head, shared_by=[str(clone.root)]
    ), local.head


@pytest.mark.parametrize("way", WAYS)
async def test_a_change_of_a_clone_is_made_merged_and_published(clone: Any, history: Any, way: str, tmp_path: Path):
    cloned = clone(way)
    mirror, base = await mirror_from(cloned, tmp_path)
    assert ((await checkout(mirror, base, tmp_path / "cache")) / "b").read_text() == "side\n"

    merged = await merge_patches(mirror, base, [ONE])
    assert (merged.collisions, len(merged.landed)) == ((), 1)
    patch = await patch_between(mirror, base, merged.commit)
    assert [change.path for change in patch.files] == ["a"]
    weave = Weave(mirror, base)
    assert await weave.add(Piece("one", "one", DIFF)) is None and await weave.state(["one"])
    await publish_branch(cloned.root, mirror, "work", merged.commit)
    cloned.git("fsck", "--connectivity-only")
    assert cloned.git("log", "--format=%H", "-2", "work").split() == [merged.commit, base]

    remote = Remote(history.root.as_uri(), ("file",))
    await push_branch(remote, mirror, "pushed", merged.commit, known=())
    assert history.git("log", "--format=%H", "-2", "pushed").split() == [merged.commit, base]
    history.git("fsck", "--full", "--strict")
    assert len(history.git("rev-list", "pushed").split()) == 6


@pytest.mark.parametrize("way", FEW)
async def test_a_clones_change_leaves_as_patches_and_as_a_bundle(clone: Any, history: Any, way: str, tmp_path: Path):
    mirror, base = await mirror_from(clone(way), tmp_path)
    merged = await merge_patches(mirror, base, [ONE])

    await write_branch_bundle(mirror, base, merged.commit, "work", tmp_path / "out.bundle")
    [patch] = await write_series(mirror, base, merged.commit, tmp_path / "out")

    history.git("fetch", "--quiet", str(tmp_path / "out.bundle"), "work:work")
    assert history.git("rev-parse", "work", "work~").split() == [merged.commit, base]
    history.git("am", "--quiet", str(patch))
    assert (history.root / "a").read_text() == "3\n"


@pytest.mark.parametrize("way", FEW)
async def test_commits_of_the_clone_itself_come_along(clone: Any, history: Any, way: str, tmp_path: Path):
    cloned = clone(way)
    start = cloned.git("rev-parse", "HEAD")
    ours = [cloned.commit({"own": f"{n}\n"}) for n in range(2)]
    mirror, _ = await mirror_from(cloned, tmp_path)
    for commit in (start, *ours):
        assert await mirror.has(commit)
    await push_branch(Remote(history.root.as_uri(), ("file",)), mirror, "pushed", ours[1], known=())
    history.git("fsck", "--full", "--strict")


@pytest.mark.parametrize("way", FEW)
async def test_files_are_laid_over_a_clones_commit(clone: Any, way: str, tmp_path: Path):
    place = await locate(clone(way).root)
    base = (await describe(place.root)).head
    layer = Layer("tests", {"tests/t": NewFile(b"t\n")})

    [laid] = await bundle_layers([layer], tmp_path / "b", on=base, place=place)

    mirror = await mirror_of(tmp_path / "cache", bundle=tmp_path / "b", commit=laid)
    folder = await checkout(mirror, laid, tmp_path / "cache")
    assert sorted(path.name for path in folder.iterdir()) == [".git", "a", "b", "tests"]


async def test_a_partial_clone_that_lacks_files_of_its_base_says_how_they_come(clone: Any, tmp_path: Path):
    cloned = clone("without older files", "--no-checkout")
    head = cloned.git("rev-parse", "HEAD")
    with pytest.raises(CommitMissing, match="partial clone") as failure:
        await bundle(cloned.root, head, tmp_path / "b")
    assert failure.value.hint == "fetch the rest: git fetch --refetch --no-filter"

    cloned.git(*failure.value.hint.removeprefix("fetch the rest: git ").split())
    await bundle(cloned.root, head, tmp_path / "b")


async def test_a_commit_before_a_shallow_clones_history_says_how_it_comes(clone: Any, history: Any, tmp_path: Path):
    cloned, older = clone("shallow"), history.git("rev-parse", "HEAD~2")
    for asked in (
        lambda: bundle(cloned.root, older, tmp_path / "b"),
        lambda: Mirror(cloned.root / ".git").resolve(older),
    ):
        with pytest.raises(CommitMissing) as failure:
            await asked()
        assert failure.value.hint == "the clone is shallow: fetch what it lacks with `git fetch --unshallow`"

    cloned.git("fetch", "--quiet", "--unshallow")
    assert await Mirror(cloned.root / ".git").resolve(older) == older


async def test_a_shallow_clone_that_was_deepened_meanwhile_takes_the_change(clone: Any, history: Any, tmp_path: Path):
    cloned = clone("shallow")
    mirror, base = await mirror_from(cloned, tmp_path)
    cloned.git("branch", "work", "HEAD")
    cloned.git("fetch", "--quiet", "--unshallow")
    cloned.git("branch", "older", "HEAD~")
    merged = await merge_patches(mirror, base, [ONE])

    for branch in ("work", "older"):
        await publish_branch(cloned.root, mirror, branch, merged.commit)
    assert len(cloned.git("rev-list", "older").split()) == 6 and cloned.git("fsck", "--full", "--strict") == ""


async def test_a_repository_without_the_base_of_a_shallow_clones_change_stays_as_it_is(
    clone: Any, history: Any, make_repository: Any, tmp_path: Path
):
    """Its history would have a hole: `git fsck` would call it broken from then on."""
    mirror, base = await mirror_from(clone("shallow"), tmp_path)
    merged = await merge_patches(mirror, base, [ONE])
    other = make_repository("other")
    other.commit({"a": "of its own\n"})

    with pytest.raises(BranchRefused, match="does not have the history") as failure:
        await publish_branch(other.root, mirror, "work", merged.commit)
    assert "git fetch --unshallow" in failure.value.hint
    with pytest.raises(BranchRefused, match="does not have the history") as failure:
        await push_branch(Remote(other.root.as_uri(), ("file",)), mirror, "work", merged.commit, known=())
    assert "git fetch --unshallow" in failure.value.hint
    assert other.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert other.git("fsck", "--full", "--strict") == ""
