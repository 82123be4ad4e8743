"""From the files of a repository to shards, and what each one may edit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from envelope.pattern import MAX_PATTERN_CHARS

from ..errors import BadInput
from ..globs import matching
from .spec import Shards

WHOLE = "."  # the key of a shard that is a whole repository

MAX_FOLDERS_CHARS = 64 * 1024 * 1024  # a million folders of a usual length

READ_AS_PATTERNS = "*?\\"  # see `envelope.pattern`

# What the source of the shards has found, by key: the variables that each one has besides its path.
Found = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard before it is a task. `key` sorts, and is unique in its repository; a folder's ends in `/`.

    `content` stands for all that its work depends on (see `contents`).
    """

    key: str
    found: Mapping[str, str] = field(default_factory=dict[str, str])
    content: str = ""

    @property
    def path(self) -> str:
        return self.key.rstrip("/")

    @property
    def edits(self) -> str:
        if self.key == WHOLE:
            return "edit:**"
        return f"edit:{self.path}/**" if self.key.endswith("/") else f"edit:{self.path}"

    @property
    def values(self) -> dict[str, str]:
        """What the places of a step are filled with."""
        path = PurePosixPath(self.path)
        return {**self.found, "path": self.path, "name": path.stem, "folder": str(path.parent)}


def shards_of(
    files: Iterable[str], shards: Shards, *, max_shards: int, name: str, found: Found | None = None
) -> list[Shard]:
    """The shards of one repository, sorted by key. `BadInput` when there are none, or too many.

    `found`: by a query, which may come to nothing in one of many repositories.
    """
    if shards.whole:
        return [Shard(WHOLE)]
    keys, what = (sorted(found), f"what `{shards.source}` finds") if found is not None else _keys(list(files), shards)
    if not keys and found is None:
        raise BadInput(
            f"{what} matches nothing of {name} at its base commit",
            hint="paths are relative to the repository's root; only committed files count",
        )
    if len(keys) > max_shards:
        raise BadInput(
            f"{what} makes {len(keys)} shards of {name}, over the limit of {max_shards}",
            hint="say it more narrowly, or raise limits.max_shards",
        )
    made = [Shard(key, (found or {}).get(key, {})) for key in keys]
    if long := next((shard.path for shard in made if len(shard.edits) > MAX_PATTERN_CHARS), None):
        raise BadInput(f"the path {long[:60]}… is too long for a shard")
    if pattern := next((shard.path for shard in made if any(char in shard.path for char in READ_AS_PATTERNS)), None):
        raise BadInput(
            f"the path {pattern[:60]!r} would be read as a pattern of other paths, which its shard could edit",
            hint="exclude it in the batch file, or rename it",
        )
    return made


def _keys(files: list[str], shards: Shards) -> tuple[list[str], str]:
    """The keys, sorted, and how to call what chose them."""
    if shards.files is not None:
        wanted = set(shards.files)
        chosen = matching("**", filter(wanted.__contains__, files), exclude=shards.exclude)
        return chosen, "the list of files"
    if shards.directories is not None:
        found = matching(shards.directories.rstrip("/"), folders_of(files), exclude=shards.exclude)
        return [f"{folder}/" for folder in found], f"the glob of folders {shards.directories!r}"
    return matching(shards.glob or "", files, exclude=shards.exclude), f"the glob {shards.glob!r}"


def folders_of(files: Iterable[str]) -> set[str]:
    """`BadInput` where their names would fill the memory: each has those above it in it."""
    found: set[str] = set()
    chars = 0
    for file in files:
        folder = file.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            if (chars := chars + len(folder)) > MAX_FOLDERS_CHARS:
                raise BadInput("the repository has too many, or too deep, folders", hint="name files by a glob instead")
            folder = folder.rpartition("/")[0]
    return found


def refuse_empty(shards: Shards, keys: Set[str]) -> None:
    """A file that was named and is in no repository would be left out in silence, and so would a whole batch.

    `keys`: of all shards that were found.
    """
    wanted = matching("**", shards.files or (), exclude=shards.exclude)
    if missing := sorted(set(wanted) - keys):
        hint = "commit it, or take it off the list"
        raise BadInput(f"no repository of the batch has the file {missing[0]!r} at its base commit", hint=hint)
    if not keys:
        hint = "see what there is with: muster batch preview FILE"
        raise BadInput(f"what `{shards.source}` finds is nothing, in all repositories of the batch", hint=hint)
