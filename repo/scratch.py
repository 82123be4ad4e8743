"""A throw-away git directory over somebody's object store: all of the objects, none of the configuration."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .git import GIB, Completed, git
from .temporary import temporary_folder

# A filter named in .gitattributes has no definition in our git directory and is inert. A working-tree encoding is
# built into git, and a file that is not in it would fail the whole collection: switch it off everywhere alike.
ATTRIBUTES = "* !filter !working-tree-encoding\n"
SHALLOW = "shallow"  # git's name of the file with the commits at which a history is cut


def make_git_dir(path: Path, *, bare: bool = True, head: str = "ref: refs/heads/main") -> None:
    """What `git init` makes, without a template, a process or the user's defaults. SHA-1 only."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (path / folder).mkdir(parents=True)
    (path / "HEAD").write_text(f"{head}\n")
    (path / "config").write_text(f"[core]\n\trepositoryformatversion = 0\n\tbare = {str(bare).lower()}\n")
    (path / "info/attributes").write_text(ATTRIBUTES)


def ends_in(git_dir: Path) -> set[str]:
    """The commits whose parents a shallow clone does not have."""
    shallow = git_dir / SHALLOW
    return set(shallow.read_text().split()) if shallow.is_file() else set()


def write_ends(git_dir: Path, ends: Collection[str]) -> None:
    """History ends there, and where it ended before."""
    if known := ends_in(git_dir) | set(ends):
        part = git_dir / f"{SHALLOW}.part"
        part.write_text("".join(f"{end}\n" for end in sorted(known)))
        part.replace(git_dir / SHALLOW)


@dataclass(frozen=True, slots=True)
class Scratch:
    """Commands run on `index_file`, write objects to `objects` and read them there and in `stores`."""

    git_dir: Path
    index_file: Path
    objects: Path
    stores: tuple[Path, ...]

    async def git(
        self,
        *arguments: str,
        work_tree: Path | None = None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        configuration: Collection[str] = (),
        timeout_s: float = 120.0,
        max_stdout_bytes: int = GIB,
        max_memory_bytes: int | None = None,
        max_file_bytes: int | None = None,
        ok: Collection[int] = (0,),
    ) -> Completed:
        """`git()` on this directory and index, which finds its objects in `objects` and `stores`."""
        return await git(
            *arguments,
            git_dir=self.git_dir,
            work_tree=work_tree,
            index_file=self.index_file,
            stdin=stdin,
            env=object_environment(self.objects, *self.stores) | dict(env or {}),
            configuration=configuration,
            timeout_s=timeout_s,
            max_stdout_bytes=max_stdout_bytes,
            max_memory_bytes=max_memory_bytes,
            max_file_bytes=max_file_bytes,
            ok=ok,
        )


@contextmanager
def scratch(*stores: Path, write_to: Path | None = None) -> Generator[Scratch]:
    """`stores` and `write_to` are object folders. New objects vanish at the end, unless `write_to` keeps them.

    History ends where it does in the repository that is written to; else in those that are read (shallow clones).
    """
    with temporary_folder("git") as folder:
        git_dir = folder / "git"
        make_git_dir(git_dir)
        write_ends(git_dir, {end for store in ([write_to] if write_to else stores) for end in ends_in(store.parent)})
        yield Scratch(git_dir, git_dir / "index", write_to or git_dir / "objects", stores)


def object_environment(objects: Path, *stores: Path) -> dict[str, str]:
    """Environment for commands that write to one object folder and read from more."""
    quoted = ('"{}"'.format(str(store.absolute()).replace("\\", "\\\\").replace('"', '\\"')) for store in stores)
    return {
        "GIT_OBJECT_DIRECTORY": str(objects.absolute()),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(quoted),
    }
