"""Who types: what the audit log and other people are told of whoever decides something at a terminal."""

from __future__ import annotations

import os
import pwd
import socket


def person(door: str = "cli") -> str:
    """By the account and the machine: nobody proves more at a terminal."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's, mostly
        name = str(uid)
    return f"{door}:{name}@{socket.gethostname()}"
