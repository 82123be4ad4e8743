"""What a session plans, as its tools know it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from envelope.plan import Plan


@dataclass(slots=True)
class Planning:
    """`path` and `text` are the plan file's; its text is the session's, and in no sandbox (see `plan_file.py`). `name`:
    the path that it was last written by, which may be another.

    `plan` is the living plan (see `plan_update.py`); None while there is none. `agents`: who may carry out its steps;
    `agent` does unless a step says otherwise.
    """

    path: str = ""
    text: str = ""
    name: str = ""
    plan: Plan | None = None
    agents: Collection[str] = ()
    agent: str = ""
