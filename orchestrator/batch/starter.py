"""A batch file to start from."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from ..errors import BadInput
from ..gating.names import TOOL_FOLDERS
from ..project.files import ProjectFiles
from ..project.guess import PYTEST, Guess, guess
from ..project.python_version import DECLARED_IN, OLDEST, Version, oldest_python
from ..project.text import plain
from .shorthands import FOR_ANY_PYTHON

TEMPLATE = """\
# What it would do:  muster batch preview FILE      Do it:  muster batch run FILE
# Every key, as JSON Schema:  muster schema batch
name = {name}

[[repositories]] # one or many; paths are relative to this file
path = {path}

[shards] # each is a task of its own in a sandbox of its own. One of: glob, directories, files, files_from, whole = true
glob = "**/*{suffix}"
exclude = [{tests}]

[[steps]] # or: recipe = ["…"], commands with {{path}}; or: agent = "build" with prompt = "… {{path}} …"
{step}

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
# What every image can do to a file of any language, until somebody says what is meant.
BLANKS = (
    """recipe = ["sed -i 's/[[:blank:]]*$//' {path}"] # blanks at the ends of lines go; write your own change here"""
)
PYTHON = ".py"
OTHERS = (
    *(".go", ".rs", ".java", ".kt", ".scala", ".js", ".jsx", ".mjs", ".ts", ".tsx", ".c", ".h", ".cc", ".cpp", ".hpp"),
    *(".cs", ".rb", ".php", ".swift", ".ex", ".hs", ".sh"),
)
TESTS = ("**/tests/**",)
OTHER_TESTS = (*TESTS, "**/test/**", "**/__tests__/**", "**/*_test.*", "**/*.test.*", "**/*.spec.*")
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
    there = list(_names(root))
    suffix = _language(files, there)
    # a JSON string is a TOML string, as long as nothing but ASCII stands in it
    return TEMPLATE.format(
        **{key: json.dumps(value) for key, value in values.items()},
        suffix=suffix,
        tests=", ".join(map(json.dumps, TESTS if suffix == PYTHON else OTHER_TESTS)),
        step=_ruff(oldest_python(files.texts)) if suffix == PYTHON else BLANKS,
        setup=_part(SETUP, guessed.setup, guessed.why_setup) or NO_SETUP,
        gate=_gate(guessed, there),
    )


def _names(root: Path) -> Iterator[str]:
    """Of its own files, as many as are looked at."""
    seen = 0
    for _, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in TOOL_FOLDERS]
        yield from names
        seen += len(names)
        if seen > MAX_FILES:
            break


def _language(files: ProjectFiles, names: Iterable[str]) -> str:
    """The suffix of most source files; of a Python package Python's, whatever else it ships."""
    counts = Counter(suffix for name in names if (suffix := PurePath(name).suffix) in (PYTHON, *OTHERS))
    if not counts or (counts[PYTHON] and files.first(*DECLARED_IN)):
        return PYTHON
    return counts.most_common(1)[0][0]


def _gate(guessed: Guess, names: Iterable[str]) -> str:
    """Without one where pytest would find no test, if nobody told it what they are called."""
    commands, why = guessed.gate or (PYTEST,), guessed.why_gate
    found = any(fnmatchcase(name, pattern) for name in names for pattern in COLLECTED)
    if commands == (PYTEST,) and not found:
        return NO_GATE
    needs = f"; the sandbox image must have `{guessed.needs}`: name it in MUSTER_IMAGE" if guessed.needs else ""
    return _part(GATE, commands, why, needs)


def _part(template: str, commands: Sequence[str], why: str, more: str = "") -> str:
    told = ", ".join(json.dumps(command) for command in commands)
    return template.format(commands=told, why=(f"; guessed: {plain(why)}" if why else "") + more) if commands else ""


def _ruff(oldest: Version | None) -> str:
    if oldest is None or oldest >= (3, OLDEST):
        return 'ruff = "UP" # its safe fixes'
    newer = f"UP is for Python 3.{OLDEST} and newer, and this package says that it supports {oldest[0]}.{oldest[1]}"
    return f'ruff = "{FOR_ANY_PYTHON}" # its safe fixes; {newer}'
