"""A batch that only looks: its file may come from a stranger. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..looking import refuse_write
from .spec import BatchSpec

HINT = "leave it out of the batch file: read-only, a batch asks agents about files of repositories that are here"


def require_looking(spec: BatchSpec) -> None:
    """`WouldWrite` names the first thing in it that is more than to ask agents about files."""
    for what in _beyond(spec):
        refuse_write(what, HINT)


def _beyond(spec: BatchSpec) -> Iterator[str]:
    if spec.publish is not None:
        yield "[publish] sets branches, pushes or makes requests"
    if spec.gate is not None:
        yield "[gate] runs commands to prove changes"
    if spec.setup.commands:
        yield "[setup] runs commands with a way to the package index"
    if spec.merge.resolve == "agent":
        yield "merge.resolve has an agent edit files"
    if spec.shards.command is not None:
        yield "shards.command runs a command"
    if spec.shards.also_edit:
        yield "shards.also_edit lets files be edited"
    if any(step.agent is None for step in spec.steps):
        yield "a step that is no agent's runs commands which change files"
    for one in spec.repositories:
        if one.path is None:
            yield "a repository is to be fetched or listed, which may take a secret"
    if spec.shards.files_from is not None:
        yield "shards.files_from reads another file"
