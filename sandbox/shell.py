"""A shell for an operator in a sandbox that stands, as the sandbox's own user and in its limits."""

from __future__ import annotations

import shlex
from pathlib import Path

from .base import WORKSPACE
from .cgroup import ControlGroup
from .container import HOME
from .errors import SandboxLost
from .namespace import PATH
from .uids import AGENT_GID, AGENT_UID

BEST_SHELL = "command -v bash > /dev/null && exec bash || exec sh"


def shell_in_container(name: str, *, tty: bool) -> list[str]:
    """By the engine's client, which has the engine make a terminal inside. Its user is the container's."""
    options = ["--interactive", *(["--tty"] if tty else [])]
    return ["docker", "exec", *options, "--workdir", WORKSPACE, name, "/bin/sh", "-c", BEST_SHELL]


def shell_in_namespaces(group: ControlGroup, *, tty: bool) -> list[str]:
    """Into the limits first, then into the namespaces of the sandbox's first process.

    The system call filter of the sandbox's own commands does not hold for it. `tty`: a terminal of its own, because a
    process inside that traces the shell could type into the operator's.
    """
    enter = [
        *("nsenter", "--target", str(first_process(group)), "--user", "--mount", "--uts", "--ipc", "--net", "--pid"),
        *("--cgroup", "--setuid", str(AGENT_UID), "--setgid", str(AGENT_GID), "--"),
        *("/usr/bin/env", "-i", f"PATH={PATH}", f"HOME={HOME}", "TERM=xterm", "LANG=C.UTF-8"),
        *("/bin/sh", "-c", f"cd {WORKSPACE}; {BEST_SHELL}"),
    ]
    joins = [f"echo $$ > {shlex.quote(str(entrance))}" for entrance in group.entrances]
    line = "\n".join(["set -e", *joins, f"exec setpriv --no-new-privs {shlex.join(enter)}"])
    words = ["/bin/sh", "-c", line]
    return ["script", "--quiet", "--return", "--command", shlex.join(words), "/dev/null"] if tty else words


def first_process(group: ControlGroup) -> int:
    """On this host, the id of the process that is 1 inside."""
    try:
        pids = group.entrances[0].read_text().split()
        for pid in pids:
            status = Path(f"/proc/{pid}/status").read_text()
            ids = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
            if len(ids) > 1 and ids[-1] == "1":
                return int(pid)
    except FileNotFoundError:  # it ended meanwhile
        pass
    raise SandboxLost("The sandbox is gone.")
