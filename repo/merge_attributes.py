"""Files of which `.gitattributes` says that no line of two versions may be mixed.

The base's attributes count: a patch cannot bring its own. Git itself reads none in a bare repository.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator

from .content import REGULAR_FILES
from .scratch import Scratch
from .wording import as_text

# What git merges by lines on its own account. Any other value names a driver, or asks for lines of both sides.
BY_LINES = (b"unspecified", b"set", b"text")


async def guarded(own: Scratch, base: str, paths: Collection[bytes]) -> frozenset[bytes]:
    """Those of `paths` that are not merged: `-merge`, `binary`, `-text`, `merge=union` or a driver, which runs nowhere
    here."""
    listed = (await own.git("ls-tree", "-r", "-z", "--full-tree", base)).fields if paths else []
    about = [entry for entry in listed if posixpath.basename(entry.partition(b"\t")[2]) == b".gitattributes"]
    files = [entry for entry in about if entry.partition(b" ")[0] in REGULAR_FILES]
    if not files:
        return frozenset()
    index = {"GIT_INDEX_FILE": str(own.index_file.with_name("attributes"))}
    entries = (entry.replace(b" blob ", b" ", 1) for entry in files)
    await own.git("read-tree", "--empty", env=index)
    await own.git("update-index", "-z", "--index-info", stdin=b"".join(b"%s\0" % entry for entry in entries), env=index)
    asked = b"".join(b"%s\0" % path for path in paths)
    told = await own.git("check-attr", "--cached", "-z", "--stdin", "merge", "text", stdin=asked, env=index)
    return frozenset(_unmerged(told.fields))


def _unmerged(fields: list[bytes]) -> Iterator[bytes]:
    """A path, an attribute, its value; and again."""
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        if value not in BY_LINES if name == b"merge" else value == b"unset":
            yield path


async def guarded_on_both(own: Scratch, base: str, ours: str, theirs: str) -> tuple[str, ...]:
    """The guarded paths that two commits made differently of what they have in common, `base`."""
    both = await changed_on_both(own, base, ours, theirs)
    return tuple(sorted(as_text(path) for path in await guarded(own, base, both)))


async def changed_on_both(own: Scratch, base: str, ours: str, theirs: str) -> list[bytes]:
    """The paths of which two commits made different things."""
    made = [await _changed(own, base, commit) for commit in (ours, theirs)]
    return [path for path, entry in made[0].items() if made[1].get(path, entry) != entry]


async def _changed(own: Scratch, base: str, commit: str) -> dict[bytes, bytes]:
    """Each path that a commit changed, with what it is there."""
    compare = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", base, commit)
    fields = (await own.git(*compare)).fields
    told = zip(fields[::2], fields[1::2], strict=True)
    return {path: b" ".join(about.split(b" ")[1:4:2]) for about, path in told}


def refusal(paths: Collection[str]) -> str:
    return "\n".join(f"CONFLICT (attributes): .gitattributes says that {path} is not merged by lines" for path in paths)
