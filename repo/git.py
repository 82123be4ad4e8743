"""The hardened runner: one git process, an environment made from nothing, killed as a group."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import FREE, DiskFull, FolderMissing, GitFailed, GitMissing, GitTimedOut, OutputTooLarge, RepoError

GIB = 1024**3
# As the C library says it in the C locale, and as git says it of itself.
NO_ROOM = ("No space left on device", "Disk quota exceeded", "Out of diskspace")
READ_CHUNK_BYTES = 256 * 1024
FOR_OTHERS = 0o022
BLOCK_BYTES = 512  # of `ulimit -f`
NOT_FOUND = 127  # a shell's exit code
# A server's list of branches, or what a few bytes of its pack unpack to, would take all there is. Ten million objects
# take one and a half.
MAX_STRANGE_MEMORY_BYTES = 4 * GIB
GRACE_S = 2.0  # for git to clean up; it needs milliseconds
STDERR_KEPT_BYTES = 64 * 1024

# What a fetch needs to reach its server; nothing else of our environment (keys, tokens, GIT_*) gets through.
INHERITED = (
    *("PATH", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
FIXED_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_NO_REPLACE_OBJECTS": "1",  # a replace ref could show another tree under a trusted commit id
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_AUTHOR_NAME": "Muster",
    "GIT_AUTHOR_EMAIL": "muster@localhost",
    "GIT_COMMITTER_NAME": "Muster",
    "GIT_COMMITTER_EMAIL": "muster@localhost",
}
# The command line overrides a repository's own configuration, in the few calls which must read one.
FIXED_CONFIGURATION = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    f"core.attributesFile={os.devnull}",
    "core.untrackedCache=false",
    "core.safecrlf=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.pager=cat",
    "core.alternateRefsCommand=true",
    "credential.helper=",
    "log.showSignature=false",
    "commit.gpgSign=false",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.directory=*",  # the owner does not matter where the repository's settings cannot run anything
)


@dataclass(frozen=True, slots=True)
class Completed:
    exit_code: int
    stdout: bytes
    stderr: str

    @property
    def line(self) -> str:
        """Standard output as one line of text, which is how git prints an object id."""
        return self.stdout.decode("utf-8", "surrogateescape").strip("\n")

    @property
    def fields(self) -> list[bytes]:
        """Standard output split at NUL, as `-z` writes it."""
        return self.stdout.split(b"\0")[:-1]


async def git(
    *arguments: str,
    git_dir: Path | None,
    work_tree: Path | None = None,
    index_file: Path | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    configuration: Collection[str] = (),
    protocols: Collection[str] = (),
    timeout_s: float = 120.0,
    max_stdout_bytes: int = GIB,
    max_memory_bytes: int | None = None,
    max_file_bytes: int | None = None,
    umask: int = -1,
    ok: Collection[int] = (0,),
) -> Completed:
    """Run git to its end. An exit code outside `ok` raises `GitFailed`.

    Without `git_dir` git looks for a repository from `cwd` upwards. `protocols` are the transports that may be used
    (none by default, so that no command fetches unasked). Cancelled or late, the whole process group is ended.
    `max_memory_bytes` is what this git may write to (Linux): files that it maps do not count; with `protocols` there is
    always a bound. `max_file_bytes` is what each file may grow to that it writes. Both hold for all that git starts,
    whatever becomes of us. `umask`: -1 is ours; `FOR_OTHERS` for files that another user is to read.
    """
    places = {"GIT_DIR": git_dir, "GIT_WORK_TREE": work_tree, "GIT_INDEX_FILE": index_file}
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment |= FIXED_ENVIRONMENT | {"GIT_ALLOW_PROTOCOL": ":".join(protocols)}
    environment |= {name: str(place) for name, place in places.items() if place is not None}
    settings = [part for setting in (*FIXED_CONFIGURATION, *configuration) for part in ("-c", setting)]
    place = cwd or work_tree or git_dir
    if protocols and max_memory_bytes is None:
        max_memory_bytes = MAX_STRANGE_MEMORY_BYTES
    program = [*_bounded(max_memory_bytes, max_file_bytes), "git", *settings, *arguments]
    process = await _start(program, environment | dict(env or {}), place, umask)
    try:
        async with asyncio.timeout(timeout_s):
            completed = await _finish(process, stdin, max_stdout_bytes)
    except TimeoutError as e:
        raise GitTimedOut(f"git {arguments[0]} did not end within {timeout_s:g} seconds") from e
    finally:
        await _end_group(process)
    if completed.exit_code == NOT_FOUND and NOT_FOUND not in ok and ": not found" in completed.stderr:
        raise GitMissing("The program git cannot be started", hint="install git 2.39 or later")
    if completed.exit_code not in ok and any(sign in completed.stderr for sign in NO_ROOM):
        place = (env or {}).get("GIT_OBJECT_DIRECTORY") or work_tree or git_dir or cwd or "the temporary folder"
        raise DiskFull(f"The disk is full: no space left in {place}, for git {arguments[0]}", hint=FREE)
    if completed.exit_code not in ok:
        raise GitFailed(arguments, completed.exit_code, completed.stderr)
    return completed


def _bounded(max_memory_bytes: int | None, max_file_bytes: int | None) -> list[str]:
    """What is started before git, which takes its place: a bound that is set from outside may be too late for what git
    has started by then."""
    bounds: list[str] = []
    if max_memory_bytes is not None and sys.platform == "linux" and _is_tighter(max_memory_bytes, resource.RLIMIT_DATA):
        bounds.append(f"ulimit -d {max_memory_bytes // 1024}")
    if max_file_bytes is not None and _is_tighter(max_file_bytes, resource.RLIMIT_FSIZE):
        bounds.append(f"ulimit -f {max_file_bytes // BLOCK_BYTES}")
    return ["/bin/sh", "-c", " && ".join([*bounds, 'exec "$@"']), "sh"] if bounds else []


def _is_tighter(limit: int, kind: int) -> bool:
    _, hard = resource.getrlimit(kind)
    return hard == resource.RLIM_INFINITY or hard > limit


async def _start(program: list[str], environment: dict[str, str], cwd: Path | None, umask: int) -> Process:
    """Shielded: cancelled half-way, asyncio (3.11) would leave children behind or wait for ever on unmade pipes."""
    spawning = asyncio.ensure_future(_spawn(program, environment, cwd, umask))
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        with suppress(RepoError):
            await _end_group(await spawning)
        raise


async def _spawn(program: list[str], environment: dict[str, str], cwd: Path | None, umask: int) -> Process:
    # fmt: off
    try:
        return await asyncio.create_subprocess_exec(
            *program, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, cwd=cwd, umask=umask,
            start_new_session=True,
        )
    # fmt: on
    except (FileNotFoundError, NotADirectoryError, PermissionError) as e:
        if cwd is not None and not os.access(cwd, os.X_OK):
            raise FolderMissing(f"The folder {cwd} cannot be entered") from e
        raise GitMissing("The program git cannot be started", hint="install git 2.39 or later") from e


async def _finish(process: Process, stdin: bytes, max_stdout_bytes: int) -> Completed:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_feed(process, stdin))
            stdout = group.create_task(_read_capped(process.stdout, max_stdout_bytes))
            stderr = group.create_task(_read_tail(process.stderr))
    except BaseExceptionGroup as failures:
        # (`except*` would wrap what is raised in it once more on Python 3.11.2, which is Debian 12's)
        too_large, others = failures.split(OutputTooLarge)
        if too_large is None or others is not None:
            raise
        raise too_large.exceptions[0] from None
    return Completed(await process.wait(), stdout.result(), stderr.result())


async def _feed(process: Process, stdin: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # git may fail before it has read everything
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _read_capped(stream: asyncio.StreamReader | None, max_bytes: int) -> bytes:
    assert stream is not None
    output = bytearray()
    while chunk := await stream.read(READ_CHUNK_BYTES):
        output += chunk
        if len(output) > max_bytes:
            raise OutputTooLarge(f"git wrote more than {max_bytes} bytes")
    return bytes(output)


async def _read_tail(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    tail = b""
    while chunk := await stream.read(READ_CHUNK_BYTES):
        tail = (tail + chunk)[-STDERR_KEPT_BYTES:]
    return tail.decode("utf-8", "backslashreplace")


async def _end_group(process: Process) -> None:
    """Also after a normal end: what git started must not outlive it.

    A terminated git removes its lock files and half-written packs; a killed one leaves them to the next.
    """
    try:
        if process.returncode is None:
            _signal_group(process, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await _drain(process)
    finally:
        _signal_group(process, signal.SIGKILL)
    await _drain(process)


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def _drain(process: Process) -> None:
    """Wait for the end; asyncio does not see it while a pipe still holds bytes."""
    for stream in (process.stdout, process.stderr):
        while stream and await stream.read(READ_CHUNK_BYTES):
            pass
    await process.wait()
