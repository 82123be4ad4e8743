"""The seam between those who run commands and those who isolate them.

A driver opens sandboxes; a sandbox runs commands on one workspace and hands back what changed there. Nothing here
knows of tasks, agents or queues: labels are opaque strings, and an `expires_at_s` is all that a reaper needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Protocol, Self

from repo.keeping import Allowance, Kept
from repo.patch import Patch

from .errors import SandboxError
from .outlet import NO_OUTLET, Outlet, Tell, tell_nobody

WORKSPACE = "/workspace"  # where every sandbox sees its code; an image must not create it (its mode would stick)

MIB = 1024 * 1024
MAX_VARIABLE_CHARS = 32 * 1024  # the kernel takes 128 KiB, and a character has up to four bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use. Every field is enforced by the driver, none by the commands' good will."""

    memory_bytes: int = 2048 * MIB  # memory and swap together
    cpus: float = 2.0
    pids: int = 512
    tmp_bytes: int = 512 * MIB
    tmp_inodes: int = 100_000  # a flood of empty files is charged to memory and would kill PID 1 (measured)
    shm_inodes: int = 10_000
    workspace_bytes: int = 4096 * MIB  # of what is changed or added: the checkout itself is not counted
    workspace_inodes: int = 250_000
    open_files: int = 4096
    lifetime_s: int = 3900  # the self-destruct timer inside: the longest default deadline plus five minutes

    def __post_init__(self) -> None:
        """Engine and kernel take nothing, and less than nothing, for no limit at all."""
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise SandboxError(f"The limit {each.name} of a sandbox must be more than {getattr(self, each.name)}.")


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What to open: an image, the code in it, and who pays."""

    image: str
    checkout: Path | None = None  # a cached checkout, never written; None gives an empty workspace
    git_dir: Path | None = None  # the mirror that holds `base`; patches need both, and so does `apply` as base
    base: str = ""  # commit or tree id that `checkout` was made from
    read_only: bool = False  # commands cannot change the workspace at all
    limits: Limits = field(default_factory=Limits)
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    egress: frozenset[str] = frozenset()  # hosts that may be reached through the proxy, as `name` or `name:port`
    outlet: Outlet = NO_OUTLET
    reusable: bool = False  # `Sandbox.renew` will be asked for

    def __post_init__(self) -> None:
        for name, value in self.env.items():
            if not name or "=" in name or "\0" in name + value or len(value) > MAX_VARIABLE_CHARS:
                raise SandboxError(f"No program can be given the variable {name[:100]!r} so.")

    @property
    def has_network(self) -> bool:
        return bool(self.egress or self.outlet.credentials)


@dataclass(frozen=True, slots=True)
class Command:
    """One command line for `sh -c`, or an argument vector that meets no shell."""

    command: str | Sequence[str]
    cwd: str = WORKSPACE
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    stdin: bytes = b""
    timeout_s: float = 120.0
    max_output_bytes: int = 1 * MIB  # kept inside the container: head and tail; the rest is counted, never sent


@dataclass(frozen=True, slots=True)
class SetupLimits:
    """What one setup may write, beside temporary files, and what is kept of those of one tenant."""

    max_bytes: int = 4096 * MIB  # of what it leaves, as it is read: holes count
    max_files: int = 200_000
    kept: int = 50
    kept_bytes: int = 10 * 1024 * MIB


@dataclass(frozen=True, slots=True)
class Setup:
    """What makes an image of a project: `commands` that run once on its `checkout` at `commit`, with a network."""

    image: str  # what they start from
    checkout: Path
    commit: str
    repository_key: str  # two repositories never share an image
    commands: tuple[str, ...]
    egress_hosts: frozenset[str] | None = None  # None: those of this host's package index
    tell: Tell = field(default=tell_nobody, compare=False)  # what becomes of each request to the outside
    tenant: str = ""  # who pays for what is kept; two tenants never share an image
    limits: SetupLimits = SetupLimits()


@dataclass(frozen=True, slots=True)
class ExecResult:
    exit_code: int  # 128 + n when a signal n ended it
    output: bytes  # stdout and stderr, in the order of arrival
    truncated_bytes: int
    timed_out: bool
    duration_s: float
    left: tuple[str, ...] = ()  # the command lines of what it has left running, the first ten


@dataclass(frozen=True, slots=True)
class FileStat:
    path: str
    kind: str  # "file", "directory", "symlink", "other"
    size_bytes: int
    mode: int
    modified_s: float


@dataclass(frozen=True, slots=True)
class GrepMatch:
    path: str
    line_number: int
    line: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver really enforces, for `muster doctor` and for refusing what it cannot hold."""

    isolation: str  # "container", "namespace"
    network_none: bool
    limits: frozenset[str]
    copy_on_write: bool


@dataclass(frozen=True, slots=True)
class JobOutput:
    """What a job has said from `start_byte` of its whole output on: later than was asked for, where that is no longer
    kept. `exit_code`: None as long as it runs."""

    output: bytes
    start_byte: int
    exit_code: int | None
    duration_s: float
    left: tuple[str, ...] = ()  # as in `ExecResult`


OnOutput = Callable[[bytes], None]


class Service(Protocol):
    """A process inside that is talked to for as long as it lives. It ends with the sandbox, and when a command that
    took too long is killed with all that it may have left behind: start another then."""

    async def send(self, data: bytes) -> None:
        """To its standard input, as fast as it reads."""
        ...

    async def receive(self) -> bytes:
        """What it says next on its standard output; b"" when it has ended. One caller at a time."""
        ...

    async def stop(self) -> None:
        """Kill it and what it has started; safe to call twice."""
        ...


class Job(Protocol):
    """A command that runs while others do. It ends with the sandbox and with `kill_all`, and not when another command
    takes too long, as long as it stays in its session or keeps its environment. Eight may run at once, and about as
    many that have ended are known: of older ones every call raises `SandboxError`."""

    async def peek(self, start_byte: int = 0, *, wait_s: float = 0, max_bytes: int = 1 * MIB) -> JobOutput:
        """What it has said from there on; after its end, or after `wait_s`, whichever comes first. Asked again, it says
        so again: whoever is cancelled loses nothing."""
        ...

    async def stop(self) -> None:
        """Kill it and what it has started; of one that has ended, what it has left. Safe to call twice."""
        ...


class Sandbox(Protocol):
    """One container, one workspace. Paths are absolute inside the sandbox.

    Every call raises `SandboxLost` when the container is gone, and `SandboxError` subclasses otherwise. A path that
    is not there raises `PathError`; a non-zero exit code is a result and never an error.
    """

    @property
    def id(self) -> str: ...

    async def exec(self, command: Command, on_output: OnOutput | None = None) -> ExecResult:
        """Run to the end, or to the time-out, after which no process of the command is left.

        What a command leaves running stays until the sandbox closes, or any command times out. If output is
        cut, the first `max_output_bytes // 2` bytes are the head, and the rest is the tail.
        `on_output` gets chunks as they come (at most `max_output_bytes` in all).
        """
        ...

    async def spawn(self, command: Command) -> Job:
        """Run without waiting, with a closed standard input and no time-out. Of its output the last `max_output_bytes`
        are kept inside. `LimitExceeded` where too many run."""
        ...

    async def start(
        self, command: Sequence[str], *, cwd: str = WORKSPACE, env: Mapping[str, str] | None = None
    ) -> Service:
        """A service: an argument vector that meets no shell. What it says on standard error is dropped."""
        ...

    async def kill_all(self) -> None:
        """End every process that commands and services have left; what is asked for next is done as before."""
        ...

    async def read(self, path: str, *, offset_bytes: int = 0, max_bytes: int = 10 * MIB) -> bytes: ...
    async def write(self, path: str, content: bytes, *, mode: int | None = None) -> None:
        """Replace the file in one step (a reader sees the old or the new), making its folders."""
        ...

    async def stat(self, path: str) -> FileStat:
        """What stands at `path`, links followed."""
        ...

    async def resolve(self, path: str) -> str:
        """Where `path` leads when every link in it is followed; as far as anything is there."""
        ...

    async def list(self, path: str, *, limit: int = 1000) -> list[FileStat]:
        """The entries of one folder, sorted by name; a symlink counts as what it is."""
        ...

    async def glob(self, pattern: str, path: str = WORKSPACE, *, limit: int = 100) -> tuple[list[str], bool]:
        """Files that ripgrep would list and that match; and whether there were more."""
        ...

    async def grep(
        self, pattern: str, path: str = WORKSPACE, *, include: str | None = None, limit: int = 100
    ) -> tuple[list[GrepMatch], bool]:
        """Lines that match the regular expression (ripgrep's), hidden files in, `.git` out; and: were there more?"""
        ...

    async def apply(self, diff: bytes, *, as_base: bool = False) -> None:
        """Put a patch onto the workspace, whole or not at all; `repo.errors.PatchRefused` says why not.

        With `as_base` it becomes part of the base: what later patches say is said against the state after it.
        """
        ...

    async def snapshot(self) -> Patch:
        """What differs from the base now. Commands may go on afterwards."""
        ...

    async def patch(self, allowed: Callable[[str], bool]) -> Patch:
        """Stop every process, then take what differs; paths that `allowed` denies stand in `Patch.refused`."""
        ...

    async def assign(self, *, labels: Mapping[str, str], lifetime_s: int) -> None:
        """One that was opened ahead gets its task: from now on its driver knows it by `labels`, and it ends itself
        after `lifetime_s`, if not before. That it answers means that it is well."""
        ...

    async def renew(self, *, labels: Mapping[str, str]) -> None:
        """End every process, throw away all that was written anywhere, and be as it was opened, for who `labels` say.

        `SandboxError` where the driver cannot do that here, the spec was not `reusable`, or something was left that
        cannot be taken away: it must be closed then. Its time goes on.
        """
        ...

    async def close(self) -> None:
        """Kill and remove everything that was opened; safe to call twice."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Known:
    """A sandbox that stands on this host, whoever opened it."""

    sandbox_id: str
    owner: str
    expires_at_s: int  # from then on anybody may remove it
    labels: Mapping[str, str] = field(default_factory=dict[str, str])  # of its task, or of who keeps it ready for one


@dataclass(frozen=True, slots=True)
class Finding:
    """How something of a driver stands on this machine, for people. `hint` says what would be better, if anything."""

    part: str
    found: str
    hint: str = ""


class SandboxDriver(Protocol):
    name: str

    async def check(self) -> str:
        """One line that tells what isolates here; `EngineUnavailable` when nothing can be opened."""
        ...

    async def report(self) -> list[Finding]:
        """What isolates here, and by what means; what `check` says comes first."""
        ...

    async def shell(self, sandbox_id: str, *, tty: bool) -> list[str]:
        """The argument vector that opens a shell in a sandbox of this host, as the sandbox's own user.

        `SandboxLost` when it does not stand. A time-out of the task's commands ends it with all else inside.
        """
        ...

    async def known(self) -> list[Known]:
        """All of this state folder's or engine's, sorted by id."""
        ...

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """A fresh sandbox, ready for a first command. `EngineUnavailable`, `ImageMissing` or `SandboxError` if not."""
        ...

    async def require_image(self, image: str) -> str:
        """Its id, another one when the image is another; `ImageMissing` when it is not there, `EngineUnavailable` when
        nobody knows."""
        ...

    async def prepare_image(self, setup: Setup, on_output: OnOutput | None = None) -> str:
        """The name of an image in which the setup's commands have run; at once if it is there already.

        No commands: the setup's own image. One process makes an image, the others wait for it. `SetupFailed` carries
        the tail of the command that failed, or says which limit stood in the way, and nothing is kept. What the tenant
        has used the longest ago makes room; `DiskFull` where all of it is in use.
        """
        ...

    async def setups(self) -> list[Kept]:
        """The images that setups have made."""
        ...

    async def collect(self, allowance: Allowance, *, now_s: float) -> list[Kept]:
        """Remove those of them that are too much, and that no sandbox uses; what went."""
        ...

    def capabilities(self) -> Capabilities: ...

    async def reap(self, *, owner: str | None = None, now_s: float) -> list[str]:
        """Remove what carries our labels and is expired (or belongs to `owner`); the ids that went."""
        ...

    async def close(self) -> None: ...
