"""Set one branch of the user's repository to a merged commit, or leave everything as it was."""

from __future__ import annotations

from pathlib import Path

from .errors import BranchRefused, CommitMissing, GitFailed
from .git import git
from .local import Place, locate
from .mirror import Mirror
from .scratch import Scratch, ends_in, scratch

NO_COMMIT = "0" * 40  # what git calls the old value of a branch that does not exist
OWN_BRANCH = (
    "name a branch of its own, which people review; if this one is meant, say so:"
    " muster publish --default-branch, or `default_branch = true` of [publish]"
)


async def publish_branch(
    repository: Path,
    mirror: Mirror,
    branch: str,
    commit: str,
    *,
    expected_old: str | None = None,
    onto_default: bool = False,
) -> None:
    """Bring `commit` of `mirror` into `repository` and point `refs/heads/<branch>` at it.

    A branch moves forward only, unless it still stands at `expected_old`. A branch that some work tree has checked
    out is never touched, and a bare repository's default branch only with `onto_default`. Objects come first and the
    branch last, by compare-and-set: an interrupt leaves at most objects that nothing names. No hook runs.
    `BranchRefused` says why a branch stayed where it was.
    """
    await require_branch_name(branch)
    place = await locate(repository)
    ref = f"refs/heads/{branch}"
    if not await mirror.has(commit):
        raise CommitMissing(f"The mirror has no commit {commit}")
    old = await _position(place, ref)
    if old == commit:
        return
    await _refuse_in_use(place, branch, onto_default=onto_default)
    with scratch(mirror.objects, write_to=place.objects) as own:
        await _refuse_backwards(own, branch, old, commit, expected_old)
        await _bring_objects(own, place, mirror, commit)
    move = ("update-ref", "--no-deref", "-m", "muster: publish", ref, commit, old)
    try:
        await git(*move, git_dir=place.git_dir)
    except GitFailed as e:
        if await _position(place, ref) == commit:
            return  # somebody else published the same, a moment ago
        hint = "look at the branch, then publish again or choose another name"
        raise BranchRefused(f"The branch {branch} could not be set: {e}", hint=hint) from e


async def require_settable(repository: Path, branch: str, *, onto_default: bool = False) -> None:
    """`BranchRefused` for what `publish_branch` would refuse, whatever the commit: said before there is one."""
    await require_branch_name(branch)
    place = await locate(repository)
    await _refuse_in_use(place, branch, onto_default=onto_default)
    await _refuse_folders(place, branch)


async def require_forward(repository: Path, branch: str, start: str, *, ours: str) -> None:
    """`BranchRefused` for a branch that holds what no successor of `start` has, unless it stands at `ours`."""
    place = await locate(repository)
    old = await _position(place, f"refs/heads/{branch}")
    if old in (NO_COMMIT, ours):
        return
    with scratch(place.objects) as own:
        await _refuse_backwards(own, branch, old, start, None)


def no_history(commit: str) -> BranchRefused:
    hint = "the change was made in a shallow clone: run `git fetch --unshallow` there and make it again"
    return BranchRefused(f"The repository does not have the history that {commit[:12]} builds on", hint=hint)


async def require_branch_name(branch: str) -> None:
    """`BranchRefused` for what git takes for no branch, or only from those who insist (`HEAD`, `-x`)."""
    asked = ("check-ref-format", f"refs/heads/{branch}")
    valid = (await git(*asked, git_dir=None, ok=(0, 1))).exit_code == 0
    if not valid or branch == "HEAD" or branch.startswith("-"):
        raise BranchRefused(f"{branch!r} is not a valid branch name", hint="name it like muster/my-change")


async def _position(place: Place, ref: str) -> str:
    return (await git("rev-parse", "--verify", "--quiet", ref, git_dir=place.git_dir, ok=(0, 1))).line or NO_COMMIT


async def _refuse_in_use(place: Place, branch: str, *, onto_default: bool) -> None:
    trees = await git("worktree", "list", "--porcelain", "-z", git_dir=place.git_dir)
    if f"branch refs/heads/{branch}".encode() in trees.fields:
        raise BranchRefused(f"The branch {branch} is checked out", hint="publish to another branch, then merge it")
    if not place.bare or onto_default:
        return
    head = await git("symbolic-ref", "--quiet", "HEAD", git_dir=place.git_dir, ok=(0, 1))
    if head.line == f"refs/heads/{branch}":
        message = f"The branch {branch} is the default branch of the bare repository {place.root}"
        raise BranchRefused(message, hint=OWN_BRANCH)


async def _refuse_folders(place: Place, branch: str) -> None:
    """To git `a` and `a/b` are a file and a folder of one name."""
    ref = f"refs/heads/{branch}"
    parts = branch.split("/")
    above = [f"refs/heads/{'/'.join(parts[:count])}" for count in range(1, len(parts))]
    listed = await git("for-each-ref", "--format=%(refname)", ref, *above, git_dir=place.git_dir)
    for each in listed.line.splitlines():
        if each in above or each.startswith(f"{ref}/"):
            message = f"There is a branch {each.removeprefix('refs/heads/')}, beside which git can have no {branch}"
            raise BranchRefused(message, hint="choose another branch name")


async def _refuse_backwards(own: Scratch, branch: str, old: str, commit: str, expected_old: str | None) -> None:
    if old == expected_old or (old == NO_COMMIT and expected_old is None):
        return
    if expected_old is not None:
        raise BranchRefused(f"The branch {branch} was changed by somebody else", hint="choose another branch name")
    forward = await own.git("merge-base", "--is-ancestor", old, commit, ok=(0, 1, 128))
    if forward.exit_code:
        hint = "choose another branch name, or remove the old branch"
        raise BranchRefused(f"The branch {branch} holds work that {commit[:12]} does not contain", hint=hint)


async def _bring_objects(own: Scratch, place: Place, mirror: Mirror, commit: str) -> None:
    """One pack with what the repository's branches do not reach, written in place and renamed whole by git."""
    listed = await git("for-each-ref", "--format=%(objectname)", "refs/heads", git_dir=place.git_dir)
    head = await git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", git_dir=place.git_dir, ok=(0, 1, 128))
    known = {*listed.line.split(), *head.line.split()}
    revisions = [commit, "--not", *sorted(known)]
    pack = ("pack-objects", "--quiet", "--revs", "--non-empty", "--delta-base-offset", str(place.objects / "pack/pack"))
    try:
        await own.git(*pack, stdin="".join(f"{line}\n" for line in revisions).encode())
    except GitFailed as e:  # a branch with a hole in its history would break every clone of the repository
        if ends_in(mirror.git_dir):
            raise no_history(commit) from e
        raise
