"""The user's own repository: read with care, and one branch set."""

from __future__ import annotations

import asyncio
import os

import pytest

from repo.errors import BranchRefused, CommitMissing, RepositoryMissing
from repo.git import git
from repo.local import apply_diff, describe, locate
from repo.publish import publish_branch

NEW_FILE = b"diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+1\n"


@pytest.fixture
def published(user, mirror_at):
    """A user's repository, its mirror, and a way to make commits which exist in the mirror alone."""

    async def make():
        base = user.commit({"a": "1\n"})
        mirror = await mirror_at(user, base)

        async def commit_on(parent, message):
            commit = ("commit-tree", f"{base}^{{tree}}", "-p", parent, "-m", message)
            return (await git(*commit, git_dir=mirror.git_dir)).line

        return base, mirror, commit_on

    return make


def branch(user, name):
    return user.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{name}")


async def test_a_repository_is_described_from_any_folder_inside(user):
    head = user.commit({"src/a": "1\n", ".gitignore": "*.log\n"})
    (user.root / ".git/info/exclude").write_text("mine\n")
    for name in ("mine", "x.log", "new", "src/new"):
        (user.root / name).write_text("?\n")
    (user.root / "src/a").write_text("2\n")

    found = await describe(user.root / "src")

    assert (found.root, found.git_dir, found.head, found.branch) == (user.root, user.root / ".git", head, "main")
    assert found.dirty == ("src/a",) and found.untracked == ("new", "src/new")


async def test_a_detached_head_has_no_branch_and_a_staged_change_is_dirty(user):
    head = user.commit({"a": "1\n"})
    user.git("checkout", "--quiet", "--detach")
    (user.root / "b").write_text("1\n")
    user.git("add", "b")
    found = await describe(user.root)
    assert (found.head, found.branch, found.dirty) == (head, None, ("b",))


async def test_a_linked_work_tree_is_described_as_itself(user, tmp_path):
    head = user.commit({"a": "1\n"})
    user.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    (tmp_path / "linked/a").write_text("2\n")
    found = await describe(tmp_path / "linked")
    assert (found.root, found.head, found.branch, found.dirty) == (tmp_path / "linked", head, "side", ("a",))


@pytest.mark.parametrize("place", ["home", "clone", "victim"])
async def test_a_folder_of_a_clone_that_looks_like_a_repository_leads_nowhere_else(user, tmp_path, place):
    """git takes `core.worktree` of such a folder's settings for its own, and a clone may bring one."""
    user.commit({"a": "1\n"})
    home, victim = tmp_path / "home", user.root
    (home / "clone").mkdir(parents=True)
    fake = home / "clone" / "docs"
    user.git("clone", "--quiet", "--bare", ".", str(fake))
    top = {"home": home, "clone": home / "clone", "victim": victim}[place]
    for name, value in {"core.bare": "false", "core.worktree": str(top)}.items():
        user.git("config", "--file", str(fake / "config"), name, value)

    with pytest.raises(RepositoryMissing, match="leads elsewhere") as refused:
        await apply_diff(NEW_FILE, fake)

    assert refused.value.hint and not (top / "new").exists()


@pytest.mark.parametrize("linked", ["objects", "refs", "packed-refs", "common"])
async def test_a_bare_repository_of_links_is_none(user, tmp_path, linked):
    user.commit({"a": "1\n"})
    fake = tmp_path / "clone.git"
    user.git("clone", "--quiet", "--bare", ".", str(fake))
    assert (await locate(fake)).bare
    if linked == "common":
        (fake / "commondir").write_text(f"{user.root}/.git\n")
    else:
        (fake / linked).rename(tmp_path / "moved")
        (fake / linked).symlink_to(tmp_path / "moved")

    with pytest.raises(RepositoryMissing):
        await locate(fake)


async def test_a_submodule_is_a_repository_of_its_own(user, tmp_path):
    user.commit({"a": "1\n"})
    outer = tmp_path / "outer"
    user.git("init", "--quiet", str(outer))
    words = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(user.root), "inner")
    user.git("-C", str(outer), *words)

    assert (await locate(outer / "inner")).root == outer / "inner"


async def test_no_repository_and_no_commit_are_told_apart(user, tmp_path):
    with pytest.raises(RepositoryMissing, match="no folder"):
        await describe(tmp_path / "nowhere")
    (tmp_path / "plain").mkdir()
    with pytest.raises(RepositoryMissing, match="not in a git repository") as plain:
        await describe(tmp_path / "plain")
    with pytest.raises(CommitMissing, match="no commit yet") as empty:
        await describe(user.root)
    assert plain.value.hint and empty.value.hint


async def test_a_branch_is_made_and_moved_forward(user, published):
    base, mirror, commit_on = await published()
    first = await commit_on(base, "first")
    second = await commit_on(first, "second")
    for commit in (first, second, second):
        await publish_branch(user.root, mirror, "muster/work", commit)
        assert branch(user, "muster/work") == commit
    assert user.git("fsck", "--full", "--strict") == ""
    assert user.git("log", "--format=%s", "muster/work").split("\n") == ["second", "first", "change"]


async def test_a_branch_reaches_a_shallow_clone_and_a_bare_repository(user, published, make_repository):
    base, mirror, commit_on = await published()
    commit = await commit_on(base, "next")
    shallow = make_repository("shallow")
    shallow.git("fetch", "--quiet", "--depth=1", user.root.as_uri(), "main")
    shallow.git("reset", "--quiet", "--hard", "FETCH_HEAD")
    user.git("clone", "--quiet", "--bare", ".", str(shallow.root / "bare.git"))

    for repository in (shallow.root, shallow.root / "bare.git"):
        await publish_branch(repository, mirror, "work", commit)
        shallow.git("--git-dir", str((await describe(repository)).git_dir), "fsck", "--full", "--strict")
        listed = shallow.git("--git-dir", str((await describe(repository)).git_dir), "rev-list", "work")
        assert listed.split() == [commit, base]


async def test_a_branch_with_other_work_stays_unless_it_is_ours(user, published):
    base, mirror, commit_on = await published()
    ours, other = await commit_on(base, "ours"), await commit_on(base, "other")
    await publish_branch(user.root, mirror, "work", ours)

    with pytest.raises(BranchRefused, match="holds work"):
        await publish_branch(user.root, mirror, "work", other)
    with pytest.raises(BranchRefused, match="somebody else"):
        await publish_branch(user.root, mirror, "work", other, expected_old=base)
    assert branch(user, "work") == ours

    await publish_branch(user.root, mirror, "work", other, expected_old=ours)
    assert branch(user, "work") == other


@pytest.mark.parametrize("name", ["main", "side"])
async def test_a_checked_out_branch_is_never_moved(user, published, tmp_path, name):
    base, mirror, commit_on = await published()
    user.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    with pytest.raises(BranchRefused, match="checked out"):
        await publish_branch(user.root, mirror, name, await commit_on(base, "next"))
    assert branch(user, name) == base


@pytest.mark.parametrize("name", ["", "-x", "a..b", "main/below", "a b", "../../config"])
async def test_a_name_that_cannot_be_a_branch_is_refused(user, published, name):
    base, mirror, commit_on = await published()
    with pytest.raises(BranchRefused):
        await publish_branch(user.root, mirror, name, await commit_on(base, "next"))
    assert user.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"


async def test_of_two_who_publish_at_once_one_wins_and_the_other_is_told(user, published):
    base, mirror, commit_on = await published()
    old = await commit_on(base, "old")
    await publish_branch(user.root, mirror, "work", old)
    commits = [await commit_on(old, name) for name in ("one", "two")]

    outcomes = await asyncio.gather(
        *(publish_branch(user.root, mirror, "work", commit, expected_old=old) for commit in commits),
        return_exceptions=True,
    )

    refused = [outcome for outcome in outcomes if outcome is not None]
    assert len(refused) == 1 and isinstance(refused[0], BranchRefused)
    assert branch(user, "work") == commits[outcomes.index(None)]


async def test_two_who_publish_the_same_commit_at_once_both_have_done_it(user, published):
    base, mirror, commit_on = await published()
    commit = await commit_on(base, "next")

    await asyncio.gather(*(publish_branch(user.root, mirror, "work", commit) for _ in range(4)))

    assert branch(user, "work") == commit


async def test_no_filter_of_the_repository_runs_when_a_diff_is_applied(user, tmp_path):
    user.git("config", "filter.evil.clean", f"touch {tmp_path}/ran; cat")
    user.git("config", "filter.evil.smudge", f"touch {tmp_path}/ran; cat")
    diff = b"""\
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+new
"""
    (user.root / ".gitattributes").write_text("* filter=evil\n")

    await apply_diff(diff, user.root)

    assert (user.root / "new.txt").read_text() == "new\n"
    assert not (tmp_path / "ran").exists()


STEPS = 8  # git commands of one publication


@pytest.mark.parametrize("step", range(1, STEPS + 1))
async def test_an_interrupt_at_any_step_leaves_no_half_written_branch(user, published, tmp_path, monkeypatch, step):
    """A `git` in front of git reports its call number `step`, and hangs there until it is interrupted."""
    base, mirror, commit_on = await published()
    commit = await commit_on(base, "next")
    os.mkfifo(tmp_path / "reached")
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f"""#!/bin/sh
        echo >> '{tmp_path}/calls'
        PATH=${{PATH#*:}}
        if [ $(wc -l < '{tmp_path}/calls') = {step} ]; then echo > '{tmp_path}/reached'; sleep 1000; fi
        exec git "$@"
        """
    )
    wrapper.chmod(0o755)

    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
        task = asyncio.create_task(publish_branch(user.root, mirror, "work", commit))
        await asyncio.to_thread((tmp_path / "reached").read_text)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert branch(user, "work") == ""
    assert not list(user.root.rglob(".git/**/*.lock"))
    await publish_branch(user.root, mirror, "work", commit)
    assert branch(user, "work") == commit
    assert user.git("fsck", "--full", "--strict") == ""
