"""Recipe shards of one batch take turns in a sandbox that is reset in between, and nobody else does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from envelope.lifecycle import State
from envelope.messages import Attachment, TaskResult, Workspace
from sandbox import kernel
from sandbox.base import Sandbox, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.errors import SandboxError, Unsupported
from workers.sandboxes.turns import Turns

pytestmark = [pytest.mark.docker, pytest.mark.redis]

LEAVE = "echo left > /tmp/left; echo left > ~/.left; echo left > new.txt; setsid sleep 1000 > /dev/null 2>&1 &"
LOOK = "ls -A /tmp ~ && git status --porcelain && ps -A -o args= | grep -c '[s]leep 1000'; true"
DEEP = "import os; [(os.mkdir('dd'), os.chdir('dd')) for _ in range(1300)]"
BOOT = "awk '{print $22}' /proc/1/stat"  # when its first process began


@pytest.fixture
async def run(start_hands: Any, workspace: Workspace) -> Any:
    """`await run(command, …)`: the result of a shard; `settings` are of the worker, at the first call."""
    started: list[Any] = []

    async def shard(command: str, *, settings: dict[str, Any] | None = None, **fields: Any) -> TaskResult:
        if not started:
            started.append(await start_hands(slots=1, **(settings or {})))
        hands = started[0]
        wanted = {"workspace": workspace, "batch_id": "batch-1", **fields}
        result = await hands.result(hands.recipe(command, **wanted))
        await asyncio.gather(*hands.runner.turns._background)  # pyright: ignore[reportPrivateUsage]
        return result

    return shard


def said(result: TaskResult) -> str:
    assert result.status is State.COMPLETED, result.errors
    assert result.output.structured
    return result.output.structured["steps"][0]["output_tail"].strip()


async def test_the_next_shard_of_a_batch_finds_the_same_sandbox_and_nothing_in_it(run: Any):
    boot = said(await run(BOOT))
    spoilt = await run(LEAVE)

    assert said(await run(LOOK)) == "/home/agent:\n\n/tmp:\n0"
    assert said(await run(BOOT)) == boot
    assert [file.path for file in spoilt.patch.files] == ["new.txt"]


async def test_a_shard_that_failed_leaves_nothing_either(run: Any):
    boot = said(await run(BOOT))
    failed = await run(f"{LEAVE} sleep 0.1; exit 3")

    assert failed.status is State.ERROR
    assert said(await run(f"{BOOT}; {LOOK}")) == f"{boot}\n/home/agent:\n\n/tmp:\n0"


OTHERS = {
    "another batch": {"batch_id": "batch-2"},
    "another tenant": {"tenant": "other"},
    "no batch": {"batch_id": ""},
    "a gate": {"agent": "verify"},
}


@pytest.mark.parametrize("who", OTHERS)
async def test_nobody_else_gets_it(run: Any, who: str):
    boot = said(await run(BOOT))

    assert said(await run(BOOT, **OTHERS[who])) != boot


async def test_a_repository_of_another_commit_is_another_sandbox(run: Any, pack: Any):
    boot = said(await run(BOOT))

    assert said(await run(BOOT, workspace=await pack({"src/more.py": "y = 2\n"}))) != boot


async def test_what_comes_with_attachments_is_alone(run: Any, transport: Any):
    content = b"an attachment"
    attached = Attachment(
        blob=await transport.blobs.put(content), name="a.txt", media_type="text/plain", size_bytes=len(content)
    )
    boot = said(await run(BOOT, attachments=(attached,)))

    assert said(await run(BOOT)) != boot


async def test_the_operator_may_have_each_in_its_own(run: Any):
    boot = said(await run(BOOT, settings={"shared_sandboxes": False}))

    assert said(await run(BOOT)) != boot


async def test_what_cannot_be_put_back_is_not_handed_on(run: Any):
    boot = said(await run(BOOT))
    said(await run("python3 -c 'import ctypes; assert ctypes.CDLL(None).shmget(7, 4096, 0o1777) >= 0'"))

    assert said(await run(BOOT)) != boot


async def test_folders_as_deep_as_they_like_are_put_back_too(run: Any):
    boot = said(await run(BOOT))
    said(await run(f'python3 -c "{DEEP}"'))

    assert said(await run(f"{LOOK}; {BOOT}")) == f"/home/agent:\n\n/tmp:\n0\n{boot}"


async def test_whatever_goes_wrong_in_between_it_is_closed(
    driver: DockerDriver, image: str, monkeypatch: pytest.MonkeyPatch
):
    turns = Turns(driver, enabled=True)
    sandbox = await turns.take(("t", "b"), SandboxSpec(image))
    monkeypatch.setattr(sandbox, "renew", Mock(side_effect=RecursionError))
    await turns.give_back(sandbox)
    await asyncio.gather(*turns._background)  # pyright: ignore[reportPrivateUsage]

    assert sandbox.id not in {each.sandbox_id for each in await driver.known()}


async def test_one_that_nobody_wants_goes(driver: DockerDriver, image: str):
    turns = Turns(driver, enabled=True, idle_s=0.0)
    sandbox = await turns.take(("t", "b"), SandboxSpec(image))
    await turns.give_back(sandbox)

    while sandbox.id in {each.sandbox_id for each in await driver.known()}:
        pass
    assert turns._free == {}  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("error", [Unsupported, SandboxError])
async def test_where_the_host_cannot_renew_each_has_its_own(
    driver: DockerDriver, image: str, monkeypatch: pytest.MonkeyPatch, error: type[SandboxError]
):
    """What may go well the next time ends nothing but this turn."""
    turns, spec = Turns(driver, enabled=True), SandboxSpec(image, labels={"task": "t"})
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "copy_of_mount", Mock(side_effect=error("The kernel refused open_tree.")))
        first: Sandbox = await turns.take(("t", "b"), spec)
    await turns.give_back(first)

    assert turns.can_renew == (error is SandboxError)
    assert turns.enabled, "who reads at readers needs no renewal"
    assert first.id not in {each.sandbox_id for each in await driver.known()}


async def test_one_that_is_taken_while_another_is_asked_is_not_taken_twice(
    driver: DockerDriver, image: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("workers.sandboxes.turns.ANSWER_TIMEOUT_S", 60.0)
    turns, batch, spec = Turns(driver, enabled=True), ("t", "b"), SandboxSpec(image)
    both = [await turns.take(batch, spec) for _ in range(2)]
    for sandbox in both:
        await turns.give_back(sandbox)
        await asyncio.gather(*turns._background)  # pyright: ignore[reportPrivateUsage]
    await driver.engine.pause(both[0].id)  # it answers to nobody

    waits, finds = asyncio.create_task(turns.take(batch, spec)), asyncio.create_task(turns.take(batch, spec))
    assert await finds is both[1]
    await driver.engine.remove(both[0].id)

    assert await waits not in both


async def test_one_whose_time_is_too_short_is_not_taken(driver: DockerDriver, image: str):
    turns, batch = Turns(driver, enabled=True), ("t", "b")
    spec = SandboxSpec(image)
    short = replace(spec, limits=replace(spec.limits, lifetime_s=100))
    first = await turns.take(batch, replace(short, labels={"task": "a"}))
    await turns.give_back(first)
    await asyncio.gather(*turns._background)  # pyright: ignore[reportPrivateUsage]

    assert (await turns.take(batch, replace(short, limits=replace(spec.limits, lifetime_s=3600)))).id != first.id
    assert (await turns.take(batch, short)).id == first.id


async def test_a_batch_that_is_stopped_leaves_none_behind_and_others_keep_theirs(driver: DockerDriver, image: str):
    turns, batch, other = Turns(driver, enabled=True), ("t", "b"), ("t", "other")
    free, returned, stopped = [await turns.take(batch, SandboxSpec(image)) for _ in range(3)]
    kept = await turns.take(other, SandboxSpec(image))
    await turns.give_back(free)
    await turns.give_back(kept)
    await asyncio.gather(*turns._background)  # pyright: ignore[reportPrivateUsage]
    await turns.give_back(returned)

    await turns.stop(batch, stopped)

    left = {each.sandbox_id for each in await driver.known()}
    assert left.isdisjoint({free.id, returned.id, stopped.id})
    assert kept.id in left
