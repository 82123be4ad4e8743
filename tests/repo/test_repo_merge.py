"""Many patches, one line of commits."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from repo.changes import FileChange
from repo.errors import PatchRefused
from repo.footprint import Overlap, overlaps
from repo.git import git
from repo.merge import merge_patches
from repo.merge_resolve import open_conflict
from repo.merge_sides import Changeset, Side, sides_of
from repo.patch import extract_patch

LINES = "".join(f"{n}\n" for n in range(40))


def change(path, old_path=None):
    return FileChange(path, "R" if old_path else "M", old_path, 1, 1, "100644")


@pytest.fixture
def shard_of(user, mirror_at, tmp_path):
    """A shard as a work tree makes it: `edit` writes (or, with None, removes) files of the base."""

    async def make(base, key, edit):
        mirror = await mirror_at(user, base)
        tree = tmp_path / "trees" / key
        user.git("worktree", "add", "--quiet", "--detach", str(tree), base)
        for name, content in edit.items():
            if content is None:
                (tree / name).unlink()
            else:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_text(content)
        patch = await extract_patch(git_dir=mirror.git_dir, base=base, work_tree=tree)
        return Changeset(key, patch.diff, f"Change {key}", patch.files)

    return make


def keys_of(merged):
    return tuple(one.key for one in merged.landed)


async def read(mirror, commit, path):
    return (await git("cat-file", "blob", f"{commit}:{path}", git_dir=mirror.git_dir)).stdout.decode()


async def test_disjoint_patches_become_one_commit_each_in_the_callers_order(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n", "b": "1\n", "c": "1\n"})
    mirror = await mirror_at(user, base)
    shards = [await shard_of(base, key, {key: f"{key}\n", f"new/{key}": "n\n"}) for key in ("c", "a", "b")]

    merged = await merge_patches(mirror, base, shards)

    assert keys_of(merged) == ("c", "a", "b") and merged.collisions == ()
    log = await git("log", "--format=%s|%(trailers:key=Muster-Shard,valueonly)", merged.commit, git_dir=mirror.git_dir)
    assert [line for line in log.line.splitlines() if line] == ["Change b|b", "Change a|a", "Change c|c", "change|"]
    assert [await read(mirror, merged.commit, f"new/{key}") for key in "abc"] == ["n\n"] * 3


async def test_the_same_input_gives_the_same_commit_and_any_order_the_same_tree(user, mirror_at, shard_of):
    base = user.commit({f"f{n}": f"{n}\n" for n in range(6)})
    mirror = await mirror_at(user, base)
    shards = [await shard_of(base, f"k{n}", {f"f{n}": "changed\n"}) for n in range(6)]
    shuffled = random.Random(7).sample(shards, k=6)

    first, again, other = [await merge_patches(mirror, base, order) for order in (shards, shards, shuffled)]

    assert first == again and first.commit != other.commit
    assert await tree_of(mirror, first.commit) == await tree_of(mirror, other.commit)


async def tree_of(mirror, commit):
    return (await git("rev-parse", f"{commit}^{{tree}}", git_dir=mirror.git_dir)).line


async def test_edits_of_one_file_that_keep_apart_are_merged(user, mirror_at, shard_of):
    base = user.commit({"a": LINES})
    mirror = await mirror_at(user, base)
    top = await shard_of(base, "top", {"a": LINES.replace("0\n", "zero\n", 1)})
    end = await shard_of(base, "end", {"a": LINES + "end\n"})
    merged = await merge_patches(mirror, base, [top, end])
    assert keys_of(merged) == ("top", "end")
    assert await read(mirror, merged.commit, "a") == LINES.replace("0\n", "zero\n", 1) + "end\n"


async def test_an_edit_follows_a_rename(user, mirror_at, shard_of):
    base = user.commit({"old": LINES, "b": "1\n"})
    mirror = await mirror_at(user, base)
    renamed = await shard_of(base, "rename", {"old": None, "new": LINES})
    edited = await shard_of(base, "edit", {"old": LINES + "end\n"})
    merged = await merge_patches(mirror, base, [renamed, edited])
    assert merged.collisions == ()
    assert await read(mirror, merged.commit, "new") == LINES + "end\n"


def within(*folders):
    return lambda path: path.startswith(folders)


async def test_an_edit_follows_no_rename_to_where_its_author_may_not_edit(user, mirror_at, shard_of):
    base = user.commit({"shared/x": LINES, "shared/y": LINES + "y\n", "a/old": "1\n"})
    mirror = await mirror_at(user, base)
    away = await shard_of(base, "a", {"shared/x": None, "a/x": LINES, "a/old": "2\n"})
    kept = await shard_of(base, "b", {"shared/x": LINES + "end\n", "shared/y": "mine\n"})
    beside = await shard_of(base, "c", {"b/new": "new\n"})
    shards = [
        replace(away, allowed=within("a/", "shared/")),
        replace(kept, allowed=within("b/", "shared/")),
        replace(beside, allowed=within("b/", "shared/")),
    ]

    merged = await merge_patches(mirror, base, shards)

    assert keys_of(merged) == ("a", "c")
    [collision] = merged.collisions
    assert (collision.key, collision.other_keys, collision.paths) == ("b", ("a",), ("a/x", "shared/x"))
    assert collision.detail == "CONFLICT (scope): shared/x has become a/x, which this patch may not change"
    assert await read(mirror, merged.commit, "a/x") == LINES
    assert await read(mirror, merged.commit, "shared/y") == LINES + "y\n"


async def test_an_edit_follows_no_rename_that_two_other_patches_are_taken_for(user, mirror_at, shard_of):
    """One removes a file, another one has its like: git sees one rename in both."""
    base = user.commit({"shared/x": LINES, "b/b": "1\n"})
    mirror = await mirror_at(user, base)
    shards = [
        await shard_of(base, "gone", {"shared/x": None}),
        await shard_of(base, "like", {"a/x": LINES}),
        replace(await shard_of(base, "edit", {"shared/x": LINES + "end\n"}), allowed=within("b/", "shared/")),
    ]

    merged = await merge_patches(mirror, base, shards)

    [collision] = merged.collisions
    assert (collision.key, collision.other_keys) == ("edit", ("gone", "like"))
    assert "shared/x has become a/x" in collision.detail


@pytest.mark.parametrize("own", ["shared/new", "shared/deep/new"])
async def test_a_new_file_follows_no_folder_that_was_moved(user, mirror_at, shard_of, own):
    base = user.commit({f"shared/{name}": f"{name}\n" + LINES for name in ("one", "two")} | {"shared/deep/x": "1\n"})
    mirror = await mirror_at(user, base)
    here = {f"shared/{name}": None for name in ("one", "two")} | {"shared/deep/x": None}
    there = {f"a/{name}": f"{name}\n" + LINES for name in ("one", "two")} | {"a/deep/x": "1\n"}
    shards = [
        replace(await shard_of(base, "a", here | there), allowed=within("a/", "shared/")),
        replace(await shard_of(base, "b", {own: "new\n"}), allowed=within("shared/")),
    ]
    for order in permutations(shards):
        merged = await merge_patches(mirror, base, order)
        assert [one.key for one in merged.collisions] == [order[1].key]


async def test_an_edit_follows_a_file_into_a_folder_of_its_name_only_within_its_grant(user, mirror_at, shard_of):
    base = user.commit({"shared/x": LINES})
    mirror = await mirror_at(user, base)
    folder = await shard_of(base, "folder", {"shared/x": None, "shared/x.d/x": LINES})
    edited = await shard_of(base, "edit", {"shared/x": LINES + "end\n"})
    outcomes = []
    for allowed in within("shared/"), within("shared/x.d", "shared/x"), lambda path: path == "shared/x":
        merged = await merge_patches(mirror, base, [folder, replace(edited, allowed=allowed)])
        outcomes.append([one.key for one in merged.collisions])
    assert outcomes == [[], [], ["edit"]]


async def test_definitions_follow_no_rename_to_where_their_author_may_not_edit(user, mirror_at, shard_of):
    """In conflict by lines, and put together by definitions under the new name."""
    text = "import os\n\n\n" + "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(9))
    base = user.commit({"shared/x.py": text})
    mirror = await mirror_at(user, base)
    away = await shard_of(base, "a", {"shared/x.py": None, "a/x.py": text + "def mine():\n    return 1\n"})
    added = await shard_of(base, "b", {"shared/x.py": text + "def other():\n    return 2\n"})

    free = await merge_patches(mirror, base, [away, added])
    held = await merge_patches(mirror, base, [away, replace(added, allowed=within("shared/"))])

    assert [(one.key, one.level) for one in free.landed] == [("a", "as it is"), ("b", "entities")]
    assert [(one.key, one.paths) for one in held.collisions] == [("b", ("a/x.py", "shared/x.py"))]


MODE = b"diff --git a/shared/x b/shared/x\nold mode 100644\nnew mode 100755\n"
LINK = b"""diff --git a/%s b/%s
new file mode 120000
--- /dev/null
+++ b/%s
@@ -0,0 +1 @@
+../a
\\ No newline at end of file
"""


async def test_a_mode_follows_no_rename_to_where_its_author_may_not_edit(user, mirror_at, shard_of):
    base = user.commit({"shared/x": LINES, "a/old": "1\n"})
    mirror = await mirror_at(user, base)
    away = await shard_of(base, "a", {"shared/x": None, "a/x": LINES})
    made = Changeset("b", MODE, "Change b", (change("shared/x"),), within("shared/"))
    merged = await merge_patches(mirror, base, [away, made])
    assert [(one.key, one.paths) for one in merged.collisions] == [("b", ("a/x", "shared/x"))]


@pytest.mark.parametrize("first", ["link", "file"])
@pytest.mark.parametrize("gone", [True, False])
async def test_nothing_goes_through_a_link_that_another_patch_makes(user, mirror_at, shard_of, first, gone):
    """In the place of a folder of the base, or of a new one."""
    base = user.commit({"shared/d/x": "1\n", "a/old": "1\n"})
    mirror = await mirror_at(user, base)
    place = "shared/d" if gone else "shared/e"
    removed = await shard_of(base, "gone", {"shared/d/x": None}) if gone else Changeset("gone", b"", "", ())
    files = (*removed.files, FileChange(place, "A", None, 1, 0, "120000"))
    name = place.encode()
    link = Changeset("link", removed.diff + LINK % (name, name, name), "Link", files, within("shared/"))
    file = replace(await shard_of(base, "file", {f"{place}/old": "mine\n"}), allowed=within("shared/"))
    order = [link, file] if first == "link" else [file, link]

    merged = await merge_patches(mirror, base, order)

    assert [one.key for one in merged.collisions] == [order[1].key]
    assert await read(mirror, merged.commit, "a/old") == "1\n"


async def test_nobody_resolves_a_conflict_for_a_patch_outside_of_what_its_author_may_edit(user, mirror_at, shard_of):
    base = user.commit({"shared/x": LINES, "shared/y": "1\n"})
    mirror = await mirror_at(user, base)
    away = await shard_of(base, "a", {"shared/x": None, "a/x": LINES, "shared/y": "2\n"})
    kept = replace(
        await shard_of(base, "b", {"shared/x": LINES + "end\n", "shared/y": "3\n"}), allowed=within("shared/")
    )
    merged = await merge_patches(mirror, base, [away, kept])
    [collision] = merged.collisions
    side = (await sides_of(mirror, base, [away, kept])).of["b"]

    with pytest.raises(PatchRefused, match="shared/x has become a/x, which this patch may not change"):
        await open_conflict(mirror, merged.commit, side.commit, kept.allowed)
    assert await open_conflict(mirror, merged.commit, side.commit, within("a/", "shared/")) is not None
    assert collision.paths == ("shared/y",)


async def test_a_collision_names_both_sides_and_sets_one_patch_aside(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n", "b": "1\n"})
    mirror = await mirror_at(user, base)
    shards = [
        await shard_of(base, "first", {"a": "first\n"}),
        await shard_of(base, "other", {"b": "other\n"}),
        await shard_of(base, "second", {"a": "second\n", "c": "2\n"}),
        await shard_of(base, "last", {"d": "4\n"}),
    ]

    merged = await merge_patches(mirror, base, shards)

    assert keys_of(merged) == ("first", "other", "last")
    [collision] = merged.collisions
    assert (collision.key, collision.other_keys, collision.paths) == ("second", ("first",), ("a",))
    assert collision.detail == "CONFLICT (content): Merge conflict in a"
    both = await read(mirror, collision.tree, "a")
    assert "first\n||||||| " in both and "\n1\n=======\nsecond\n" in both
    assert await read(mirror, merged.commit, "a") == "first\n"
    listed = await git("ls-tree", "--name-only", merged.commit, git_dir=mirror.git_dir)
    assert listed.line.split() == ["a", "b", "d"]


async def test_an_edit_of_a_removed_file_collides(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n", "b": "1\n"})
    mirror = await mirror_at(user, base)
    shards = [await shard_of(base, "remove", {"a": None}), await shard_of(base, "edit", {"a": "2\n"})]
    [collision] = (await merge_patches(mirror, base, shards)).collisions
    assert (collision.key, collision.other_keys, collision.paths) == ("edit", ("remove",), ("a",))
    assert "modify/delete" in collision.detail


async def test_a_file_where_another_patch_makes_a_folder_collides(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n"})
    mirror = await mirror_at(user, base)
    shards = [await shard_of(base, "file", {"x": "f\n"}), await shard_of(base, "folder", {"x/y": "d\n"})]
    merged = await merge_patches(mirror, base, shards)
    assert [(c.key, c.other_keys) for c in merged.collisions] == [("folder", ("file",))]


async def test_the_same_change_twice_is_one_commit(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n"})
    mirror = await mirror_at(user, base)
    shards = [await shard_of(base, key, {"a": "2\n"}) for key in ("one", "two")]
    merged = await merge_patches(mirror, base, shards)
    assert keys_of(merged) == ("one", "two")
    assert (await git("rev-list", "--count", f"{base}..{merged.commit}", git_dir=mirror.git_dir)).line == "1"


async def test_a_similar_place_does_not_attract_a_hunk(user, mirror_at, shard_of):
    """Plain `git apply` would find the context again twelve lines on, where the first patch moved nothing."""
    block = "start\n" + "same\n" * 6 + "end\n"
    base = user.commit({"a": block + block})
    mirror = await mirror_at(user, base)
    cut = await shard_of(base, "cut", {"a": block})
    edit = await shard_of(base, "edit", {"a": block + block.replace("end\n", "END\n")})
    merged = await merge_patches(mirror, base, [cut, edit])
    assert [collision.key for collision in merged.collisions] == ["edit"]
    assert await read(mirror, merged.commit, "a") == block


async def test_a_patch_that_does_not_fit_the_base_is_set_aside_alone(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n", "b": "1\n"})
    mirror = await mirror_at(user, base)
    good = await shard_of(base, "good", {"b": "2\n"})
    bad = Changeset("bad", b"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-7\n+8\n", "Bad", (change("a"),))
    merged = await merge_patches(mirror, base, [bad, good])
    assert keys_of(merged) == ("good",)
    assert (merged.collisions[0].key, merged.collisions[0].other_keys) == ("bad", ())
    assert "does not apply" in merged.collisions[0].detail


async def test_a_patch_that_hides_a_path_is_set_aside_alone(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n", "b": "1\n", "c": "1\n"})
    mirror = await mirror_at(user, base)
    shard = await shard_of(base, "sly", {"a": "2\n", "b": LINES})
    honest = [await shard_of(base, "b", {"b": "3\n"}), await shard_of(base, "c", {"c": "3\n"})]

    merged = await merge_patches(mirror, base, [replace(shard, files=(change("a"),)), *honest])

    assert keys_of(merged) == ("b", "c")
    assert [(one.key, one.detail) for one in merged.collisions] == [
        ("sly", "The patch changes b, which is not among its files")
    ]
    assert [await read(mirror, merged.commit, path) for path in "abc"] == ["1\n", "3\n", "3\n"]


async def test_a_patch_in_another_form_than_gits_stops_no_other_one(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n", "b": "1\n"})
    mirror = await mirror_at(user, base)
    odd = Changeset("odd", b"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n", "Odd", (change("a"),))
    shards = [odd, await shard_of(base, "b", {"b": "2\n"})]
    for order in permutations(shards):
        merged = await merge_patches(mirror, base, order)
        assert merged.collisions == () and await read(mirror, merged.commit, "a") == "2\n"


async def test_no_patches_give_the_base_and_an_empty_one_no_commit(user, mirror_at):
    base = user.commit({"a": "1\n"})
    mirror = await mirror_at(user, base)
    merged = await merge_patches(mirror, base, [Changeset("none", b"", "None", ())])
    assert (merged.commit, keys_of(merged)) == (base, ("none",))


async def test_a_title_cannot_forge_the_message(user, mirror_at, shard_of):
    base = user.commit({"a": "1\n"})
    mirror = await mirror_at(user, base)
    shard = await shard_of(base, "key", {"a": "2\n"})
    merged = await merge_patches(mirror, base, [replace(shard, title="x\n\nMuster-Shard: other\0")])
    message = await git("log", "-1", "--format=%B", merged.commit, git_dir=mirror.git_dir)
    assert message.line.strip() == "x Muster-Shard: other\n\nMuster-Shard: key"


def test_overlaps_are_foretold_by_path_rename_and_folder():
    shards = [
        Changeset("a", b"", "", (change("x"), change("z"))),
        Changeset("b", b"", "", (change("y", old_path="x"),)),
        Changeset("c", b"", "", (change("z/deep/file"),)),
        Changeset("d", b"", "", (change("alone"),)),
    ]
    assert tuple(overlaps(shards)) == (Overlap("a", "b", ("x",)), Overlap("a", "c", ("z", "z/deep/file")))


async def test_several_that_add_to_one_place_make_one_tree_in_any_order(user, mirror_at, shard_of):
    base = user.commit({"a.py": "x = 1\n"})
    mirror = await mirror_at(user, base)
    shards = [
        await shard_of(base, name, {"a.py": f"x = 1\n\n\ndef {name}():\n    return '{name}'\n"})
        for name in ("c", "a", "b")
    ]

    merged = [await merge_patches(mirror, base, order) for order in permutations(shards)]

    assert all(one.collisions == () for one in merged)
    assert len({await tree_of(mirror, one.commit) for one in merged}) == 1
    text = await read(mirror, merged[0].commit, "a.py")
    assert text == "x = 1\n" + "".join(f"\n\ndef {name}():\n    return '{name}'\n" for name in "abc")


async def test_a_file_of_definitions_stays_so_for_who_comes_later(user, mirror_at, shard_of):
    """By lines the third one fits. By definitions it is not clear, and in another order that would show at once."""
    text = "import os\n\n\ndef first():\n    a = 1\n    b = 2\n    c = 3\n    return a\n"
    base = user.commit({"a.py": text})
    mirror = await mirror_at(user, base)
    shards = [
        await shard_of(base, "top", {"a.py": text.replace("a = 1", "a = 10") + "\n\ndef second():\n    return 2\n"}),
        await shard_of(base, "end", {"a.py": text + "\n\ndef third():\n    return 3\n"}),
        await shard_of(base, "inside", {"a.py": text.replace("c = 3", "c = 30")}),
    ]

    for order in permutations(shards):
        merged = await merge_patches(mirror, base, order)
        [collision] = merged.collisions
        assert collision.other_keys and collision.paths == ("a.py",)


async def test_what_the_attributes_forbid_goes_to_a_person_and_not_to_an_agent(user, mirror_at, shard_of):
    base = user.commit({"a.lock": LINES, "a.txt": "1\n", ".gitattributes": "*.lock -merge\n"})
    mirror = await mirror_at(user, base)
    shards = [
        await shard_of(base, "top", {"a.lock": LINES.replace("0\n", "zero\n", 1), "a.txt": "2\n"}),
        await shard_of(base, "end", {"a.lock": LINES + "end\n", "a.txt": "3\n"}),
    ]

    merged = await merge_patches(mirror, base, shards)

    [collision] = merged.collisions
    assert (collision.key, collision.other_keys, collision.paths) == ("end", ("top",), ("a.lock",))
    assert collision.detail == "CONFLICT (attributes): .gitattributes says that a.lock is not merged by lines"
    side = (await sides_of(mirror, base, shards)).of["end"]
    assert isinstance(side, Side) and await open_conflict(mirror, merged.commit, side.commit) is None


async def test_a_path_that_looks_like_a_pathspec_is_a_path(user, mirror_at, shard_of):
    text = "def a():\n    return 1\n\n\ndef b():\n    return 2\n\n\ndef c():\n    return 3\n"
    base = user.commit({":(top)a.py": text})
    mirror = await mirror_at(user, base)
    shards = [
        await shard_of(base, "one", {":(top)a.py": text.replace("return 1", "return 10")}),
        await shard_of(base, "two", {":(top)a.py": text.replace("return 3", "return 30")}),
    ]
    merged = await merge_patches(mirror, base, shards)
    assert keys_of(merged) == ("one", "two")


async def collide(user, mirror_at, shard_of, base, *edits):
    commit = user.commit(base)
    shards = [await shard_of(commit, f"{commit[:9]}{number}", edit) for number, edit in enumerate(edits)]
    merged = await merge_patches(await mirror_at(user, commit), commit, shards)
    return [one.paths for one in merged.collisions]


async def test_a_file_whose_name_is_a_pattern_is_a_file_like_others(user, mirror_at, shard_of):
    page, keep = "export function load() {\n  return 1;\n}\n", "export function keep() {\n  return 1;\n}\n"
    use = "import {{ {0} }} from './[(a+)+';\nexport const id = {0}();\n"
    base = {"[(a+)+.ts": page + keep, "use.ts": use.format("keep")}

    met = await collide(user, mirror_at, shard_of, base, {"[(a+)+.ts": keep}, {"use.ts": use.format("load")})

    assert met == [("[(a+)+.ts", "use.ts")]


async def test_two_files_of_one_text_use_each_what_is_beside_it(user, mirror_at, shard_of):
    lib, keep = "def load(x):\n    return 1\n", "def keep():\n    return 1\n"
    base = {"a/__init__.py": "", "b/__init__.py": "", "a/lib.py": lib + keep, "b/lib.py": lib + keep}
    use = "from .lib import load\n\nload(1)\n"

    met = await collide(user, mirror_at, shard_of, base, {"a/lib.py": keep}, {"b/use.py": use, "a/use.py": use})
    swapped = await collide(user, mirror_at, shard_of, base, {"b/lib.py": keep}, {"b/use.py": use, "a/use.py": use})

    assert (met, swapped) == ([("a/lib.py", "a/use.py")], [("b/lib.py", "b/use.py")])
