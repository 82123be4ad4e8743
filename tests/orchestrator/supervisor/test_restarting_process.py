"""Programs that are kept running: real processes, real signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from envelope.errors import ExitCode
from orchestrator.supervisor.process import Death, Program, RestartingProcess
from orchestrator.supervisor.programs import _start_failure


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deaths: asyncio.Queue[Death] = asyncio.Queue()
        fifo = folder / "fifo"
        os.mkfifo(fifo)
        self.path = fifo
        self.told = os.fdopen(os.open(fifo, os.O_RDWR))

    def process(self, script: str) -> RestartingProcess:
        tell = f"import os, signal; open({str(self.path)!r}, 'w').write(f'{{os.getpid()}}\\n'); "
        program = Program("player", ("-c", tell + script))
        return RestartingProcess(
            program, log_folder=self.folder, environment=dict(os.environ), on_death=self.deaths.put_nowait
        )

    async def next_pid(self) -> int:
        return int(await asyncio.to_thread(self.told.readline))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def _end(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_killed_program_is_started_again(stage: Stage):
    process = stage.process("signal.pause()")
    running = asyncio.create_task(process.run())
    first = await stage.next_pid()
    os.kill(first, signal.SIGKILL)
    assert (await stage.deaths.get()).exit_code == -signal.SIGKILL
    second = await stage.next_pid()
    assert second not in (0, first)
    await _end(running)
    assert not _alive(second)


async def test_a_program_is_ended_gently(stage: Stage):
    script = "signal.signal(15, lambda *_: (print('drained', flush=True), exit(0))); signal.pause()"
    running = asyncio.create_task(stage.process("import sys; " + script).run())
    # It tells before it listens for signals, so let it tell once more by its log.
    pid = await stage.next_pid()
    await _until_listening(pid)
    await _end(running)
    assert "drained" in (stage.folder / "player.log").read_text()


async def _until_listening(pid: int) -> None:
    """The kernel's own account of which signals a process catches."""
    async with asyncio.timeout(60):
        while not _caught(pid) & 1 << (signal.SIGTERM - 1):
            await asyncio.sleep(0.01)


def _caught(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), 16)


async def test_what_a_program_said_last_comes_with_its_death(stage: Stage):
    running = asyncio.create_task(stage.process("import sys; sys.exit('error: no engine')").run())
    await stage.next_pid()
    death = await stage.deaths.get()
    await _end(running)
    assert (death.exit_code, death.said) == (1, "error: no engine\n")


async def test_a_program_dies_with_a_killed_supervisor(stage: Stage):
    supervisor = (
        "import asyncio, os, sys; from pathlib import Path; "
        "from orchestrator.supervisor.process import RestartingProcess, Program; "
        f"p = Program('player', ('-c', \"import os, signal; open({str(stage.path)!r}, 'w').write(str(os.getpid())"
        ' + chr(10)); signal.pause()")); '
        f"asyncio.run(RestartingProcess(p, log_folder=Path({str(stage.folder)!r}), environment=dict(os.environ), "
        "on_death=print).run())"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", supervisor)
    child = await stage.next_pid()
    watch = os.pidfd_open(child)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(watch, ended.set)
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(60):
        await ended.wait()
    asyncio.get_running_loop().remove_reader(watch)
    os.close(watch)


@pytest.mark.parametrize(
    ("said", "exit_code", "told"),
    [
        ("…\nerror: no engine\n\nhint: start it\n", 6, ("no engine", "start it", ExitCode.INFRASTRUCTURE)),
        ("error: a wrong price\nhint: mend it\n", 2, ("a wrong price", "mend it", ExitCode.USAGE)),
        ("Traceback …", 1, ("player ended at its start with exit code 1", "log", ExitCode.INFRASTRUCTURE)),
    ],
)
def test_a_refusal_to_start_is_told_in_the_programs_own_words(said, exit_code, told):
    failure = _start_failure(Death(Program("player", ()), exit_code, said, Path("player.log")))
    assert failure.message == told[0]
    assert told[1] in failure.hint
    assert failure.exit_code is told[2]
