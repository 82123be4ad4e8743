"""Bombs and floods: the command gets a clear result, the sandbox goes on, and a neighbour does not notice.

One sandbox for the floods that end by themselves, one for those that kill.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sandbox.base import MIB, Command
from sandbox.contract import make_project
from sandbox.errors import LimitExceeded, SandboxError

pytestmark = pytest.mark.docker

FILL = (  # command, what it must say
    ("head -c 1G /dev/zero > big; rm -f big", b"No space left"),
    ("seq 3000 | xargs touch; cd /; rm -rf /workspace/[0-9]*", b"No space left"),
    ("head -c 1G /dev/zero > /tmp/big; rm -f /tmp/big", b"No space left"),
    ("cd /tmp && seq 3000 | xargs touch; rm -rf /tmp/[0-9]*", b"No space left"),
    ("head -c 1G /dev/zero > /home/agent/big; rm -f /home/agent/big", b"No space left"),
    ("head -c 1G /dev/zero > /dev/shm/big; rm -f /dev/shm/big", b"No space left"),
    ("cd /dev/shm && seq 3000 | xargs touch; rm -rf /dev/shm/[0-9]*", b"No space left"),
    ("python3 -c 'import os\nwhile True: os.open(\"/dev/null\", 0)'", b"Too many open files"),
    ("python3 -c 'x = bytearray(1 << 30)'; echo ended $?", b"ended 1"),  # 137, or 1 where Python hears of it first
)
ZOMBIES = """
import os, time
for _ in range(60):
    if os.fork() == 0:
        os._exit(0)
if os.fork() == 0:
    os.setsid(); time.sleep(1000)
"""
TIMER = """
import os, signal, time
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
signal.signal(signal.SIGALRM, lambda *_: os.kill(0, signal.SIGCONT))
print("on", flush=True)
while True:
    time.sleep(1)
"""


async def test_what_fills_up_says_so_and_can_be_cleared(arena: Any):
    for line, says in FILL:
        result = await arena.run(line)
        assert says in result.output, line
        assert (await arena.run("echo on > file; cat file; rm file")).output == b"on\n", line


async def test_a_full_workspace_is_told_to_who_writes_and_to_who_applies(arena: Any):
    await arena.run("head -c 1G /dev/zero > big")

    with pytest.raises(LimitExceeded, match="No space left"):
        await arena.hostile.write("/workspace/more", bytes(MIB))
    assert (await arena.hostile.stat("/workspace/big")).size_bytes > 28 * MIB
    assert {each.path for each in await arena.hostile.list("/workspace")} == {"/workspace/big"}


async def test_killing_everything_leaves_the_server(arena: Any):
    # `wait`: what a command leaves in the background lives on, and such a one would end the next command
    for line in ("kill -9 1", "kill -9 -1", "kill -STOP 1", "kill -9 -1 & wait", "kill -CONT -1; kill -TERM -1"):
        await arena.run(f"setsid sleep 1000 & {line}; exit 0")
        assert (await arena.run("echo on")).output == b"on\n", line
    assert await arena.python(ZOMBIES) == ""
    assert (await arena.run("ps -e -o stat= | grep -c Z")).output == b"0\n"


async def test_a_fork_bomb_ends_with_its_time(arena: Any):
    # `exec`: a shell that cannot fork ends at once, and what it left in the background may stay, as a server may;
    # `(b)`: of both halves of a pipe the first would have all processes before the shell could fork the second
    bomb = await arena.run("b() { b | b & }; (b) & exec sleep 1000", timeout_s=3.0, max_output_bytes=1000)

    assert bomb.timed_out
    assert b"fork" in bomb.output  # it had all the processes that there are
    assert int((await arena.run("ps -e | wc -l")).output) < 10


async def test_a_gigabyte_of_output_is_cut_inside(arena: Any):
    flood = await arena.run("head -c 1G /dev/zero", max_output_bytes=10_000)
    assert len(flood.output) == 10_000
    assert flood.truncated_bytes == 1024 * MIB - 10_000

    tiny = await arena.python("import os\nfor _ in range(20000): os.write(1, b'x')")
    assert tiny == "x" * 20_000


async def test_output_is_bytes_whatever_a_terminal_would_make_of_it(arena: Any):
    wild = bytes(range(256)) + b"\x1b]0;title\x07\x1b[2J\x1b]52;c;aGk=\x07\x9b\xff\r\x00"
    await arena.hostile.write("/tmp/wild", wild)

    assert (await arena.run("cat /tmp/wild")).output == wild
    assert (await arena.run("cat /tmp/wild >&2; cat /tmp/wild > /dev/tty")).output.startswith(wild)


async def test_a_service_that_floods_and_many_of_them(arena: Any):
    flood = await arena.hostile.start(["yes"])
    assert (await flood.receive()).startswith(b"y\n")
    with pytest.raises(LimitExceeded):
        async with asyncio.timeout(60):
            while True:
                await arena.hostile.start(["sleep", "1000"])

    assert (await flood.receive()).startswith((b"y\n", b"\ny"))


async def test_odd_names_and_deep_trees(arena: Any):
    await arena.python(
        "import os\n"
        "for name in ('n' * 255, 'a\\nb', '\\x1b[31m', '-rf', ' ', 'a' * 60 + '\\u202e'): open(name, 'w').close()\n"
        "open(b'\\xff\\xfe', 'w').close()\n"
        "for _ in range(400): os.mkdir('deep'); os.chdir('deep')\n"
        "open('bottom', 'w').close()"
    )

    assert len(await arena.hostile.list("/workspace")) == 8
    found, _ = await arena.hostile.glob("**/bottom")
    assert found == [] or len(found[0]) > 2000
    for path in ("/workspace/" + "n" * 300, "/workspace/" + "d/" * 3000):
        with pytest.raises(SandboxError):
            await arena.hostile.write(path, b"")
    assert (await arena.run("echo on")).output == b"on\n"


async def test_timers_do_not_thaw_what_is_frozen(place: Any, tmp_path: Path):
    driver, image = place
    async with await driver.open(await make_project(tmp_path, image)) as sandbox:
        on = asyncio.Event()
        timer = Command(["python3", "-c", TIMER], timeout_s=60.0)
        waking = asyncio.create_task(sandbox.exec(timer, lambda _: on.set()))
        await on.wait()
        await sandbox.write("/workspace/new", b"x")

        assert [change.path for change in (await sandbox.snapshot()).files] == ["new"]
        assert not waking.done()
        assert [change.path for change in (await sandbox.patch(lambda _: True)).files] == ["new"]
        assert (await waking).exit_code == 137
