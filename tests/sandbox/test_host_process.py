"""Programs of the host: bounded in time, and gone when we stop waiting for them."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from sandbox import index
from sandbox.errors import SandboxError
from sandbox.host_process import Finished, run
from sandbox.index import host_index


async def test_what_a_program_says_and_how_it_ends():
    program = "import os, sys; print(os.environ['WORD']); sys.stderr.write('bad'); sys.exit(3)"

    assert await run([sys.executable, "-c", program], timeout_s=30, env={"WORD": "x"}) == Finished(3, b"x\n", b"bad")


async def test_a_program_that_is_too_slow_is_ended(tmp_path):
    script = f"echo $$ > {tmp_path}/pid; exec sleep 600"

    with pytest.raises(TimeoutError):
        await run(["sh", "-c", script], timeout_s=0.5)

    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_cancelled_caller_leaves_no_program(tmp_path):
    os.mkfifo(tmp_path / "begun")
    running = asyncio.create_task(run(["sh", "-c", f"echo $$ > {tmp_path}/begun; exec sleep 600"], timeout_s=60))
    pid = int(await asyncio.to_thread((tmp_path / "begun").read_text))
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_program_that_is_not_there_is_told():
    with pytest.raises(FileNotFoundError):
        await run(["no-such-program-anywhere"], timeout_s=1)


async def test_a_pip_that_does_not_answer_is_a_sandbox_error_with_a_hint(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index, "ASK_PIP", "import time; time.sleep(600)")
    monkeypatch.setattr(index, "ASK_TIMEOUT_S", 0.2)

    with pytest.raises(SandboxError, match="did not say") as failure:
        await host_index()

    assert "hosts for setup" in failure.value.hint
