"""Killed at each of its steps, before it is done outside and right after, and begun again: one of everything."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from aiohttp import web

from orchestrator.publication.telling import comment

SCRIPT = Path(__file__).parent / "publish_once.py"
ROOT = Path(__file__).parents[3]


async def start(desk, commit: str) -> asyncio.subprocess.Process:
    told = {
        "book": str(desk.folder / "publications"),
        "forge": desk.hub.settings().model_dump(mode="json"),
        "wanted": desk.wanted(commit).model_dump(mode="json"),
        "mirror": str((await desk.mirror(commit)).git_dir),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, SCRIPT), stdin=asyncio.subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(told).encode())
    process.stdin.close()
    return process


# Where it is dead, and whether what it asked for is done. Most of the others are for soak runs (MUSTER_CHAOS=soak):
# to be killed before something is done is hardly more than never to have begun it.
DONE = [("POST", "/git-receive-pack", True), ("POST", "/pulls", True), ("POST", "/comments", True)]
UNDONE = [
    ("GET", "/pulls", False),
    ("GET", "/info/refs", False),
    ("POST", "/git-receive-pack", False),
    ("POST", "/pulls", False),
    ("GET", "/comments", False),
    ("POST", "/comments", False),
]
POINTS = [*DONE, *(UNDONE if os.environ.get("MUSTER_CHAOS") == "soak" else UNDONE[2:3])]


@pytest.mark.parametrize(("method", "end", "is_done"), POINTS)
async def test_one_branch_one_request_one_comment(github, method, end, is_done):
    commit = github.commit("second\n")
    await killed_at(github, commit, method, end, is_done=is_done)
    made = await github.publish(commit)
    await comment(github.publisher, made, "hello")

    assert github.hub.tip() == commit
    [review] = github.hub.reviews
    assert len(review.comments) == 1


async def killed_at(desk, commit: str, method: str, end: str, *, is_done: bool) -> None:
    """Run it until it asks for this, which is done or not; then it is dead."""
    process: asyncio.subprocess.Process | None = None
    struck = asyncio.Event()

    async def strike(request: web.Request) -> web.StreamResponse:
        answer = await desk.hub.answer(request) if is_done else web.Response(status=500)
        assert process is not None
        process.kill()
        await process.wait()
        return answer

    def look(request: web.Request) -> None:
        if request.method == method and request.path.endswith(end) and not struck.is_set():
            struck.set()
            desk.hub.faults[:] = [strike]

    desk.hub.look = look
    process = await start(desk, commit)
    async with asyncio.timeout(60):
        assert await process.wait() == -9, f"it never asked for {method} {end}"
    assert struck.is_set()
