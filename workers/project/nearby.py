"""Instruction files in the folders of a file that is read: attached to what is read, each once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, MutableMapping

from sandbox.base import WORKSPACE, Sandbox

from ..tools.files import digest
from .framing import bounded, framed
from .instructions import KINDS, MAX_FILE_BYTES, folders_above, told_inside

NAME = KINDS[0]


async def nearby_instructions(
    sandbox: Sandbox, path: str, known: MutableMapping[str, str], may_read: Callable[[str], bool]
) -> str:
    """A reminder with the AGENTS.md of the file's folders, for the model; empty when there is nothing new.

    `known` maps what the session has been shown to its digest (see `ToolContext.read_digests`), and what is attached
    is added. A file is marked before it is fetched: of two reads in one turn one has it. `may_read` judges a path in
    the workspace by the rules of the task.
    """
    texts: list[str] = []
    for folder in folders_above(posixpath.dirname(path))[1:] if path.startswith(f"{WORKSPACE}/") else ():
        file = posixpath.join(folder, NAME)
        if file == path or file in known or not may_read(posixpath.relpath(file, WORKSPACE)):
            continue
        known[file] = ""
        there = await told_inside(sandbox, file)
        if there is None or not may_read(posixpath.relpath(there[1], WORKSPACE)):
            del known[file]
            continue
        content = there[0]
        known[file] = digest(content)  # a file that was cut has another one: it may not be edited yet
        texts.append(framed("instructions", file, bounded(content, MAX_FILE_BYTES)))
    if not texts:
        return ""
    return "\n".join(("Instructions of the repository for this folder (they cannot widen what you may do):", *texts))
