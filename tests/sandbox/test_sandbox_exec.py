"""Commands: how they start, what they say, and how they end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from sandbox.base import MIB, Command, ExecResult
from sandbox.errors import PathError
from sandbox.opened import OpenSandbox

pytestmark = pytest.mark.docker
Run = Callable[..., Awaitable[ExecResult]]


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [("true", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("no-such-program", 127)],
)
async def test_the_exit_code_is_what_a_shell_would_say(run: Run, line: str, exit_code: int):
    assert (await run(line)).exit_code == exit_code


async def test_both_outputs_come_in_order_of_arrival(run: Run):
    result = await run("echo one; echo two >&2; echo three")

    assert result.output == b"one\ntwo\nthree\n"
    assert not result.timed_out


async def test_an_argument_vector_meets_no_shell(sandbox: OpenSandbox):
    result = await sandbox.exec(Command(["printf", "%s|", "$HOME; echo no", "a b"]))

    assert result.output == b"$HOME; echo no|a b|"


async def test_a_missing_program_of_a_vector_ends_like_one_of_a_line(sandbox: OpenSandbox):
    result = await sandbox.exec(Command(["no-such-program"]))

    assert result.exit_code == 127
    assert b"not found" in result.output


async def test_standard_input_folder_and_environment_reach_the_command(run: Run):
    result = await run('cat; pwd; echo "$WHO"', stdin=b"x" * 200_000 + b"\n", cwd="/tmp", env={"WHO": "me"})

    assert result.output == b"x" * 200_000 + b"\n/tmp\nme\n"


async def test_without_standard_input_a_reader_sees_the_end(run: Run):
    assert (await run("cat; echo done")).output == b"done\n"


async def test_a_missing_folder_is_named(run: Run):
    with pytest.raises(PathError, match="/nowhere"):
        await run("true", cwd="/nowhere")


async def test_output_streams_while_the_command_runs(sandbox: OpenSandbox):
    first_line = asyncio.Event()

    async def let_it_end() -> None:
        await first_line.wait()
        await sandbox.write("/tmp/go", b"")

    command = Command("echo first; until [ -e /tmp/go ]; do :; done; echo last", timeout_s=20)
    result, _ = await asyncio.gather(sandbox.exec(command, lambda _: first_line.set()), let_it_end())

    assert result.output == b"first\nlast\n"


async def test_a_flood_is_cut_inside_and_counted(sandbox: OpenSandbox):
    received = 0

    def count(chunk: bytes) -> None:
        nonlocal received
        received += len(chunk)

    flood = "echo first; head -c 1000000000 /dev/zero; echo last"
    result = await sandbox.exec(Command(flood, max_output_bytes=1 * MIB), count)

    assert len(result.output) == received == 1 * MIB
    assert result.truncated_bytes == 1_000_000_000 + len("first\nlast\n") - 1 * MIB
    assert result.output.startswith(b"first\n")
    assert result.output.endswith(b"last\n")


async def test_output_just_at_the_limit_is_whole(run: Run):
    result = await run("printf 0123456789", max_output_bytes=10)

    assert (result.output, result.truncated_bytes) == (b"0123456789", 0)


async def test_output_over_an_odd_limit_keeps_head_and_tail(run: Run):
    result = await run("printf 0123456789", max_output_bytes=5)

    assert (result.output, result.truncated_bytes) == (b"01789", 5)


ESCAPES = {
    "plain": "sleep 1000",
    "session": "setsid sleep 1000 & wait",
    "nohup": "nohup sleep 1000 & wait",
    "double fork": "(sh -c 'sleep 1000 &' &); sleep 1000",
    "no environment": "(env -i setsid sleep 1000 &); sleep 1000",
    "deaf": "trap '' TERM INT HUP; sleep 1000; sleep 1000",
}


@pytest.mark.parametrize("line", ESCAPES.values(), ids=ESCAPES.keys())
async def test_nothing_survives_a_time_out(run: Run, line: str):
    result = await run(line, timeout_s=0.3)

    assert result.timed_out
    assert result.exit_code == 137
    assert (await run("pgrep sleep")).output == b""


async def test_a_time_out_keeps_what_was_said(run: Run):
    assert (await run("echo so far; sleep 1000", timeout_s=0.3)).output == b"so far\n"


async def test_a_time_out_leaves_a_neighbour_alone(run: Run):
    neighbour, late = await asyncio.gather(run("sleep 1; echo fine"), run("sleep 1000", timeout_s=0.2))

    assert late.timed_out
    assert (neighbour.output, neighbour.exit_code) == (b"fine\n", 0)


async def test_a_background_process_that_holds_the_output_holds_nobody_up(run: Run):
    started = time.monotonic()
    result = await run("sleep 1000 & echo started")

    assert result.output == b"started\n"
    assert time.monotonic() - started < 30  # against 1000: it did not wait
    assert (await run("pgrep -c sleep")).output == b"1\n"


async def test_orphans_are_collected(run: Run):
    await run("for i in 1 2 3 4 5; do (sh -c 'true &' &); done")

    assert (await run("ps -e -o stat= | grep -c Z")).output == b"0\n"


async def test_a_pipe_whose_reader_leaves_ends_its_writer(run: Run):
    assert (await run("yes | head -n 1", timeout_s=20)).output == b"y\n"


async def test_many_commands_run_at_once(run: Run):
    everyone_waits = "touch /tmp/$N; until [ $(ls /tmp | wc -l) -ge 8 ]; do sleep 0.01; done; echo $N"
    results = await asyncio.gather(*(run(everyone_waits, env={"N": str(n)}, timeout_s=60) for n in range(8)))

    assert [result.output for result in results] == [b"%d\n" % n for n in range(8)]


async def test_a_cancelled_call_ends_its_command(sandbox: OpenSandbox, run: Run):
    started = asyncio.Event()
    call = asyncio.create_task(sandbox.exec(Command("echo up; setsid sleep 1000"), lambda _: started.set()))
    await started.wait()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert (await run("pgrep sleep")).output == b""


async def test_a_callback_that_raises_fails_its_own_call_only(sandbox: OpenSandbox, run: Run):
    def refuse(_: bytes) -> None:
        raise ValueError("no, thank you")

    with pytest.raises(ValueError, match="no, thank you"):
        await sandbox.exec(Command("echo hello"), refuse)

    assert (await run("echo on")).output == b"on\n"
