"""Services: processes of a sandbox that are talked to."""

from __future__ import annotations

import asyncio

from ..base import MIB, Command, SandboxSpec, Service
from ..errors import PathError, SandboxError, SandboxLost
from .stage import Stage, raises

# Its own lines are not held back by a buffer.
ECHO = ("python3", "-u", "-c", "import sys\nfor line in sys.stdin: sys.stdout.write(line.upper())")


async def a_service_answers_what_it_is_told_as_long_as_it_lives(stage: Stage) -> None:
    service = await (await stage.box()).start(ECHO)

    for word in (b"one\n", b"two\n"):
        await service.send(word)
        assert await service.receive() == word.upper()
    await service.stop()

    assert await service.receive() == b""


async def other_calls_go_on_while_somebody_waits_for_a_service(stage: Stage) -> None:
    service = await (await stage.box()).start(ECHO, cwd="/")
    waiting = asyncio.create_task(service.receive())

    assert (await stage.run("echo beside")).output == b"beside\n"
    await service.send(b"late\n")

    assert await waiting == b"LATE\n"


async def a_flood_of_a_service_waits_inside_until_it_is_read(stage: Stage) -> None:
    service = await (await stage.box()).start(["sh", "-c", "head -c 3000000 /dev/zero; echo end"])

    assert (await stage.run("echo free")).output == b"free\n"  # nothing of the flood is in its way
    said = await _everything(service)

    assert len(said) == 3_000_004
    assert said.endswith(b"end\n")


async def much_is_sent_as_fast_as_it_is_read(stage: Stage) -> None:
    service = await (await stage.box()).start(["sh", "-c", "head -c 2500000 | wc -c"])

    await service.send(b"x" * (5 * MIB // 2))

    assert (await service.receive()).split() == [b"2500000"]


async def who_stops_reading_holds_up_nobody_else(stage: Stage) -> None:
    deaf = await (await stage.box()).start(["sleep", "60"])
    sending = asyncio.create_task(deaf.send(b"x" * MIB))

    assert (await stage.run("echo here")).output == b"here\n"
    await deaf.stop()

    await sending
    assert await deaf.receive() == b""


async def the_end_of_a_service_is_told_once_it_comes_and_after_it(stage: Stage) -> None:
    service = await (await stage.box()).start(["sh", "-c", "echo last; exit 3"])

    assert await _everything(service) == b"last\n"
    assert await service.receive() == b""
    await service.send(b"to nobody")
    await service.stop()
    await service.stop()


async def standard_error_is_not_what_a_service_says(stage: Stage) -> None:
    service = await (await stage.box()).start(["sh", "-c", "echo noise >&2; echo word"])

    assert await _everything(service) == b"word\n"


async def stopping_one_service_kills_its_children_and_no_other(stage: Stage) -> None:
    box = await stage.box()
    other = await box.start(ECHO)
    service = await box.start(["sh", "-c", "setsid sleep 4321 & echo ready; wait"])
    assert await service.receive() == b"ready\n"

    await service.stop()

    until_gone = "while pgrep -f 'sleep 432[1]' > /dev/null; do :; done; echo gone"
    assert (await stage.run(until_gone, timeout_s=20)).output == b"gone\n"
    await other.send(b"still here\n")
    assert await other.receive() == b"STILL HERE\n"


async def what_a_service_is_just_starting_ends_with_it(stage: Stage) -> None:
    """One that becomes another program at that moment has no environment by which it could be told."""
    box = await stage.box()
    for _ in range(10):
        service = await box.start(["sh", "-c", "for n in 1 2 3 4 5 6; do setsid sleep 4322 & done; echo ready; wait"])
        assert await service.receive() == b"ready\n"
        await service.stop()
    until_gone = "while pgrep -f 'sleep 432[2]' > /dev/null; do :; done; echo gone"
    assert (await stage.run(until_gone, timeout_s=20)).output == b"gone\n"


async def a_command_that_took_too_long_takes_services_with_it(stage: Stage) -> None:
    service = await (await stage.box()).start(ECHO)

    assert (await stage.run("sleep 60", timeout_s=0.2)).timed_out

    assert await service.receive() == b""


async def a_service_in_a_missing_folder_is_an_error_and_a_missing_program_ends_at_once(stage: Stage) -> None:
    box = await stage.box()
    with raises(PathError, "/nowhere"):
        await box.start(ECHO, cwd="/nowhere")

    assert await (await box.start(["no-such-program"])).receive() == b""


async def a_service_that_is_not_there_is_an_error_and_no_loss(stage: Stage) -> None:
    service = await (await stage.box()).start(ECHO)
    await service.stop()

    try:
        await service.send(b"x")
    except SandboxError as refused:
        assert not isinstance(refused, SandboxLost)
    else:
        raise AssertionError("it was sent to nobody")
    assert (await stage.run("echo fine")).output == b"fine\n"


async def who_waits_hears_that_the_sandbox_was_closed(stage: Stage) -> None:
    sandbox = await stage.driver.open(SandboxSpec(stage.image))
    service = await sandbox.start(ECHO)
    waiting = asyncio.create_task(service.receive())
    assert (await sandbox.exec(Command("true"))).exit_code == 0  # the server has the request before it

    await sandbox.close()

    with raises(SandboxLost):
        await waiting


async def _everything(service: Service) -> bytes:
    said = bytearray()
    while part := await service.receive():
        said += part
    return bytes(said)
