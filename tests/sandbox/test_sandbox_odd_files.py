"""Files as a hostile repository has them: links, and what turns out to be binary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from sandbox.base import ExecResult
from sandbox.errors import SandboxError
from sandbox.opened import OpenSandbox

pytestmark = pytest.mark.docker
Run = Callable[..., Awaitable[ExecResult]]


async def test_a_search_goes_past_files_that_turn_out_to_be_binary(sandbox: OpenSandbox, run: Run):
    await run(
        "(yes needle | head -50000; head -c 3 /dev/zero) > late.dat; (head -c 5 /dev/zero; echo needle) > soon.dat"
    )
    await run("echo needle > last.txt")

    found, _ = await sandbox.grep("needle", limit=100_000)

    assert {"/workspace/last.txt", "/workspace/late.dat"} <= {match.path for match in found}
    with pytest.raises(SandboxError, match="binary"):
        await sandbox.grep("needle", "/workspace/soon.dat")


async def test_a_path_is_followed_through_every_link_as_far_as_something_is_there(sandbox: OpenSandbox, run: Run):
    await run("mkdir src; touch src/a; ln -s src near; ln -s near/a far; ln -s /etc out; ln -s round round")

    led = {
        path: await sandbox.resolve(f"/workspace/{path}")
        for path in ("src/a", "near/a", "far", "near/new/b", "out/passwd", "round", "none")
    }

    assert led == {
        "src/a": "/workspace/src/a",
        "near/a": "/workspace/src/a",
        "far": "/workspace/src/a",
        "near/new/b": "/workspace/src/new/b",
        "out/passwd": "/etc/passwd",
        "round": "/workspace/round",
        "none": "/workspace/none",
    }
