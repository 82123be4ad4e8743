"""Commands: how they start, what they say, and how they end."""

from __future__ import annotations

import asyncio
import time

from ..base import MIB, Command
from ..errors import PathError
from .stage import Stage, raises

EXITS = {"true": 0, "exit 7": 7, "kill -TERM $$": 143, "kill -KILL $$": 137, "no-such-program": 127}

ESCAPES = {
    "plain": "sleep 1000",
    "session": "setsid sleep 1000 & wait",
    "nohup": "nohup sleep 1000 & wait",
    "double fork": "(sh -c 'sleep 1000 &' &); sleep 1000",
    "no environment": "(env -i setsid sleep 1000 &); sleep 1000",
    "deaf": "trap '' TERM INT HUP; sleep 1000; sleep 1000",
    "stopped": "sleep 1000 & kill -STOP $!; sleep 1000",
}
# A killed process is in the list until the kernel has taken it apart: it may be there, but it must not stay.
UNTIL_GONE = "while pgrep sleep > /dev/null; do :; done; echo gone"


async def the_exit_code_is_what_a_shell_would_say(stage: Stage) -> None:
    assert {line: (await stage.run(line)).exit_code for line in EXITS} == EXITS


async def both_outputs_come_in_order_of_arrival(stage: Stage) -> None:
    result = await stage.run("echo one; echo two >&2; echo three")

    assert (result.output, result.timed_out) == (b"one\ntwo\nthree\n", False)


async def an_argument_vector_meets_no_shell(stage: Stage) -> None:
    result = await (await stage.box()).exec(Command(["printf", "%s|", "$HOME; echo no", "a b"]))

    assert result.output == b"$HOME; echo no|a b|"


async def a_missing_program_of_a_vector_ends_like_one_of_a_line(stage: Stage) -> None:
    result = await (await stage.box()).exec(Command(["no-such-program"]))

    assert result.exit_code == 127
    assert b"not found" in result.output


async def standard_input_folder_and_environment_reach_the_command(stage: Stage) -> None:
    result = await stage.run('cat; pwd; echo "$WHO"', stdin=b"x" * 200_000 + b"\n", cwd="/tmp", env={"WHO": "me"})  # noqa: S108

    assert result.output == b"x" * 200_000 + b"\n/tmp\nme\n"


async def without_standard_input_a_reader_sees_the_end(stage: Stage) -> None:
    assert (await stage.run("cat; echo done")).output == b"done\n"


async def a_missing_folder_is_named(stage: Stage) -> None:
    with raises(PathError, "/nowhere"):
        await stage.run("true", cwd="/nowhere")


async def output_streams_while_the_command_runs(stage: Stage) -> None:
    box, first_line = await stage.box(), asyncio.Event()

    async def let_it_end() -> None:
        await first_line.wait()
        await box.write("/workspace/go", b"")

    command = Command("echo first; until [ -e go ]; do :; done; echo last", timeout_s=20)
    result, _ = await asyncio.gather(box.exec(command, lambda _: first_line.set()), let_it_end())

    assert result.output == b"first\nlast\n"


async def a_flood_is_cut_inside_and_counted(stage: Stage) -> None:
    chunks: list[int] = []
    flood = "echo first; head -c 1000000000 /dev/zero; echo last"
    box = await stage.box()
    result = await box.exec(Command(flood, max_output_bytes=1 * MIB), lambda chunk: chunks.append(len(chunk)))

    assert len(result.output) == sum(chunks) == 1 * MIB
    assert result.truncated_bytes == 1_000_000_000 + len("first\nlast\n") - 1 * MIB
    assert result.output.startswith(b"first\n")
    assert result.output.endswith(b"last\n")


async def output_just_at_the_limit_is_whole(stage: Stage) -> None:
    result = await stage.run("printf 0123456789", max_output_bytes=10)

    assert (result.output, result.truncated_bytes) == (b"0123456789", 0)


async def output_over_an_odd_limit_keeps_head_and_tail(stage: Stage) -> None:
    result = await stage.run("printf 0123456789", max_output_bytes=5)

    assert (result.output, result.truncated_bytes) == (b"01789", 5)


async def nothing_survives_a_time_out(stage: Stage) -> None:
    for name, line in ESCAPES.items():
        result = await stage.run(line, timeout_s=0.3)

        assert (result.timed_out, result.exit_code) == (True, 137), name
        assert (await stage.run(UNTIL_GONE, timeout_s=20)).output == b"gone\n", name


async def a_time_out_keeps_what_was_said(stage: Stage) -> None:
    assert (await stage.run("echo so far; sleep 1000", timeout_s=0.3)).output == b"so far\n"


async def a_time_out_leaves_a_neighbour_alone(stage: Stage) -> None:
    await stage.box()
    neighbour, late = await asyncio.gather(stage.run("sleep 1; echo fine"), stage.run("sleep 1000", timeout_s=0.2))

    assert late.timed_out
    assert (neighbour.output, neighbour.exit_code) == (b"fine\n", 0)


async def a_background_process_that_holds_the_output_holds_nobody_up(stage: Stage) -> None:
    started = time.monotonic()
    result = await stage.run("sleep 1000 & echo $!")

    assert time.monotonic() - started < 60  # against 1000: it did not wait
    # By its number: it may not have become `sleep` yet.
    assert (await stage.run(f"kill -0 {int(result.output)} && echo runs")).output == b"runs\n"


async def what_commands_left_running_ends_when_that_is_asked_for(stage: Stage) -> None:
    box = await stage.box()
    left = await stage.run("setsid sleep 1000 > /dev/null & echo $!")

    await box.kill_all()

    assert (await stage.run(f"kill -0 {int(left.output)} || echo gone")).output.endswith(b"gone\n")


async def orphans_are_collected(stage: Stage) -> None:
    await stage.run("for i in 1 2 3 4 5; do (sh -c 'true &' &); done")

    until_none = "while ps -e -o stat= | grep -q Z; do :; done; echo none"
    assert (await stage.run(until_none, timeout_s=20)).output == b"none\n"


async def a_pipe_whose_reader_leaves_ends_its_writer(stage: Stage) -> None:
    assert (await stage.run("yes | head -n 1", timeout_s=20)).output == b"y\n"


async def many_commands_run_at_once(stage: Stage) -> None:
    await stage.box()
    everyone_waits = "touch $N; until [ $(ls | wc -l) -ge 8 ]; do sleep 0.01; done; echo $N"
    results = await asyncio.gather(*(stage.run(everyone_waits, env={"N": str(n)}, timeout_s=60) for n in range(8)))

    assert [result.output for result in results] == [b"%d\n" % n for n in range(8)]


async def a_cancelled_call_ends_its_command(stage: Stage) -> None:
    box, started = await stage.box(), asyncio.Event()
    call = asyncio.create_task(box.exec(Command("echo up; setsid sleep 1000"), lambda _: started.set()))
    await started.wait()

    call.cancel()
    with raises(asyncio.CancelledError):
        await call

    assert (await stage.run(UNTIL_GONE, timeout_s=20)).output == b"gone\n"


async def a_callback_that_raises_fails_its_own_call_only(stage: Stage) -> None:
    def refuse(_: bytes) -> None:
        raise ValueError("no, thank you")

    with raises(ValueError, "no, thank you"):
        await (await stage.box()).exec(Command("echo hello"), refuse)

    assert (await stage.run("echo on")).output == b"on\n"
