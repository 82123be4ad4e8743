"""A new agent's file: what a model is asked for, and what is taken of its answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from ..errors import BadAgent
from .layers import AgentFile, read_agent
from .registry import remarks

_FENCED = re.compile(r"\A\s*```\w*\n(.*?)\n```\s*\Z", re.DOTALL)
# What else would be a path out of the folder, or a hidden file.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)*")

_FORM = """\
Write a file that defines an agent for a coding assistant. What the agent is for:

{description}

Answer with the file and nothing else, in this form:

---
name: a short name in lower case, words joined by hyphens{taken}
description: one sentence that says when to use it, so that others can choose it
mode: primary if people start it, subagent if other agents do, all if both
permission:
  edit: deny
---
The agent's instructions.

`permission` maps a tool (read, list, glob, grep, edit, bash, task, webfetch) to allow, ask or deny, or to a map from
pattern to one of these; the last pattern that fits counts. Give the agent no more than it needs, and leave
`permission` out where nothing is to be refused. Further keys, only if they are needed: temperature (0 to 2) and
max_turns (a whole number).

The instructions speak to the agent: who it is, how it works step by step, what it must not do, and the form of its
answer. They are specific to its purpose, and as short as that allows.
"""


def request_text(description: str, taken: Collection[str], *, refused: tuple[str, str] | None = None) -> str:
    """The prompt. `refused`: an earlier answer, and why it is no agent."""
    names = f" (not: {', '.join(sorted(taken))})" if taken else ""
    text = _FORM.format(description=description.strip(), taken=names)
    if refused is None:
        return text
    answer, why = refused
    return f"{text}\nAn earlier answer could not be used: {why}. It was:\n\n{answer}\n"


def accepted(answer: str, name: str) -> tuple[str, str]:
    """The name and the text of the file in a model's answer. `name` (empty: the model's) goes before its own.

    `BadAgent` when it is no agent, or has a name that is no plain file.
    """
    fenced = _FENCED.match(answer)
    text = (fenced[1] if fenced else answer).strip() + "\n"
    if name:
        text = re.sub(r"\A(---\n(?:.*\n)*?)name:.*\n", r"\1", text, count=1)
    agent = read_agent(AgentFile("the answer", name or "unnamed", text.encode(errors="replace")))
    if not _FILE_NAME.fullmatch(agent.name) or agent.name == "unnamed":
        raise BadAgent(
            f"{agent.name!r} is no name for an agent's file", hint="letters, digits, - and _, parts joined by /"
        )
    if odd := remarks(agent):
        key, fault, hint = odd[0]
        raise BadAgent(fault, hint=hint, key=key)
    return agent.name, text
