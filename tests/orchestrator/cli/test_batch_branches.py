"""Whether a batch's branches could be set in the end, looked at beforehand: everywhere at once, and not for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sized
from contextlib import asynccontextmanager

from orchestrator.batch.file import load_batch
from orchestrator.batch.plan import Planned, planned
from orchestrator.cli import batch_branches
from orchestrator.cli.batch_branches import refusals
from orchestrator.cli.publish import first_of
from orchestrator.publication.settings import ForgeSettings
from orchestrator.settings import Settings

NAMES = ("one", "two", "three")
BATCH = """\
name = "b"
{repositories}
[shards]
glob = "*.py"
[[steps]]
recipe = ["true"]
[publish]
branch = "other"
to = "{form}"
"""


async def plan_of(desk, settings: Settings, form: str) -> Planned:
    repositories = "\n".join(f'[[repositories]]\npath = "{name}"' for name in NAMES)
    file = desk.home / "batch.toml"
    file.write_text(BATCH.format(repositories=repositories, form=form))
    return await planned(load_batch(file), file, settings)


async def test_a_branch_that_holds_the_work_of_others_is_refused_with_how_many_more_are(desk, keep_settings):
    for name in NAMES:
        project = desk.repository(name, {"a.py": "x = 1\n"})
        desk.git("checkout", "-q", "-b", "other", repository=project)
        desk.git("commit", "-q", "--allow-empty", "-m", "theirs", repository=project)
        desk.git("checkout", "-q", "main", repository=project)
    plan = await plan_of(desk, keep_settings, "branch")

    refused = first_of(await refusals(plan, keep_settings))

    base = plan.starts["one"].base[:12]
    assert str(refused) == f"one: The branch other holds work that {base} does not contain (and 2 others)"


@asynccontextmanager
async def silent_until(count: int) -> AsyncIterator[tuple[str, Sized]]:
    """A server that says nothing, and hangs up on the first so many of its callers once they are all there;
    its address, and who has called."""
    callers: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, caller: asyncio.StreamWriter) -> None:
        callers.append(caller)
        if len(callers) == count:
            for each in callers:
                each.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", callers
    finally:
        for each in callers:
            each.close()
        server.close()


async def test_remotes_are_looked_at_together_and_none_is_waited_for_long(desk, keep_settings, monkeypatch):
    monkeypatch.setenv("SILENT_TOKEN", "canary-0123456789")
    async with silent_until(len(NAMES)) as (url, callers), asyncio.timeout(60):
        for name in NAMES:
            project = desk.repository(name, {"a.py": "x = 1\n"})
            desk.git("remote", "add", "origin", f"{url}/{name}.git", repository=project)
        forge = ForgeSettings.model_validate({"kind": "git", "url": url, "token_env": "SILENT_TOKEN"})
        settings = keep_settings.model_copy(update={"forges": {"silent": forge}})
        plan = await plan_of(desk, settings, "push")

        monkeypatch.setattr(batch_branches, "LOOK_TIMEOUT_S", 120.0)
        assert await refusals(plan, settings) == {}, "each hangs until all of them ask"
        assert len(callers) >= len(NAMES)
        monkeypatch.setattr(batch_branches, "LOOK_TIMEOUT_S", 0.3)
        assert await refusals(plan, settings) == {}, "nobody answers any more"
