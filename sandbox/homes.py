"""State folders of this host in which sandboxes stand: also those that no worker serves any more."""

from __future__ import annotations

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
# A sandbox's disk, its overlay, or the options of the one that an engine has mounted for it.
OF_A_SANDBOX = re.compile(r"(?:^|[ ,=:])(/[^ ,=:]*)/sandboxes/muster-[0-9a-f]{32}/")
ESCAPED = re.compile(r"\\([0-7]{3})")  # a blank or a backslash in a name, as the kernel writes it


def folders_with_sandboxes() -> list[Path]:
    """The folder of each driver that has something mounted on this host."""
    found = {found for line in MOUNTS.read_text().splitlines() for found in OF_A_SANDBOX.findall(line)}
    return sorted(Path(ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), folder)) for folder in found)
