"""A batch file to start from."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ..errors import BadInput
from ..gating.names import TOOL_FOLDERS
from ..project.files import ProjectFiles
from ..project.guess import PYTEST, Guess, guess
from ..project.python_version import OLDEST, Version, oldest_python
from ..project.text import plain

TEMPLATE = """\
# What it would do:  muster batch preview FILE      Do it:  muster batch run FILE
# Every key, as JSON Schema:  muster schema batch
name = {name}

[[repositories]] # one or many; paths are relative to this file
path = {path}

[shards] # each is a task of its own in a sandbox of its own. One of: glob, directories, files, files_from, whole = true
glob = "**/*.py"
exclude = ["**/tests/**"]

[[steps]] # or: recipe = ["…"], commands with {{path}}; or: agent = "build" with prompt = "… {{path}} …"
ruff = "UP" # its safe fixes{old}

{setup}
{gate}
[publish]
branch = {branch}

[limits]
budget_usd = 5.0 # of all shards together; only agents spend it
"""


SETUP = """\
[setup] # once for each commit; the package index can be reached, nothing else{why}
commands = [{commands}]
"""
NO_SETUP = """\
# [setup] # once for each commit; the package index can be reached, nothing else
# commands = ["pip install -e ."]
"""
GATE = """\
[gate] # before and after: what failed before is not blamed on the change{why}
commands = [{commands}]
min_tests = 1 # raise it to about as many as there are: then none gets lost without a word
"""
NO_GATE = """\
# No tests were found here. Without a gate a change ends as done, and never as verified. Where others prove it:
# [gate]
# commands = ["…"]
# min_tests = 0 # for commands that run no tests: their exit codes must do
"""
COLLECTED = ("test_*.py", "*_test.py")  # by pytest, where nobody says otherwise
MAX_FILES = 20_000  # that are looked at for a test


def starter(repository: Path, *, seen_from: Path) -> str:
    """For a file in the folder `seen_from`, with names made of the repository's folder.

    Setup and gate are guessed as `muster init` does; the gate is left out where no tests are.
    """
    root = repository.resolve()
    if not root.is_dir():
        raise BadInput(f"there is no folder {repository}", hint="name the folder of a repository: --repo PATH")
    files = ProjectFiles.of(root)
    guessed = guess(files)
    folder = re.sub(r"[^A-Za-z0-9_.-]", "-", root.name).strip(".-") or "project"
    values = {
        "name": f"modernise-{folder}"[:80],
        "path": os.path.relpath(root, seen_from.resolve()),
        "branch": f"muster/modernise-{folder}"[:200],
    }
    # a JSON string is a TOML string, as long as nothing but ASCII stands in it
    return TEMPLATE.format(
        **{key: json.dumps(value) for key, value in values.items()},
        old=_too_old(oldest_python(files.texts)),
        setup=_part(SETUP, guessed.setup, guessed.why_setup) or NO_SETUP,
        gate=_gate(guessed, root),
    )


def _has_tests(root: Path) -> bool:
    """Would pytest find any, where nobody tells it what they are called?"""
    seen = 0
    for _, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in TOOL_FOLDERS]
        if any(fnmatchcase(name, pattern) for name in names for pattern in COLLECTED):
            return True
        seen += len(names)
        if seen > MAX_FILES:
            break
    return False


def _gate(guessed: Guess, root: Path) -> str:
    commands, why = guessed.gate or (PYTEST,), guessed.why_gate
    if commands == (PYTEST,) and not _has_tests(root):
        return NO_GATE
    return _part(GATE, commands, why)


def _part(template: str, commands: Sequence[str], why: str) -> str:
    told = ", ".join(json.dumps(command) for command in commands)
    return template.format(commands=told, why=f"; guessed: {plain(why)}" if why else "") if commands else ""


def _too_old(oldest: Version | None) -> str:
    if oldest is None or oldest >= (3, OLDEST):
        return ""
    return f"; they are for Python 3.{OLDEST} and newer, and this package says that it supports {oldest[0]}.{oldest[1]}"
