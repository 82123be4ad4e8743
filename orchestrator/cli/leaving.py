"""What was handed over, and goes on without this command: where it is kept, and who can pick it up."""

from __future__ import annotations

import os
from collections.abc import Mapping

from envelope.errors import ExitCode
from transport.base import Handle

from ..client import Muster
from ..errors import BadInput
from ..settings import Settings
from .console import data, note

# What CI systems say of a machine that goes away with the job: GitHub of its own runners, GitLab of most.
GOES_AWAY: tuple[Mapping[str, str], ...] = (
    {"GITHUB_ACTIONS": "true", "RUNNER_ENVIRONMENT": "github-hosted"},
    {"GITLAB_CI": "true", "CI_DISPOSABLE_ENVIRONMENT": "true"},
)


def require_lasting(settings: Settings) -> None:
    """`BadInput` where the fleet of this machine would be gone, with all that it has done, as soon as the job ends."""
    if settings.redis_url:
        return
    if any(all(os.environ.get(name) == value for name, value in marks.items()) for marks in GOES_AWAY):
        hint = "name a fleet that stays (MUSTER_REDIS_URL), or leave out --detach"
        raise BadInput("this machine goes away with its job, and the fleet that it has started with it", hint=hint)


async def tell_known(muster: Muster, handle: Handle, what: str = "it") -> None:
    """That nothing is submitted again, where the work was handed over before."""
    if handle.existing:
        state = "already done" if await muster.result(handle.task_id) else "already under way"
        note(f"{what} is {state} as {handle.task_id}; nothing is submitted again")


def leave(settings: Settings, handle: Handle, pick_up: str) -> int:
    """`pick_up`: the command that does it, with the task's id."""
    note(f"it runs; pick it up with: {pick_up} {handle.task_id}")
    if not settings.redis_url:
        note(f"its fleet and its records are on this machine alone, in {settings.state_dir}")
    data(handle.task_id)
    return ExitCode.OK
