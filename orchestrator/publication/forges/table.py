"""Which kind of forge is which class; how one is reached."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from ...errors import BadInput
from ..settings import ForgeSettings, Kind
from .base import Forge
from .gitea import Gitea
from .github import HEADERS, GitHub
from .gitlab import GitLab
from .http import Api, Pace

FORGES: Mapping[Kind, Callable[[Api, str], Forge]] = {Kind.GITHUB: GitHub, Kind.GITLAB: GitLab, Kind.GITEA: Gitea}
_HEADERS = {Kind.GITHUB: HEADERS}


@asynccontextmanager
async def open_forge(name: str, settings: ForgeSettings, path: str, pace: Pace) -> AsyncGenerator[Forge]:
    """The repository `path` (`owner/name`) of one forge."""
    if settings.kind not in FORGES:
        raise BadInput(f"the forge {name!r} is a git server and has no requests", hint="publish with --to push")
    headers = {**_HEADERS.get(settings.kind, {}), **settings.api_headers()}
    async with Api(settings.api, headers, pace, name=name, ca_file=settings.ca_file) as api:
        yield FORGES[settings.kind](api, path)
