"""The user's own repository: where it is, what state it is in, and how a diff goes into its files."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from .errors import CommitMissing, FolderMissing, GitFailed, PatchRefused, RepositoryMissing, unread_format
from .git import Completed, git
from .scratch import scratch
from .wording import readable

# Settings that only change how bytes are compared; those which name programs stay behind.
HARMLESS_SETTINGS = r"^core\.(autocrlf|eol|filemode|symlinks|ignorecase|trustctime|checkstat)$"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a repository's parts are. `common_dir` differs from `git_dir` in a linked work tree."""

    root: Path
    git_dir: Path
    common_dir: Path
    bare: bool

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"


@dataclass(frozen=True, slots=True)
class LocalRepository:
    """`dirty` are tracked paths that differ from `head`; `untracked` are new ones (folders end in a slash)."""

    place: Place
    head: str
    branch: str | None
    dirty: tuple[str, ...]
    untracked: tuple[str, ...]

    @property
    def root(self) -> Path:
        return self.place.root

    @property
    def git_dir(self) -> Path:
        return self.place.git_dir


async def locate(path: Path) -> Place:
    """Find the repository that holds `path`; `RepositoryMissing` when there is none."""
    parts = ("--git-dir", "--git-common-dir", "--is-bare-repository", "--show-object-format")
    asked = ("rev-parse", "--path-format=absolute", *parts, "--show-toplevel")
    try:
        found = await git(*asked, git_dir=None, cwd=path, ok=(0, 128))  # a bare one has no top, and git says so last
        git_dir, common_dir, bare, object_format, *tops = found.line.split("\n")
        [top] = [git_dir] if bare == "true" else tops
    except (GitFailed, ValueError) as e:
        raise RepositoryMissing(f"{path} is not in a git repository", hint="run `git init` there and commit") from e
    except FolderMissing as e:
        raise RepositoryMissing(f"There is no folder {path}") from e
    if object_format != "sha1":
        raise unread_format(top, object_format)
    place = Place(Path(top), Path(git_dir), Path(common_dir), bare == "true")
    if not _is_itself(place):
        raise RepositoryMissing(
            f"{path} has a repository that leads elsewhere: its files are said to be in {place.root}",
            hint="name the folder that holds `.git`, or the bare repository itself",
        )
    return place


def _is_itself(place: Place) -> bool:
    """A clone may bring a folder that looks like a repository, whose settings and links name any place of this host."""
    if place.bare:
        parts = ("HEAD", "objects", "refs", "packed-refs", "config")
        own = place.common_dir.resolve() == place.git_dir.resolve()
        return own and not any((place.git_dir / part).is_symlink() for part in parts)
    link = place.root / ".git"
    if link.is_file():  # of a linked work tree, or a submodule
        named = link.read_text(errors="replace").removeprefix("gitdir:").strip()
        return (place.root / named).resolve() == place.git_dir.resolve()
    return link.is_dir() and link.resolve() == place.git_dir.resolve()


async def describe(path: Path) -> LocalRepository:
    """Read the state of the repository around `path` without running anything that it configures."""
    place = await locate(path)
    head, branch, settings = await asyncio.gather(
        git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", git_dir=place.git_dir, ok=(0, 1, 128)),
        git("symbolic-ref", "--quiet", "--short", "HEAD", git_dir=place.git_dir, ok=(0, 1)),
        _harmless_settings(place),
    )
    if head.exit_code:
        raise CommitMissing(f"The repository {place.root} has no commit yet", hint="commit something first")
    dirty, untracked = await _status(place, head.line, settings)
    return LocalRepository(place, head.line, branch.line or None, dirty, untracked)


async def branch_tip(repository: Path, branch: str) -> str | None:
    """The commit that a branch stands at; None when there is no such branch."""
    place = await locate(repository)
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}")
    return (await git(*asked, git_dir=place.git_dir, ok=(0, 1, 128))).line or None


async def apply_diff(diff: bytes, repository: Path, *, check_only: bool = False) -> Path:
    """Apply a diff to the files of a work tree, all of it or nothing; its root comes back. No filter runs.

    `PatchRefused` when the diff does not fit the files as they are now.
    """
    place = await locate(repository)
    apply = ("apply", "--whitespace=nowarn", *(["--check"] if check_only else []), "-")
    settings = await _harmless_settings(place)
    with scratch(place.objects) as own:
        done = await own.git(*apply, work_tree=place.root, stdin=diff, configuration=settings, ok=(0, 1, 128))
    if done.exit_code:
        why = (done.stderr.strip().splitlines() or ["git gives no reason"])[0].removeprefix("error: ")
        hint = "look at the change, and check out the commit that it was made from"
        raise PatchRefused(f"The change does not fit the files in {place.root}: {why}", hint=hint)
    return place.root


async def _status(place: Place, head: str, settings: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A copy of the index in a git directory of our own, so that no filter of the repository's runs.

    The copy keeps its time stamp: git tells by it which entries are too young to be trusted unread.
    """
    if place.bare:
        return (), ()
    with scratch(place.objects) as own:
        for source in (*place.git_dir.glob("index"), *place.git_dir.glob("sharedindex.*")):
            shutil.copy2(source, own.git_dir / source.name)
        (own.git_dir / "HEAD").write_text(f"{head}\n")
        status = await own.git(
            *("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all"),
            work_tree=place.root,
            configuration=(
                f"core.excludesFile={place.common_dir / 'info/exclude'}",
                *settings,
            ),
        )
    return _split_status(status)


async def _harmless_settings(place: Place) -> tuple[str, ...]:
    found = await git("config", "-z", "--get-regexp", HARMLESS_SETTINGS, git_dir=place.git_dir, ok=(0, 1))
    return tuple(field.decode().replace("\n", "=", 1) for field in found.fields)


def _split_status(status: Completed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    entries = [(field[:2], readable(field[3:])) for field in status.fields]
    dirty = tuple(path for code, path in entries if code != b"??")
    return dirty, tuple(path for code, path in entries if code == b"??")
