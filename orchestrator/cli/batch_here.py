"""A batch file that a stranger may have written: it may name nothing beyond the folder that the command runs in, and
spend no more than the settings say."""

from __future__ import annotations

from pathlib import Path

from repo.local import locate

from ..batch.spec import BatchSpec
from ..batch.starts import folder_of
from ..looking import refuse_write
from ..settings import Settings

HINT = "correct the batch file, or have it run by a job that no stranger can start"
HOLDS = "run it from the repository that holds it: a work tree or submodule keeps its commits elsewhere"


async def require_here(spec: BatchSpec, file: Path, settings: Settings) -> None:
    """`WouldWrite` names what goes beyond."""
    here = Path.cwd()
    for one in spec.repositories:
        if not (folder := folder_of(one, file)).is_relative_to(here):
            refuse_write(f"the repository {folder} is outside of {here}", HINT)
    limits, own = spec.limits, settings
    beyond = {
        "limits.budget_usd is more than the settings' budget": limits.budget_microusd(0) > own.budget_microusd,
        "limits.deadline_s is more than the settings' deadline": limits.deadline_ms(0) > own.deadline_ms,
        "limits.shard_deadline_s is more than the settings' deadline": limits.shard_deadline_ms(0) > own.deadline_ms,
        "limits.max_shards is more than the default": limits.max_shards > type(limits)().max_shards,
    }
    for what in (what for what, is_beyond in beyond.items() if is_beyond):
        refuse_write(what, HINT)
    for one in spec.repositories:
        await _require_own_git_dir(folder_of(one, file), here)


async def _require_own_git_dir(folder: Path, here: Path) -> None:
    """A committed folder may pose as a bare repository whose links lead to another's commits. No path with `.git` in it
    can be committed."""
    git_dir = (await locate(folder)).git_dir.resolve()
    if not git_dir.is_relative_to(here) or ".git" not in git_dir.relative_to(here).parts:
        refuse_write(f"the commits of {folder} are not in a .git folder of {here}", HOLDS)
