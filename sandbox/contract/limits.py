"""What one sandbox may use, and what becomes of it when it wants more. A case names the limit that it is about."""

from __future__ import annotations

import asyncio

from ..base import MIB, Command, Limits, Sandbox, SandboxSpec
from ..errors import LimitExceeded, SandboxLost
from .stage import Stage, raises

TAKE_ALL_PROCESSES = """
import subprocess, time
held = []
try:
    while True:
        held.append(subprocess.Popen(["sleep", "1000"]))
except BlockingIOError:
    print("full", flush=True)
    time.sleep(1000)
"""


async def _with(stage: Stage, limits: Limits) -> Sandbox:
    return await stage.open(SandboxSpec(stage.image, limits=limits))


async def pids__a_fork_bomb_is_bounded_and_ends_with_its_time(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(pids=128))
    # `(b) &`: a shell that calls `b` forks both halves of its pipe, and ends when the first has all processes by then
    bomb = await sandbox.exec(Command("b() { b | b & }; (b) & exec sleep 1000", timeout_s=3, max_output_bytes=1000))
    assert bomb.timed_out
    assert b"fork" in bomb.output, bomb.output

    after = await sandbox.exec(Command("ps -e | wc -l", timeout_s=30))
    assert after.exit_code == 0
    assert int(after.output) < 10, after.output


async def pids__what_a_bomb_left_does_not_block_the_next_command(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(pids=64))
    await sandbox.exec(Command("i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done", timeout_s=30))

    assert (await sandbox.exec(Command("echo on", timeout_s=30))).output == b"on\n"


async def pids__out_of_processes_is_said_and_passes(stage: Stage) -> None:
    sandbox, full = await _with(stage, Limits(pids=64)), asyncio.Event()
    greedy = Command(["python3", "-c", TAKE_ALL_PROCESSES], timeout_s=2)

    async def ask_meanwhile() -> None:
        await full.wait()
        with raises(LimitExceeded):
            await sandbox.exec(Command("true"))

    await asyncio.gather(sandbox.exec(greedy, lambda _: full.set()), ask_meanwhile())
    assert (await sandbox.exec(Command("echo on", timeout_s=30))).output == b"on\n"


async def memory_bytes__a_memory_bomb_kills_the_command_and_not_the_server(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(memory_bytes=256 * MIB))
    bomb = await sandbox.exec(Command("python3 -c 'x = bytearray(1 << 30)'", timeout_s=60))

    assert bomb.exit_code != 0
    assert (await sandbox.exec(Command("echo alive"))).output == b"alive\n"


async def tmp_bytes__temporary_space_ends_at_its_size(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(tmp_bytes=16 * MIB))
    fill = await sandbox.exec(Command("head -c 1G /dev/zero > /tmp/big; stat -c %s /tmp/big"))

    assert 15 * MIB <= int(fill.output.split(b"\n")[-2]) <= 16 * MIB


async def tmp_inodes__temporary_files_end_at_their_number(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(tmp_inodes=1000))
    flood = await sandbox.exec(Command("cd /tmp; seq 5000 | xargs touch 2>/dev/null; ls | wc -l"))

    assert 900 <= int(flood.output) <= 1000


async def workspace_bytes__the_workspace_ends_at_its_size_and_can_be_cleared(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(workspace_bytes=32 * MIB))
    fill = await sandbox.exec(Command("head -c 1G /dev/zero > big; stat -c %s big; rm big; echo on > small; cat small"))

    *_, size, word = fill.output.split()
    assert b"No space left" in fill.output
    assert 28 * MIB <= int(size) <= 32 * MIB
    assert word == b"on"


async def workspace_inodes__files_of_the_workspace_end_at_their_number(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(workspace_bytes=64 * MIB, workspace_inodes=1000))
    flood = await sandbox.exec(Command("seq 3000 | xargs touch 2>/dev/null; ls | wc -l; touch more"))

    assert 900 <= int(flood.output.split()[0]) <= 1000
    assert b"No space left" in flood.output


async def shm_inodes__files_of_shared_memory_end_at_their_number(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(shm_inodes=100))
    flood = await sandbox.exec(Command("cd /dev/shm; seq 500 | xargs touch 2>/dev/null; ls | wc -l"))

    assert 90 <= int(flood.output) <= 100


async def open_files__a_process_opens_no_more(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(open_files=200))

    assert (await sandbox.exec(Command("ulimit -Hn"))).output == b"200\n"


async def lifetime_s__a_sandbox_destroys_itself_when_its_time_is_over(stage: Stage) -> None:
    sandbox = await _with(stage, Limits(lifetime_s=1))

    with raises(SandboxLost):
        await sandbox.exec(Command("sleep 1000", timeout_s=60))
