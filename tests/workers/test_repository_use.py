"""What a task works on stays on its worker for as long as it works, and no longer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from repo.cache import collect_repositories
from repo.keeping import Allowance
from sandbox.base import Limits
from transport.errors import NotFound
from workers.sandboxes.of_task import TaskSandbox
from workers.sandboxes.turns import Single
from workers.sandboxes.workspace import Prepared, Workspaces

pytestmark = pytest.mark.docker


async def collected(cache: Path) -> set[str]:
    """The kinds of what went, when all may go that nobody works on."""
    gone = await collect_repositories(cache, Allowance(max_age_s=0, max_bytes=0), now_s=time.time() + 1)
    return {Path(each.name).parts[0] for each in gone}


async def test_from_the_first_look_to_the_patch(driver, transport, image, pack, tmp_path):
    workspaces, cache = Workspaces(driver, transport.blobs, tmp_path / "cache", image), tmp_path / "cache"
    workspace = await pack({"a.txt": "1\n"})

    async def prepare() -> Prepared:
        return await workspaces.prepare(workspace, read_only=False, limits=Limits(), labels={})

    async with TaskSandbox(Single(driver), prepare) as task:
        spec = (await task.prepared()).spec
        assert await collected(cache) == {"bundles"}  # its mirror has what is in it
        async with TaskSandbox(Single(driver), prepare) as other:
            assert (await other.prepared()).spec == spec
        await (await task.opened()).write("/workspace/b.txt", b"2\n")
        assert await collected(cache) == {"bundles"}
        patch = await task.patch(lambda _: True)
        assert patch is not None and b"+2" in patch.diff
        assert spec.checkout is not None and spec.checkout.is_dir()

    assert await collected(cache) == {"checkouts", "mirrors"}


async def test_who_failed_to_begin_works_on_nothing(driver, transport, image, pack, tmp_path):
    workspaces, cache = Workspaces(driver, transport.blobs, tmp_path / "cache", image), tmp_path / "cache"
    workspace = (await pack({"a.txt": "1\n"})).model_copy(update={"changes": f"sha256:{'0' * 64}"})

    with pytest.raises(NotFound) as failure:
        await workspaces.prepare(workspace, read_only=False, limits=Limits(), labels={})

    assert failure.traceback  # and what it held is in there still
    assert await collected(cache) == {"bundles", "checkouts", "mirrors"}
