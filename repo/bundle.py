"""How a local repository travels: one file with the full history of one commit."""

from __future__ import annotations

import uuid
from pathlib import Path

from .errors import CommitMissing, GitFailed, RepositoryMissing
from .git import git
from .local import Place, locate
from .scratch import scratch

BASE_REF = "refs/muster/base"
SHALLOW_REFS = "refs/muster/shallow/"  # where a shallow history ends: a bundle has no other place to say so
BUNDLE_TIMEOUT_S = 1800.0


async def bundle(repository: Path | Place, commit: str, target: Path) -> None:
    """Write the history of `commit` to `target`, whole or not at all. Only objects of `repository` are read.

    A shallow clone's bundle says where its history ends, and `unbundle` makes a mirror that ends there too.
    """
    place = repository if isinstance(repository, Place) else await locate(repository)
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    with scratch(place.objects) as own:
        ends = _copy_shallow(place.common_dir, own.git_dir)
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
        known = await own.git(*asked, ok=(0, 1, 128))
        if known.exit_code:
            raise CommitMissing(f"The repository {place.root} has no commit {commit}")
        base = known.line.splitlines()[-1]
        reached = set((await own.git("rev-list", "--max-parents=0", base)).line.split()) if ends else set[str]()
        refs = {BASE_REF: base} | {SHALLOW_REFS + end: end for end in sorted(ends & reached)}
        for ref, value in refs.items():  # a file each, and no process: the git directory is ours alone
            (own.git_dir / ref).parent.mkdir(parents=True, exist_ok=True)
            (own.git_dir / ref).write_text(f"{value}\n")
        # One thread: the same repository then gives the same bytes, and its blob is stored once.
        write = ("bundle", "create", "--quiet", str(part.absolute()), *refs)
        try:
            await own.git(*write, configuration=("pack.threads=1",), timeout_s=BUNDLE_TIMEOUT_S)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


async def unbundle(git_dir: Path, source: Path) -> None:
    """Take a bundle's objects into the bare repository `git_dir` (the caller holds its lock)."""
    # From the caller's folder, so that a relative path means what the caller means.
    take = ("bundle", "unbundle", str(source))
    try:
        listed = (await git(*take, git_dir=git_dir, cwd=Path(), timeout_s=BUNDLE_TIMEOUT_S)).line.splitlines()
    except GitFailed as e:
        raise RepositoryMissing(f"The bundle {source.name} cannot be read: {e}") from e
    refs = {name: commit for commit, _, name in (line.partition(" ") for line in listed)}
    ends = {commit for name, commit in refs.items() if name.startswith(SHALLOW_REFS)}
    if ends:
        _add_shallow(git_dir / "shallow", ends)
    if BASE_REF in refs:
        await git("update-ref", f"refs/muster/{refs[BASE_REF]}", refs[BASE_REF], git_dir=git_dir)


def _copy_shallow(common_dir: Path, own_dir: Path) -> set[str]:
    shallow = common_dir / "shallow"
    if not shallow.is_file():
        return set()
    text = shallow.read_text()
    (own_dir / "shallow").write_text(text)
    return set(text.split())


def _add_shallow(shallow: Path, ends: set[str]) -> None:
    known = set(shallow.read_text().split()) if shallow.exists() else set[str]()
    part = shallow.with_suffix(".part")
    part.write_text("".join(f"{end}\n" for end in sorted(known | ends)))
    part.replace(shallow)
