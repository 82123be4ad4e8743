"""What a task needs and is away for a while: the task comes again, and nobody takes that for its own failure."""

from __future__ import annotations

import errno
import os

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from sandbox.errors import EngineUnavailable, ImageMissing, SandboxLost, SetupFailed
from transport.delivery import MAX_RETRIES, Again
from workers.delivery.failures import again

ENGINE = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")


@pytest.mark.parametrize("error", [EngineUnavailable("away"), ImageMissing("away")])
def test_an_outage_is_another_attempt_until_there_were_enough_of_them(error: Exception):
    assert again(error, retries=0) == Again(ErrorCode.SANDBOX, "away")
    assert again(error, retries=MAX_RETRIES) is None


@pytest.mark.parametrize("error", [SandboxLost("gone"), SetupFailed("pip said no", output=""), ValueError("ours")])
def test_what_the_task_may_have_done_itself_is_its_end(error: Exception):
    assert again(error, retries=0) is None


@pytest.mark.redis
@pytest.mark.docker
async def test_a_task_outlives_an_engine_that_does_not_answer(monkeypatch, tmp_path, start_hands):
    socket = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    hands = await start_hands()
    request = hands.recipe("echo hello")
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: progress.status is State.PENDING and progress.attempt == 1)

    socket.symlink_to(ENGINE)

    result = await hands.ended(request.task_id)
    record = await hands.transport.record(request.task_id)
    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert record.retries == result.attempt - 1 > 0
    assert record.lost_leases == 0


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENFILE, ""), MemoryError()]
)
def test_what_another_task_may_have_used_up_is_waited_for(error: Exception):
    assert again(error, retries=0) is not None
    assert again(error, retries=MAX_RETRIES) is None
    assert again(OSError(errno.EIO, "Input/output error"), retries=0) is None
