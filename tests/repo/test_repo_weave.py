"""Work on top of work: what each piece started from is where it is merged from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from repo.git import git
from repo.patch import apply_to_tree, extract_patch
from repo.weave import Clash, Piece, Weave

BASE = {"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b.txt": "old\n"}


class Loom:
    """Makes pieces as a task does: the state that it starts from, some files changed, and a diff against that."""

    def __init__(self, mirror, base, folder):
        self.mirror, self.base, self.folder = mirror, base, folder
        self.weave = Weave(mirror, base)

    async def files(self, commit: str) -> dict[str, str]:
        names = (await git("ls-tree", "-r", "-z", "--name-only", commit, git_dir=self.mirror.git_dir)).fields
        found = {}
        for name in map(bytes.decode, names):
            found[name] = (
                await git("cat-file", "blob", f"{commit}:{name}", git_dir=self.mirror.git_dir)
            ).stdout.decode()
        return found

    async def piece(self, key: str, *after: str, old: str, new: str, path: str = "a.txt") -> Piece:
        start = await self.weave.state(after)
        tree = self.folder / key
        tree.mkdir()
        for name, text in {**(files := await self.files(start)), path: files[path].replace(old, new)}.items():
            (tree / name).write_text(text)
        patch = await extract_patch(git_dir=self.mirror.git_dir, base=start, work_tree=tree)
        return Piece(key, f"Do {key}", patch.diff, after)

    async def add(self, *words: str, **change: str) -> Clash | None:
        return await self.weave.add(await self.piece(*words, **change))

    async def text(self, *keys: str, path: str = "a.txt") -> str:
        state = await self.weave.state(keys)
        assert isinstance(state, str), state
        return (await self.files(state))[path]


@pytest.fixture
async def loom(user, mirror_at, tmp_path) -> Loom:
    base = user.commit(BASE)
    return Loom(await mirror_at(user, base), base, tmp_path)


async def test_pieces_beside_each_other_and_on_top_of_each_other_come_together(loom):
    await loom.add("a", old="1\n", new="one\n")
    await loom.add("b", old="9\n", new="nine\n")
    await loom.add("c", "a", "b", old="one\n2\n", new="1a\n2\n")
    await loom.add("d", "b", old="nine\n", new="9d\n")

    assert await loom.text("a", "b", "c", "d") == "1a\n2\n3\n4\n5\n6\n7\n8\n9d\n"


async def test_a_piece_that_changes_what_it_started_from_collides_with_nothing(loom):
    await loom.add("a", old="1\n", new="one\n")
    await loom.add("b", old="5\n", new="five\n")
    await loom.add("c", "a", old="one\n", new="uno\n")

    assert await loom.text("a", "c", "b") == "uno\n2\n3\n4\nfive\n6\n7\n8\n9\n"


async def test_what_git_merges_and_what_cannot_stand_is_a_clash(user, mirror_at, tmp_path):
    """One key of an object twice, far apart."""
    base = user.commit({"a.json": '{\n  "a": 1,\n  "b": 2,\n  "c": 3,\n  "d": 4\n}\n'})
    loom = Loom(await mirror_at(user, base), base, tmp_path)
    await loom.add("a", old='  "a"', new='  "x": 5,\n  "a"', path="a.json")
    await loom.add("b", old='  "d"', new='  "x": 6,\n  "d"', path="a.json")
    await loom.add("c", old='  "d"', new='  "y": 6,\n  "d"', path="a.json")

    clash = await loom.weave.state(("a", "b"))

    assert isinstance(clash, Clash) and (clash.key, clash.others, clash.paths) == ("b", ("a",), ("a.json",))
    assert "two meanings" in clash.detail
    assert '"x": 5' in (text := await loom.text("a", "c", path="a.json")) and '"y": 6' in text


async def test_two_that_change_the_same_lines_are_a_clash_with_both_names_and_the_path(loom):
    await loom.add("a", old="old", new="red", path="b.txt")
    await loom.add("other", old="1\n", new="one\n")
    await loom.add("b", old="old", new="blue", path="b.txt")

    clash = await loom.weave.state(("a", "other", "b"))

    assert isinstance(clash, Clash)
    assert (clash.key, clash.others, clash.paths) == ("b", ("a",), ("b.txt",))
    assert "b.txt" in clash.detail
    assert await loom.text("a", "other", path="b.txt") == "red\n"


async def test_a_diff_that_does_not_fit_where_it_started_is_a_clash_with_nobody(loom):
    [piece] = [await loom.piece("a", old="old", new="red", path="b.txt")]
    assert await loom.weave.add(piece) is None

    clash = await loom.weave.add(Piece("b", "again", piece.diff, ("a",)))

    assert clash is not None
    assert (clash.key, clash.others) == ("b", ())
    assert "does not apply" in clash.detail


async def test_the_same_pieces_make_the_same_commits_in_another_process(loom):
    pieces = []
    for words, change in (("a",), ("1\n", "one\n")), (("b",), ("9\n", "nine\n")), (("c", "a"), ("one\n", "uno\n")):
        pieces.append(await loom.piece(*words, old=change[0], new=change[1]))
        await loom.weave.add(pieces[-1])
    other = Weave(loom.mirror, loom.base)

    assert [await other.add(piece) for piece in pieces] == [None] * 3
    assert await other.state(("a", "b", "c")) == await loom.weave.state(("a", "b", "c"))


async def test_paths_are_what_a_piece_really_changes(loom):
    await loom.add("a", old="1\n", new="one\n")
    assert loom.weave.paths("a") == {"a.txt"}


async def test_an_empty_diff_changes_nothing(loom):
    await loom.weave.add(Piece("a", "look", b""))
    assert await loom.text("a") == BASE["a.txt"]
    tree = await apply_to_tree(loom.mirror.git_dir, loom.base, b"")
    assert await loom.mirror.tree(await loom.weave.state(("a",))) == tree


async def test_what_may_not_be_merged_by_lines_is_a_clash(user, mirror_at, tmp_path):
    base = user.commit({"a.txt": BASE["a.txt"], ".gitattributes": "a.txt -merge\n"})
    loom = Loom(await mirror_at(user, base), base, tmp_path)
    await loom.add("a", old="1\n", new="one\n")
    await loom.add("b", old="9\n", new="nine\n")

    clash = await loom.weave.state(["a", "b"])

    assert isinstance(clash, Clash)
    assert (clash.key, clash.others, clash.paths) == ("b", ("a",), ("a.txt",))
    assert clash.detail == "CONFLICT (attributes): .gitattributes says that a.txt is not merged by lines"


async def test_a_piece_follows_no_rename_to_where_its_author_may_not_edit(loom):
    text = BASE["a.txt"]
    moved = "diff --git a/a.txt b/mine/a.txt\nsimilarity index 100%\nrename from a.txt\nrename to mine/a.txt\n"
    assert await loom.weave.add(Piece("a", "Move", moved.encode())) is None
    edit = await loom.piece("b", old="5\n", new="five\n")
    for key, allowed in ("free", None), ("held", lambda path: path == "a.txt"):
        assert await loom.weave.add(replace(edit, key=key, allowed=allowed)) is None

    clash = await loom.weave.state(("a", "held"))

    assert await loom.text("a", "free", path="mine/a.txt") == text.replace("5", "five")
    assert isinstance(clash, Clash)
    assert (clash.key, clash.others, clash.paths) == ("held", ("a",), ("a.txt", "mine/a.txt"))
    assert clash.detail == "CONFLICT (scope): a.txt has become mine/a.txt, which this patch may not change"
