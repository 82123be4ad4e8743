"""Branches of remote repositories: where they stand, and how one is set without losing anybody's work."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import BranchRefused, GitFailed, RemoteDown, RepositoryMissing
from .git import git
from .local import locate
from .mirror import Mirror
from .publish import OWN_BRANCH, no_history, require_branch_name

LOOK_TIMEOUT_S = 120.0
PUSH_TIMEOUT_S = 1800.0
MAX_REASON_CHARS = 300

# What git and the forges' hooks say, to what a person can do about it.
_REFUSALS = (
    (
        re.compile(r"stale info|fetch first|non-fast-forward", re.I),
        "was changed by somebody else",
        "look at what is there; publish to another branch, or remove theirs",
    ),
    (
        re.compile(r"protected|GH006|GH013|cannot force-push|rule violations", re.I),
        "is protected",
        "publish to a branch that this credential may write, or have its rule changed",
    ),
    (
        re.compile(r"hook declined|remote rejected", re.I),
        "is refused by the repository's own hook",
        "see what it says; publish to another branch, or have the rule changed",
    ),
)
_CREDENTIALS = re.compile(r"authentication failed|could not read Username|Permission denied|\b40[13]\b|denied to", re.I)

# As git, curl and ssh say that the network or the server failed, and not what was asked of it.
_PASSES = re.compile(
    r"could not resolve|(name|hostname) resolution|(failed|couldn't|unable) to connect|timed out|time-?out"
    r"|connection (refused|reset|closed|was reset)|network is unreachable|no route to host|hung up unexpectedly"
    r"|early EOF|unexpected disconnect|empty reply|returned error: (429|5\d\d)|SSL_ERROR_SYSCALL|GnuTLS recv",
    re.I,
)
_REFUSED_BY_HTTP = re.compile(r"\b(HTTP|returned error:) 4(?!08|29)\d\d")  # such as 413, after which it hangs up, too


@dataclass(frozen=True, slots=True)
class Remote:
    """`env` is what git is given beside its arguments: a credential stands there, and never in a command line.

    `credential`: what that one is called; empty where there is none.
    """

    url: str
    protocols: Collection[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    credential: str = ""


def header_environment(header: str, ca_file: Path | None = None) -> dict[str, str]:
    """git's environment for one that is let in by an HTTP header; redirects are not followed with it."""
    settings = {"http.extraHeader": header, "http.followRedirects": "false"}
    if ca_file is not None:
        settings["http.sslCAInfo"] = str(ca_file)
    return _as_environment(settings)


def pinned_environment(host: str, port: int, address: str) -> dict[str, str]:
    """git's environment for a host that was looked up, and whose address was looked at: it goes there, and nowhere else
    by any redirect. (A git before 2.37 looks it up once more.)"""
    written = f"[{address}]" if ":" in address else address
    return _as_environment({"http.curloptResolve": f"{host}:{port}:{written}", "http.followRedirects": "false"})


def _as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


async def address_of(repository: Path, remote: str) -> str:
    """The address that a user's repository knows a remote by; `RepositoryMissing` when it knows none of that name."""
    place = await locate(repository)
    asked = ("config", "--get", f"remote.{remote}.url")
    found = await git(*asked, git_dir=place.git_dir, ok=(0, 1))
    if not found.line:
        hint = "add it with `git remote add`, or name another one, or an address, as the remote"
        raise RepositoryMissing(f"The repository {place.root} has no remote {remote!r}", hint=hint)
    return found.line


@dataclass(frozen=True, slots=True)
class _Listed:
    """`tip`: the commit that the asked branch stands at. `is_default`: clones of the remote begin with it."""

    tip: str | None
    is_default: bool


async def remote_tip(remote: Remote, branch: str) -> str | None:
    """The commit that the remote's branch stands at; None when it has no such branch."""
    return (await _listed(remote, branch)).tip


async def require_own_branch(remote: Remote, branch: str, *, timeout_s: float = LOOK_TIMEOUT_S) -> None:
    """`BranchRefused` for the remote's default branch: what is set there, nobody has reviewed."""
    if (await _listed(remote, branch, timeout_s)).is_default:
        raise _not_own(branch)


async def push_branch(
    remote: Remote, mirror: Mirror, branch: str, commit: str, *, known: Collection[str], onto_default: bool = False
) -> None:
    """Set the remote's branch to `commit` of `mirror`.

    It moves forward, or from one of the `known` commits, which are ours, anywhere. The remote compares once more in
    the same step: what somebody pushes meanwhile is not overwritten. `BranchRefused` says why it stayed: the remote's
    default branch does, unless `onto_default` says that it is meant.
    """
    await require_branch_name(branch)
    there = await _listed(remote, branch)
    tip = there.tip
    if tip == commit:
        return
    if there.is_default and not onto_default:
        raise _not_own(branch)
    if tip is not None and tip not in known and not await _contains(mirror, commit, tip):
        raise BranchRefused(f"The branch {branch} was changed by somebody else", hint=_REFUSALS[0][2])
    ref = f"refs/heads/{branch}"
    lease = f"--force-with-lease={ref}:{tip or ''}"
    push = ("push", "--no-verify", "--no-follow-tags", lease, "--end-of-options", remote.url)
    try:
        await git(
            *(*push, f"{commit}:{ref}"),
            git_dir=mirror.git_dir,
            protocols=remote.protocols,
            env=remote.env,
            timeout_s=PUSH_TIMEOUT_S,
        )
    except GitFailed as e:
        if await remote_tip(remote, branch) != commit:  # else somebody else has published the same, a moment ago
            raise _refused(remote, branch, commit, e) from e


async def _listed(remote: Remote, branch: str, timeout_s: float = LOOK_TIMEOUT_S) -> _Listed:
    ref = f"refs/heads/{branch}"
    asked = ("ls-remote", "--quiet", "--symref", "--end-of-options", remote.url, "HEAD", ref)
    try:
        found = await git(
            *asked, git_dir=None, cwd=Path("/"), protocols=remote.protocols, env=remote.env, timeout_s=timeout_s
        )
    except GitFailed as e:
        raise _unreachable(remote, e) from e
    lines = found.line.splitlines()
    tips = (line.partition("\t") for line in lines)
    return _Listed(next((tip for tip, _, name in tips if name == ref), None), f"ref: {ref}\tHEAD" in lines)


def _not_own(branch: str) -> BranchRefused:
    return BranchRefused(f"The branch {branch} is the remote's default branch", hint=OWN_BRANCH)


async def _contains(mirror: Mirror, commit: str, older: str) -> bool:
    asked = ("merge-base", "--is-ancestor", older, commit)
    return (await git(*asked, git_dir=mirror.git_dir, ok=(0, 1, 128))).exit_code == 0


def _refused(remote: Remote, branch: str, commit: str, failure: GitFailed) -> BranchRefused | RepositoryMissing:
    said = f"{failure}\n{failure.stderr}"
    if "shallow update not allowed" in said:
        return no_history(commit)
    for pattern, what, hint in _REFUSALS:
        if pattern.search(said):
            return BranchRefused(f"The branch {branch} {what}{_words(failure)}", hint=hint)
    return _unreachable(remote, failure)


def _words(failure: GitFailed) -> str:
    """What the server itself said, which git marks as such."""
    told = [line.removeprefix("remote:").strip() for line in failure.stderr.splitlines() if line.startswith("remote:")]
    text = " ".join(line for line in told if line)[:MAX_REASON_CHARS]
    return f": {text}" if text else ""


def _unreachable(remote: Remote, failure: GitFailed) -> RepositoryMissing:
    if _CREDENTIALS.search(failure.stderr):
        hint = "check what the forge's token may do, and that it is still good"
        return RepositoryMissing("The remote repository does not let this credential in", hint=hint)
    if "not allowed" in failure.stderr:
        hint = f"allowed here: {', '.join(remote.protocols)}"
        return RepositoryMissing("The remote's address uses a protocol that is not allowed", hint=hint)
    if _PASSES.search(failure.stderr) and not _REFUSED_BY_HTTP.search(failure.stderr):
        hint = "try it again later; if it stays so, check the address"
        return RemoteDown(f"The remote repository cannot be reached: {failure}", hint=hint)
    hint = "check the address, and that this machine may reach it"
    return RepositoryMissing(f"The remote repository cannot be used: {failure}", hint=hint)
