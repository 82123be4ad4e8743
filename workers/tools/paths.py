"""Paths as tools speak of them: absolute inside the sandbox, and relative to the workspace for permissions. Pure."""

from __future__ import annotations

import posixpath

from sandbox.base import WORKSPACE

from .base import Target


def absolute(path: str) -> str:
    """The normalised absolute path; a relative one starts at the workspace.

    >>> absolute("src/../a.py"), absolute("//etc/passwd")
    ('/workspace/a.py', '/etc/passwd')
    """
    return "/" + posixpath.normpath(posixpath.join(WORKSPACE, path)).lstrip("/")


def relative(path: str) -> str:
    """The path as permissions see it: relative to the workspace, and absolute when it is outside.

    >>> relative("/workspace/src/a.py"), relative("/workspace"), relative("../etc")
    ('src/a.py', '.', '/etc')
    """
    full = absolute(path)
    return posixpath.relpath(full, WORKSPACE) if is_inside(full) else full


def is_inside(path: str) -> bool:
    return path == WORKSPACE or path.startswith(WORKSPACE + "/")


def outside(folder: str) -> list[Target]:
    """What must be asked for when a call touches this folder: nothing when it is in the workspace."""
    full = absolute(folder)
    return [] if is_inside(full) else [Target("external_directory", posixpath.join(full, "*"))]


def looked_in(folder: str) -> str:
    """For a target that is no path: where links must be followed. The workspace itself is none, and costs no look."""
    full = absolute(folder)
    return "" if full == WORKSPACE else full


def path_targets(permission: str, path: str) -> list[Target]:
    """A permission on one path, after the one for the folder around it when that is outside."""
    full = absolute(path)
    around = [] if is_inside(full) else outside(posixpath.dirname(full))
    return [*around, Target(permission, relative(path), full)]
