"""`--detach`: where what goes on without this command is kept, and who can pick it up."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..errors import BadInput
from ..settings import Settings
from .console import note

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


def tell_left(settings: Settings, pick_up: str) -> None:
    note(f"it runs; pick it up with: {pick_up}")
    if not settings.redis_url:
        note(f"its fleet and its records are on this machine alone, in {settings.state_dir}")
