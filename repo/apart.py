"""Our Python on hostile input, in processes of its own: the input may cost such a process its life, nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

# On a machine that is busy with other things; a process bounds its own processor time and memory.
MAX_WAIT_S = 60.0


async def run_apart(module: str, *words: str, told: bytes) -> bytes | None:
    """What the module, run with these words, makes of `told`; None when it failed, or took too long."""
    process = await _start(module, *words)
    try:
        async with asyncio.timeout(MAX_WAIT_S):
            answer, _ = await process.communicate(told)
    except TimeoutError:
        return None
    finally:
        await _end(process, is_busy=True)
    return answer if process.returncode == 0 else None


class Apart:
    """One process for each module that is asked, for all questions of one piece of work: to start it costs more than
    an answer. It is for one piece of work alone: what a question did to it is nobody else's. The modules answer by
    `bounds.answer_questions`."""

    def __init__(self) -> None:
        self._idle: dict[str, asyncio.subprocess.Process] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        while self._idle:
            await _end(self._idle.popitem()[1], is_busy=False)

    async def ask(self, module: str, *words: str, texts: Sequence[bytes]) -> bytes | None:
        """What the module makes of `texts`; None when it has no answer, failed or took too long. The answer does not
        depend on earlier questions: a process that dies of one after others is replaced, and the new one is asked."""
        earlier = self._idle.pop(module, None)
        try:
            return await self._answer(module, earlier or await _start(module), words, texts)
        except EOFError:
            return None if earlier is None else await self.ask(module, *words, texts=texts)

    async def _answer(
        self, module: str, process: asyncio.subprocess.Process, words: Sequence[str], texts: Sequence[bytes]
    ) -> bytes | None:
        """`EOFError`: the process has died. One whose answer was not read to its end is of no use any more."""
        assert process.stdin and process.stdout
        is_through = is_dead = False
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                about = {"words": words, "lengths": [len(text) for text in texts]}
                process.stdin.write(b"".join([json.dumps(about).encode(), b"\n", *texts]))
                await process.stdin.drain()
                length = int(await process.stdout.readuntil())
                answer = await process.stdout.readexactly(length) if length >= 0 else None
            is_through = True
            return answer
        except (EOFError, ConnectionError) as e:
            is_dead = True
            raise EOFError from e
        except TimeoutError:
            return None
        finally:
            if is_through and module not in self._idle:
                self._idle[module] = process
            else:
                await _end(process, is_busy=not is_dead)


async def _start(module: str, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"},
    )


async def _end(process: asyncio.subprocess.Process, *, is_busy: bool) -> None:
    """An idle one, or one that is dying, is not killed: that could take its end away from who waits for it."""
    if is_busy and process.returncode is None:
        process.kill()
    elif process.stdin is not None:
        process.stdin.close()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_WAIT_S):
                await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
