"""Why a sandbox does not start, told from what engine, shell or tool server said: one sentence and a hint."""

from __future__ import annotations

import errno
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import DiskFull, EngineUnavailable, ImageUnfit

NOT_STARTED = "The sandbox did not start: {}"
LIMITED = {"MemoryLimit": "memory", "PidsLimit": "processes", "CpuCfsQuota": "CPU"}  # as the engine says what it can do
FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_HINT = "free some: `muster sandbox prune`, `docker system prune`; `df` says which disk it is"


@dataclass(frozen=True, slots=True)
class Fault:
    """`sign` is looked for in what was said, in any case. `lacks` follows "The image X", and may use its groups."""

    sign: str
    lacks: str
    hint: str


MAX_SAID_CHARS = 10_000
# The first that fits counts. Engines and kernels differ in their words around these.
FAULTS = (
    Fault(
        r"exec format error",
        "is made for another processor",
        f"build or pull it for this machine's, which is {platform.machine()} (`docker build --platform …`)",
    ),
    Fault(
        r"/bin/sh\b.*no such file or directory",
        "has no shell at /bin/sh",
        "install one, such as dash or busybox: commands are lines of a shell",
    ),
    Fault(
        r"the image has no python3",
        "has no python3",
        "install it in /usr/bin or /usr/local/bin, version 3.9 or later (Debian: python3; Alpine: apk add python3)",
    ),
    Fault(
        r"python3: not found",
        "has a python3 that cannot be started",
        "its interpreter or loader is missing: see `ldd` of it",
    ),
    Fault(
        r"ModuleNotFoundError: No module named '([\w.]+)'",
        r"has a python3 without its module \1",
        "install all of the standard library (Debian: python3, not python3-minimal)",
    ),
    Fault(
        r"SyntaxError|ImportError|AttributeError|TypeError",
        "has a python3 that is too old for the tool server",
        "install version 3.9 or later, and let it be the first python3 of /usr/local/bin and /usr/bin",
    ),
    Fault(r"invalid reference format", "has a name that no image can have", "write name:tag, as `docker images` does"),
)


def why_not_started(image: str, said: str) -> ImageUnfit | None:
    """None for what is not known; `said` is as hostile as the image."""
    for fault in FAULTS:
        if found := re.search(fault.sign, said[:MAX_SAID_CHARS], re.IGNORECASE):
            return ImageUnfit(f"The image {image} {found.expand(fault.lacks)}.", hint=fault.hint)
    return None


def full_disk(error: BaseException) -> DiskFull | None:
    """What a full disk is among the errors of files, or caused one; None for every other error."""
    for each in (error, error.__cause__):
        if isinstance(each, OSError) and each.errno in FULL:
            return DiskFull(f"The disk of {each.filename or 'the state folder'} is full.", hint=FULL_HINT)
    return None


def require_limits(details: Mapping[str, Any]) -> None:
    """An engine that may not use control groups takes a limit, warns somewhere, and does not hold it."""
    if missing := [words for field, words in LIMITED.items() if details.get(field) is False]:
        hint = (
            "give it control groups v2, delegated to its user (systemd: Delegate=memory pids cpu), or take bubblewrap"
        )
        raise EngineUnavailable(f"The Docker engine cannot limit {' and '.join(missing)}.", hint=hint)
