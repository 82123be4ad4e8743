"""Services: processes of a sandbox that are talked to."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.base import MIB, Command, SandboxSpec, Service
from sandbox.driver import DockerDriver
from sandbox.errors import PathError, SandboxError, SandboxLost
from sandbox.opened import OpenSandbox

pytestmark = pytest.mark.docker

# Its own lines are not held back by a buffer.
ECHO = ("python3", "-u", "-c", "import sys\nfor line in sys.stdin: sys.stdout.write(line.upper())")


async def everything(service: Service) -> bytes:
    said = bytearray()
    while part := await service.receive():
        said += part
    return bytes(said)


async def test_a_service_answers_what_it_is_told_as_long_as_it_lives(sandbox: OpenSandbox):
    service = await sandbox.start(ECHO)

    for word in (b"one\n", b"two\n"):
        await service.send(word)
        assert await service.receive() == word.upper()
    await service.stop()

    assert await service.receive() == b""


async def test_other_calls_go_on_while_somebody_waits_for_a_service(sandbox: OpenSandbox):
    service = await sandbox.start(ECHO, cwd="/tmp")
    waiting = asyncio.create_task(service.receive())

    assert (await sandbox.exec(Command("echo beside"))).output == b"beside\n"
    await service.send(b"late\n")

    assert await waiting == b"LATE\n"


async def test_a_flood_waits_inside_until_it_is_read(sandbox: OpenSandbox):
    service = await sandbox.start(["sh", "-c", "head -c 3000000 /dev/zero; echo end"])

    assert await sandbox.exec(Command("true"))  # nothing of the flood is in its way
    said = await everything(service)

    assert len(said) == 3_000_004
    assert said.endswith(b"end\n")


async def test_much_is_sent_as_fast_as_it_is_read(sandbox: OpenSandbox):
    service = await sandbox.start(["sh", "-c", "head -c 2500000 | wc -c"])

    await service.send(b"x" * (5 * MIB // 2))

    assert (await service.receive()).split() == [b"2500000"]


async def test_who_stops_reading_holds_up_nobody_else(sandbox: OpenSandbox):
    deaf = await sandbox.start(["sleep", "60"])
    sending = asyncio.create_task(deaf.send(b"x" * MIB))

    assert (await sandbox.exec(Command("echo here"))).output == b"here\n"
    await deaf.stop()

    await sending
    assert await deaf.receive() == b""


async def test_the_end_is_told_once_it_comes_and_after_it(sandbox: OpenSandbox):
    service = await sandbox.start(["sh", "-c", "echo last; exit 3"])

    assert await everything(service) == b"last\n"
    assert await service.receive() == b""
    await service.send(b"to nobody")
    await service.stop()
    await service.stop()


async def test_standard_error_is_not_what_it_says(sandbox: OpenSandbox):
    service = await sandbox.start(["sh", "-c", "echo noise >&2; echo word"])

    assert await everything(service) == b"word\n"


async def test_stopping_one_kills_its_children_and_no_other_service(sandbox: OpenSandbox):
    other = await sandbox.start(ECHO)
    service = await sandbox.start(["sh", "-c", "setsid sleep 4321 & echo ready; wait"])
    assert await service.receive() == b"ready\n"

    await service.stop()

    assert (await sandbox.exec(Command("pgrep -f 'sleep 432[1]' || echo gone"))).output == b"gone\n"
    await other.send(b"still here\n")
    assert await other.receive() == b"STILL HERE\n"


async def test_a_command_that_took_too_long_takes_services_with_it(sandbox: OpenSandbox):
    service = await sandbox.start(ECHO)

    assert (await sandbox.exec(Command("sleep 60", timeout_s=0.2))).timed_out

    assert await service.receive() == b""


async def test_a_missing_folder_is_named_and_a_missing_program_ends_at_once(sandbox: OpenSandbox):
    with pytest.raises(PathError, match="/nowhere"):
        await sandbox.start(ECHO, cwd="/nowhere")

    assert await (await sandbox.start(["no-such-program"])).receive() == b""


async def test_a_service_that_is_not_there_is_an_error_and_no_loss(sandbox: OpenSandbox):
    service = await sandbox.start(ECHO)
    await sandbox.kill_all()
    await service.stop()

    with pytest.raises(SandboxError) as refused:
        await service.send(b"x")

    assert not isinstance(refused.value, SandboxLost)
    assert (await sandbox.exec(Command("echo fine"))).output == b"fine\n"


async def test_who_waits_hears_that_the_sandbox_was_closed(driver: DockerDriver, image: str):
    sandbox = await driver.open(SandboxSpec(image))
    service = await sandbox.start(ECHO)
    waiting = asyncio.create_task(service.receive())
    assert (await sandbox.exec(Command("true"))).exit_code == 0  # the server has the request before it

    await sandbox.close()

    with pytest.raises(SandboxLost):
        await waiting
