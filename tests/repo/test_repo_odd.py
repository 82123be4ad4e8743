"""Repositories that are not just files: submodules, LFS, shallow and broken ones, and a disk without room."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from repo.bundle import bundle
from repo.checkout import checkout, index_of
from repo.content import lines_with
from repo.errors import CheckoutFailed, CommitMissing, DiskFull, OutputTooLarge, RepositoryMissing
from repo.local import describe
from repo.mirror import mirror_of
from repo.patch import apply_to_tree, extract_patch
from repo.pointed import commit_at

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 123456\n"
LFS = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
SUBMODULE_WARNING = "sub is a submodule: what changed in it was left out"
SMALL_DISK_BYTES = 2 * 1024 * 1024


def changes(patch: Any) -> set[tuple[str, str]]:
    return {(change.status, change.path) for change in patch.files}


@pytest.fixture
async def with_submodule(work_on: Any, user: Any, make_repository: Any) -> Any:
    """A base that points at a commit of another repository, as `git clone` leaves it: an empty folder."""
    library = make_repository("library")
    library.commit({"inside.py": "x = 1\n"})
    user.commit({"a": "1\n"})
    user.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "sub")
    return await work_on({"b": "1\n"}), library


async def test_a_submodule_is_an_empty_folder_and_nothing_is_fetched(with_submodule: Any):
    work, _ = with_submodule
    (work.tree / "a").write_text("2\n")
    patch = await work.patch()

    assert list((work.tree / "sub").iterdir()) == []
    assert changes(patch) == {("M", "a")} and patch.warnings == ()
    assert await apply_to_tree(work.mirror.git_dir, work.base, patch.diff) == patch.tree


@pytest.mark.parametrize("how", ["written into the empty folder", "cloned and changed", "copied without a history"])
async def test_what_lies_in_a_submodule_is_left_out_and_said(with_submodule: Any, how: str):
    work, library = with_submodule
    folder = work.tree / "sub"
    if how != "written into the empty folder":
        folder.rmdir()
        subprocess.run(["git", "clone", "--quiet", str(library.root), str(folder)], check=True)
    if how == "copied without a history":
        shutil.rmtree(folder / ".git")
    (folder / "new.py").write_text("y = 2\n")
    (work.tree / "a").write_text("2\n")

    patch = await work.patch()
    assert changes(patch) == {("M", "a")} and patch.warnings == (SUBMODULE_WARNING,)


@pytest.mark.parametrize(("how", "expected"), [("removed", ("D", "sub")), ("replaced by a file", ("T", "sub"))])
async def test_a_submodule_that_goes_stands_in_the_patch(with_submodule: Any, how: str, expected: tuple[str, str]):
    work, _ = with_submodule
    (work.tree / "sub").rmdir()
    if how == "replaced by a file":
        (work.tree / "sub").write_text("a file\n")

    patch = await work.patch()
    assert changes(patch) == {expected} and patch.warnings == ()
    assert await apply_to_tree(work.mirror.git_dir, work.base, patch.diff) == patch.tree


async def test_pointers_of_lfs_stay_pointers_and_what_replaces_one_is_in_the_patch(work_on: Any, tmp_path: Path):
    """No filter runs, on either way: a configured one would leave a trace."""
    work = await work_on({".gitattributes": LFS, "large.bin": POINTER, "kept.bin": POINTER, "a": "1\n"})
    for way in ("clean", "smudge", "process"):
        trap = ["config", f"filter.lfs.{way}", f"touch {tmp_path}/ran"]
        subprocess.run(["git", "-C", str(work.tree), *trap], check=True)
    assert (work.tree / "large.bin").read_text() == (work.tree / "kept.bin").read_text() == POINTER
    assert (await work.patch()).empty

    (work.tree / "large.bin").write_bytes(b"\0\1the real thing")
    (work.tree / "new.bin").write_text(POINTER.replace("123456", "7"))
    patch = await work.patch()

    assert changes(patch) == {("M", "large.bin"), ("A", "new.bin")} and not (tmp_path / "ran").exists()
    assert await apply_to_tree(work.mirror.git_dir, work.base, patch.diff) == patch.tree


async def test_a_large_file_of_the_base_is_left_out_only_when_it_was_touched(work_on: Any):
    work = await work_on({"a": "1\n", "large": "x" * 5000, "other": "y" * 5000})
    (work.tree / "a").write_text("2\n")
    patch = await work.patch(max_bytes=4000)
    assert changes(patch) == {("M", "a")} and patch.warnings == ()

    (work.tree / "large").write_text("z" * 5000)
    patch = await work.patch(max_bytes=4000)
    assert changes(patch) == {("M", "a")}
    assert patch.warnings == ("large is larger than 4000 bytes and was left out",)


async def test_a_patch_on_a_shallow_base_applies_in_the_shallow_clone(user: Any, tmp_path: Path):
    for n in range(3):
        user.commit({"a": f"{n}\n"})
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{user.root}", str(shallow)], check=True)
    base = user.git("rev-parse", "HEAD")
    await bundle(shallow, base, tmp_path / "b")
    mirror = await mirror_of(tmp_path / "cache", bundle=tmp_path / "b", commit=base)
    tree = await checkout(mirror, base, tmp_path / "cache")
    (tree / "a").write_text("changed\n")
    patch = await extract_patch(git_dir=mirror.git_dir, base=base, work_tree=tree, index_seed=index_of(tree))
    subprocess.run(["git", "-C", str(shallow), "apply"], input=patch.diff, check=True)
    assert (shallow / "a").read_text() == "changed\n"


@pytest.mark.parametrize("name", ["new\nline/a\nb", "-rf\n", "tab\t\n\x1b[2J"])
async def test_a_base_with_newlines_in_its_paths_is_checked_out_and_patched(work_on: Any, name: str):
    work = await work_on({name: "1\n"})
    assert (work.tree / name).read_text() == "1\n"
    (work.tree / name).write_text("2\n")
    (work.tree / f"{name}.new").write_text("3\n")

    patch = await work.patch()
    assert changes(patch) == {("M", name), ("A", f"{name}.new")}
    assert await apply_to_tree(work.mirror.git_dir, work.base, patch.diff) == patch.tree


@pytest.fixture
def odd_commit(user: Any) -> Callable[[str], str]:
    """A commit with one file of a name that no work tree takes; made past git's checks of an index."""

    def make(name: str) -> str:
        blob = user.git("hash-object", "-w", "--stdin", text="x")
        tree = user.git("mktree", "-z", text=f"100644 blob {blob}\t{name}\0")
        commit = user.git("commit-tree", tree, "-m", "odd")
        user.git("update-ref", "refs/heads/main", commit)
        return commit

    return make


@pytest.mark.parametrize(("name", "why"), [("n" * 300, "too long"), (".GIT", "invalid path"), ("..", "invalid path")])
async def test_a_checkout_that_fails_says_which_path_and_leaves_nothing(
    odd_commit: Any, user: Any, mirror_at: Any, tmp_path: Path, name: str, why: str
):
    commit = odd_commit(name)
    with pytest.raises(CheckoutFailed, match=why) as failed:
        await checkout(await mirror_at(user, commit), commit, tmp_path / "cache")

    assert name[:200] in str(failed.value) and "\n" not in str(failed.value) and failed.value.hint
    assert [path.suffix for path in (tmp_path / "cache/checkouts").rglob("*") if not path.is_dir()] == [".lock"]


async def test_a_commit_whose_objects_are_not_all_there_is_a_checkout_that_fails(
    work_on: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    work = await work_on({"a": "1\n"})
    lost = subprocess.check_output(["git", "-C", work.mirror.git_dir, "rev-parse", f"{work.base}:a"], text=True).strip()
    pack = next((work.mirror.objects / "pack").glob("*.pack"))
    whole = tmp_path / "whole.pack"
    shutil.copy(pack, whole)
    for file in (work.mirror.objects / "pack").iterdir():
        file.unlink()
    with whole.open("rb") as objects:
        subprocess.run(["git", "-C", work.mirror.git_dir, "unpack-objects", "-q"], stdin=objects, check=True)
    (work.mirror.objects / lost[:2] / lost[2:]).unlink()

    with pytest.raises(CheckoutFailed, match=lost) as failed:
        await checkout(work.mirror, work.base, tmp_path / "another")
    assert "git fsck" in failed.value.hint


async def test_a_base_that_does_not_exist_is_named_with_what_would_work(work_on: Any, user: Any, tmp_path: Path):
    work = await work_on({"a": "1\n"})
    for ask in (
        lambda: mirror_of(tmp_path / "c", url=str(user.root), commit="no-such-branch", protocols=("file",)),
        lambda: mirror_of(tmp_path / "c", url=str(user.root), commit="0" * 40, protocols=("file",)),
        lambda: checkout(work.mirror, "0" * 40, tmp_path / "c"),
    ):
        with pytest.raises(CommitMissing) as missing:
            await ask()
        assert "push it" in missing.value.hint


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounts a small disk, which takes root")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


async def test_a_full_disk_is_said_and_nothing_half_made_stays(work_on: Any, tmp_path: Path, small_disk: Path):
    work = await work_on({f"f{n}": os.urandom(SMALL_DISK_BYTES // 4) for n in range(4)})
    with pytest.raises(DiskFull, match="disk is full"):
        await checkout(work.mirror, work.base, small_disk)
    left = [path for path in small_disk.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []

    await bundle(tmp_path / "user", work.base, tmp_path / "b")
    with pytest.raises(DiskFull, match="disk is full"):
        await mirror_of(small_disk, bundle=tmp_path / "b", commit=work.base)
    with pytest.raises(DiskFull, match="disk is full"):
        await bundle(tmp_path / "user", work.base, small_disk / "b")
    assert not (small_disk / "b").exists()


@pytest.mark.parametrize(
    ("count", "size_bytes"), [(600, 10), (3, SMALL_DISK_BYTES // 5)], ids=["many small files", "few large ones"]
)
async def test_a_disk_that_fills_while_files_are_written_is_no_matter_of_their_names(
    work_on: Any, small_disk: Path, count: int, size_bytes: int
):
    """git says of either that it is unable to write a file, and not why. Large ones lie there packed already."""
    work = await work_on({f"f{n}": os.urandom(size_bytes) for n in range(count)})
    with pytest.raises(DiskFull, match=f"no space left in {small_disk}") as failure:
        await checkout(work.mirror, work.base, small_disk)
    assert "free some" in failure.value.hint and "rename" not in failure.value.hint


async def test_a_file_that_cannot_be_written_for_another_reason_is_no_full_disk(
    odd_commit: Any, user: Any, tmp_path: Path
):
    base = odd_commit("x" * 300)
    await bundle(user.root, base, tmp_path / "b")
    mirror = await mirror_of(tmp_path / "cache", bundle=tmp_path / "b", commit=base)
    with pytest.raises(CheckoutFailed) as failure:
        await checkout(mirror, base, tmp_path / "cache")
    assert "rename such a path" in failure.value.hint


@pytest.fixture
def of_sha256(user: Any, tmp_path: Path) -> Any:
    made = type(user)(tmp_path / "sha256")
    made.root.mkdir()
    made.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    made.commit({"a": "1\n"})
    made.git("bundle", "create", "--quiet", "all", "main")
    return made


async def test_a_repository_of_sha256_is_refused_by_its_name(of_sha256: Any, user: Any, tmp_path: Path):
    head, url = of_sha256.git("rev-parse", "HEAD"), of_sha256.root.as_uri()
    ways: list[Callable[[], Awaitable[object]]] = [
        lambda: describe(of_sha256.root),
        lambda: bundle(of_sha256.root, head, tmp_path / "b"),
        lambda: mirror_of(tmp_path / "cache", bundle=of_sha256.root / "all", commit=head),
        lambda: mirror_of(tmp_path / "cache", url=url, commit="main", protocols=("file",)),
        lambda: commit_at(url, "main", protocols=("file",)),
    ]
    for way in ways:
        with pytest.raises(RepositoryMissing, match="names its objects by SHA256, which Muster cannot read") as failure:
            await way()
        assert "git fast-export --all" in failure.value.hint

    export = subprocess.run(["git", "-C", str(of_sha256.root), "fast-export", "--all"], capture_output=True, check=True)
    subprocess.run(["git", "-C", str(user.root), "fast-import", "--quiet"], input=export.stdout, check=True)
    await bundle(user.root, user.git("rev-parse", "main"), tmp_path / "b")


def tree(user: Any, *entries: tuple[str, str, str]) -> str:
    """The id of a tree that names these objects: mode, id, name."""
    kinds = {"040000": "tree", "100644": "blob"}
    lines = "".join(f"{mode} {kinds[mode]} {each}\t{name}\n" for mode, each, name in entries)
    command = ["git", "-C", str(user.root), "mktree"]
    return subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout.strip()


async def mirrored(user: Any, root: str, tmp_path: Path) -> Any:
    base = user.git("commit-tree", "-m", "bomb", root).strip()
    user.git("update-ref", "refs/heads/bomb", base)
    await bundle(user.root, base, tmp_path / "bomb")
    return await mirror_of(tmp_path / "cache", bundle=tmp_path / "bomb", commit=base), base


async def test_a_commit_that_names_billions_of_files_is_refused_before_one_is_written(
    user: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A dozen objects: each tree names the one below it forty times."""
    for module in ("repo.weight", "repo.content"):  # the first megabytes are as good as a hundred
        monkeypatch.setattr(f"{module}.MAX_LISTING_BYTES", 1 << 22)
    user.commit({"a": "x"})
    level = [("100644", user.git("rev-parse", "HEAD:a").strip(), f"f{n:02}" * 20) for n in range(40)]
    for _ in range(6):
        level = [("040000", tree(user, *level), f"d{n:02}" * 20) for n in range(40)]
    mirror, base = await mirrored(user, tree(user, *level), tmp_path)

    with pytest.raises(CheckoutFailed, match="more than a million"):
        await checkout(mirror, base, tmp_path / "cache")
    with pytest.raises(OutputTooLarge):
        await mirror.files(base)
    assert list((tmp_path / "cache" / "checkouts").rglob("*.part")) == []


async def test_files_that_are_larger_than_the_disk_are_not_begun(user: Any, tmp_path: Path):
    """Eight megabytes of zeros, named five thousand times: the bundle has a few hundred kilobytes."""
    user.commit({"a": "x"})
    make = f"head -c {1 << 23} /dev/zero | git -C {user.root} hash-object -w --stdin"
    zeros = subprocess.run(make, shell=True, check=True, capture_output=True, text=True).stdout.strip()
    mirror, base = await mirrored(user, tree(user, *(("100644", zeros, f"z{n:04}") for n in range(5000))), tmp_path)

    with pytest.raises(CheckoutFailed, match="39 GiB of at most 32"):
        await checkout(mirror, base, tmp_path / "cache")


async def test_lines_with_a_word_are_found_in_any_file_whatever_its_attributes_say(user: Any, mirror_at: Any):
    files = {
        "a.py": "x = median\n",
        "b/c.py": "medians = 1\n# median: no\n",
        "d.bin": b"\x00 median\n",
        "ü b": "median",
    }
    commit = user.commit(files | {".gitattributes": "*.py binary\n"})
    mirror = await mirror_at(user, commit)

    found = await lines_with(mirror.git_dir, commit, ["median", "--help"], max_bytes=1000)
    assert sorted(found) == [
        ("a.py", "x = median"),
        ("b/c.py", "# median: no"),
        ("d.bin", "\0 median"),
        ("ü b", "median"),
    ]
    assert await lines_with(mirror.git_dir, commit, ["nowhere"], max_bytes=1000) == []
    with pytest.raises(OutputTooLarge):
        await lines_with(mirror.git_dir, commit, ["median"], max_bytes=10)
