"""The users that we ship, rendered by the very commands that docs/redis.md shows."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).parents[3]
ROLES = ("orchestrator", "worker", "reader", "replica", "sentinel")
# The name under which the lab's users are made. It stands in key patterns, so one file serves each fleet whose name
# begins like this.
FLEETS = "chaos-*"
# Of the tests alone. No shipped user may look into the server itself, kill connections, or change its settings.
OPERATOR = "operator"
OPERATOR_RULE = f"user {OPERATOR} on >{OPERATOR} ~* &* +@all\n"


def documented_users(folder: Path, fleet: str = "main", *, blocks: Sequence[str] = ("users",)) -> dict[str, str]:
    """Makes the files in a folder by the very commands that docs/redis.md shows; the passwords."""
    page = (ROOT / "docs" / "redis.md").read_text()
    found = [re.search(rf"<!-- tests: {block} -->\n```sh\n(.*?)```", page, re.DOTALL) for block in blocks]
    commands = "\n".join(block[1] for block in found if block)
    commands = commands.replace("fleet=main", f"fleet='{fleet}'").replace("helm/", f"{ROOT}/helm/")
    folder.mkdir(exist_ok=True)
    subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, check=True, timeout=30)
    return {role: (folder / f"{role}.password").read_text().strip() for role in ROLES}


@dataclass(frozen=True, slots=True)
class Users:
    """Files for a server and for a sentinel, and how each role signs in there."""

    folder: Path
    passwords: dict[str, str]

    @property
    def server_file(self) -> Path:
        return self.folder / "users.acl"

    @property
    def sentinel_file(self) -> Path:
        return self.folder / "sentinel.acl"

    def name(self, role: str) -> str:
        """Those of a pair of servers belong to no fleet."""
        if role == OPERATOR:
            return OPERATOR
        return f"muster-{role}" if role in ("replica", "sentinel") else f"muster-{FLEETS}-{role}"

    def sign_in(self, role: str) -> str:
        """What stands before the host in the URL of a role."""
        return f"{quote(self.name(role), safe='')}:{self.passwords[role]}@"

    def url_as(self, role: str, url: str) -> str:
        """An orchestrator's way to the servers, for another role."""
        return url.replace(self.sign_in("orchestrator"), self.sign_in(role))


@functools.cache
def lab_users() -> Users:
    """Made once in each process, for all its servers. Their programs are told URLs, and make none."""
    folder = Path(tempfile.mkdtemp(prefix="muster-users-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    passwords = documented_users(folder, FLEETS, blocks=("users", "sentinel users"))
    for file in ("users.acl", "sentinel.acl"):
        with (folder / file).open("a") as users:
            users.write(OPERATOR_RULE)
    return Users(folder, {**passwords, OPERATOR: OPERATOR})
