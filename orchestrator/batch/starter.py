"""A batch file to start from."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

TEMPLATE = """\
# What it would do:  muster batch preview FILE      Do it:  muster batch run FILE
# Every key, as JSON Schema:  muster schema batch
name = {name}

[[repositories]] # one or many; paths are relative to this file
path = {path}

[shards] # each is a task of its own in a sandbox of its own. One of: glob, directories, files, files_from, whole = true
glob = "**/*.py"
exclude = ["**/tests/**"]

[[steps]] # commands without a model; or: agent = "build" with prompt = "… {{path}} …"
recipe = ["ruff check --isolated --quiet --fix --select UP {{path}}"]
ok_exit_codes = [0, 1] # 1: some findings have no safe fix

# [setup] # once for each commit; the package index can be reached, nothing else
# commands = ["pip install -e ."]

[gate] # before and after: what failed before is not blamed on the change
commands = ["python -m pytest -q"]

[publish]
branch = {branch}

[limits]
budget_usd = 5.0 # of all shards together; only agents spend it
"""


def starter(repository: Path, *, seen_from: Path) -> str:
    """For a file in the folder `seen_from`, with names made of the repository's folder."""
    folder = re.sub(r"[^A-Za-z0-9_.-]", "-", repository.resolve().name).strip(".-") or "project"
    path = os.path.relpath(repository.resolve(), seen_from.resolve())
    values = {"name": f"modernise-{folder}"[:80], "path": path, "branch": f"muster/modernise-{folder}"[:200]}
    # a JSON string is a TOML string, as long as nothing but ASCII stands in it
    return TEMPLATE.format(**{key: json.dumps(value) for key, value in values.items()})
