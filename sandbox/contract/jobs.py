"""Jobs: commands in the background."""

from __future__ import annotations

import asyncio
import time

from ..base import MIB, Command
from ..errors import LimitExceeded, PathError, SandboxError, SandboxLost
from .stage import Stage, raises

RUNS = "touch /tmp/up; echo up; sleep 4242"
UNTIL_UP = "until [ -e /tmp/up ]; do sleep 0.01; done"
IS_THERE = "pgrep -fx 'sleep 4242' > /dev/null && echo there || echo gone"
UNTIL_GONE = "while pgrep -fx 'sleep 4242' > /dev/null; do sleep 0.01; done; echo gone"


async def a_job_runs_while_others_do_and_tells_its_end(stage: Stage) -> None:
    job = await (await stage.box()).spawn(
        Command("echo out; echo err >&2; until [ -e go ]; do sleep 0.01; done; exit 3")
    )

    assert (await job.peek(wait_s=0.05)).exit_code is None
    await stage.run("touch go")
    ended = await job.peek(wait_s=60)

    assert (ended.output, ended.start_byte, ended.exit_code, ended.left) == (b"out\nerr\n", 0, 3, ())
    assert (await job.peek(4)).output == b"err\n"
    assert (await job.peek(8)).output == b""
    await job.stop()


async def a_job_is_asked_from_any_byte_on_and_again(stage: Stage) -> None:
    job = await (await stage.box()).spawn(Command("printf 0123456789"))

    assert (await job.peek(wait_s=60)).output == b"0123456789"
    assert [(await job.peek(start, max_bytes=4)).output for start in (0, 0, 4, 8)] == [b"0123", b"0123", b"4567", b"89"]


async def of_a_flood_the_end_is_kept_and_where_it_starts_is_told(stage: Stage) -> None:
    job = await (await stage.box()).spawn(Command("head -c 5000000 /dev/zero; echo last", max_output_bytes=1000))

    ended = await job.peek(7, wait_s=60)

    assert (len(ended.output), ended.start_byte) == (1000, 5_000_005 - 1000)
    assert ended.output.endswith(b"\0last\n")


async def a_wait_that_is_cancelled_loses_nothing_and_ends_nothing(stage: Stage) -> None:
    box = await stage.box()
    job = await box.spawn(Command("echo first; until [ -e go ]; do sleep 0.01; done; echo last"))
    waiting = asyncio.create_task(job.peek(wait_s=60))
    assert (await stage.run("echo beside")).output == b"beside\n"  # the server has the request before it

    waiting.cancel()
    with raises(asyncio.CancelledError):
        await waiting
    await stage.run("touch go")

    assert (await job.peek(wait_s=60)).output == b"first\nlast\n"


async def a_wait_is_over_when_its_time_is(stage: Stage) -> None:
    job = await (await stage.box()).spawn(Command("sleep 4242"))
    started = time.monotonic()

    assert (await job.peek(wait_s=0.2)).exit_code is None

    assert 0.2 <= time.monotonic() - started < 60


async def a_stopped_job_takes_its_children_and_no_other_job(stage: Stage) -> None:
    box = await stage.box()
    other = await box.spawn(Command("until [ -e go ]; do sleep 0.01; done; echo fine"))
    job = await box.spawn(Command("setsid sleep 4242 & " + RUNS))
    await stage.run(UNTIL_UP)

    await job.stop()

    ended = await job.peek(wait_s=60)
    assert (ended.output, ended.exit_code) == (b"up\n", 137)
    assert (await stage.run(UNTIL_GONE, timeout_s=20)).output == b"gone\n"
    await job.stop()
    await stage.run("touch go")
    assert (await other.peek(wait_s=60)).output == b"fine\n"


async def what_a_job_leaves_running_is_told_and_ends_with_a_stop(stage: Stage) -> None:
    job = await (await stage.box()).spawn(Command("sleep 4242 & until pgrep -fx 'sleep 4242'; do :; done"))

    assert (await job.peek(wait_s=60)).left == ("sleep 4242",)
    await job.stop()

    assert (await stage.run(UNTIL_GONE, timeout_s=20)).output == b"gone\n"


async def a_command_that_took_too_long_spares_jobs_and_nothing_else(stage: Stage) -> None:
    box = await stage.box()
    job = await box.spawn(Command("setsid sleep 4242 & " + RUNS))
    await stage.run(UNTIL_UP)
    await stage.run("(env -i setsid sleep 4343 > /dev/null &)")

    assert (await stage.run("(env -i setsid sleep 4343 &); sleep 60", timeout_s=0.3)).timed_out

    until_gone = "while pgrep -fx 'sleep 4343' > /dev/null; do sleep 0.01; done; echo gone"
    assert (await stage.run(until_gone, timeout_s=20)).output == b"gone\n"
    assert (await stage.run("pgrep -fx 'sleep 4242' | wc -l")).output.strip() == b"2"
    assert (await job.peek()).exit_code is None


async def a_command_that_is_cancelled_spares_jobs(stage: Stage) -> None:
    box, started = await stage.box(), asyncio.Event()
    job = await box.spawn(Command(RUNS))
    await stage.run(UNTIL_UP)
    call = asyncio.create_task(box.exec(Command("echo up; sleep 60"), lambda _: started.set()))
    await started.wait()

    call.cancel()
    with raises(asyncio.CancelledError):
        await call

    assert (await stage.run(IS_THERE)).output == b"there\n"
    assert (await job.peek()).exit_code is None


async def jobs_end_with_everything_else(stage: Stage) -> None:
    box = await stage.box()
    job = await box.spawn(Command(RUNS))
    await stage.run(UNTIL_UP)

    await box.kill_all()

    assert (await job.peek(wait_s=60)).exit_code == 137
    assert (await stage.run(IS_THERE)).output == b"gone\n"


async def a_job_of_a_patch_has_ended_before_it_is_taken(stage: Stage) -> None:
    box = await stage.open(await stage.project())
    job = await box.spawn(Command("echo 1 > new.txt; touch /tmp/up; sleep 4242; echo 2 > new.txt"))
    await box.exec(Command(UNTIL_UP))

    patch = await box.patch(lambda _: True)

    assert b"+1" in patch.diff
    assert (await job.peek(wait_s=60)).exit_code == 137


async def more_than_eight_are_refused_and_the_oldest_that_ended_are_forgotten(stage: Stage) -> None:
    box = await stage.box()
    ended = [await box.spawn(Command("true")) for _ in range(2)]
    for job in ended:
        await job.peek(wait_s=60)
    jobs = [await box.spawn(Command("sleep 4242")) for _ in range(8)]

    with raises(LimitExceeded, "8 commands"):
        await box.spawn(Command("true"))
    assert [(await job.peek()).exit_code for job in (*ended, *jobs)] == [0, 0, *[None] * 8]
    for job in jobs:
        await job.stop()
        await job.peek(wait_s=60)
    await box.spawn(Command("true"))
    with raises(SandboxError):
        await ended[0].peek()
    assert (await jobs[-1].peek()).exit_code == 137


async def a_job_in_a_missing_folder_is_an_error_and_a_missing_program_ends_at_once(stage: Stage) -> None:
    box = await stage.box()
    with raises(PathError, "/nowhere"):
        await box.spawn(Command("true", cwd="/nowhere"))

    assert (await (await box.spawn(Command(["no-such-program"]))).peek(wait_s=60)).exit_code == 127


async def many_at_once_say_much_and_each_is_heard(stage: Stage) -> None:
    box = await stage.box()
    jobs = [
        await box.spawn(Command(f"head -c 3000000 /dev/zero | tr '\\0' {n}", max_output_bytes=MIB)) for n in range(4)
    ]

    said = await asyncio.gather(*(job.peek(wait_s=60) for job in jobs))

    assert [(set(each.output), each.start_byte) for each in said] == [({48 + n}, 3_000_000 - MIB) for n in range(4)]


async def who_waits_for_a_job_hears_that_the_sandbox_was_closed(stage: Stage) -> None:
    box = await stage.box()
    job = await box.spawn(Command("sleep 4242"))
    waiting = asyncio.create_task(job.peek(wait_s=60))
    assert (await stage.run("true")).exit_code == 0  # the server has the request before it

    await box.close()

    with raises(SandboxLost):
        await waiting
