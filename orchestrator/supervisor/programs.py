"""The orchestrator and the worker pools of one fleet, as programs that are kept running."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from envelope.agents import WorkerCard
from envelope.errors import ExitCode
from transport.base import Transport
from transport.state_folder import private_folder

from ..settings import Settings
from ..submit import DRIVERS
from .environment import environment_of
from .errors import StartFailed
from .process import Death, Program, RestartingProcess

# Only while the fleet starts: a worker announces itself in Redis, which tells nobody, and people are waiting.
LOOK_S = 0.05


def programs_of(pools: Mapping[str, int]) -> list[Program]:
    workers = [
        Program(pool, ("-m", "workers.cli.worker", pool, "--slots", str(slots)))
        for pool, slots in sorted(pools.items())
    ]
    return [Program(DRIVERS, ("-m", "orchestrator.service")), *workers]


class Programs:
    """Running as long as the context is open; each is started again when it dies."""

    def __init__(self, settings: Settings) -> None:
        log_folder = private_folder(settings.state_dir / "logs")
        environment = environment_of(settings, os.environ)
        self._starting = True
        self._refusal: asyncio.Future[Death] = asyncio.get_running_loop().create_future()
        self._processes = [
            RestartingProcess(program, log_folder=log_folder, environment=environment, on_death=self._died)
            for program in programs_of(settings.pools)
        ]
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._running = [asyncio.create_task(process.run()) for process in self._processes]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def announced(self, transport: Transport) -> None:
        """Wait until every program has announced itself; `StartFailed` when one refuses to start."""
        look = asyncio.create_task(self._look(transport))
        try:
            await asyncio.wait((look, self._refusal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            look.cancel()
        if self._refusal.done():
            raise _start_failure(self._refusal.result())
        self._starting = False
        look.result()

    async def _look(self, transport: Transport) -> None:
        while not self._all_in(await transport.workers()):  # noqa: ASYNC110 - a card in Redis has no event
            await asyncio.sleep(LOOK_S)

    def _all_in(self, cards: Iterable[WorkerCard]) -> bool:
        # By process id: cards of an earlier fleet may still be around.
        return {process.pid for process in self._processes} <= {card.pid for card in cards if card.pid}

    def _died(self, death: Death) -> None:
        # A death by signal is the kernel's or somebody's test: the next run may do better. An exit code is a refusal.
        if self._starting and death.exit_code > 0 and not self._refusal.done():
            self._refusal.set_result(death)


def _start_failure(death: Death) -> StartFailed:
    return refusal(death.program.name, death.exit_code, death.said, hint=f"look into {death.log_path}")


def refusal(program: str, exit_code: int, output: str, *, hint: str) -> StartFailed:
    """What the program said last, if it spoke as our programs do: `error: …`, then `hint: …`."""
    said = dict(re.findall(r"^(error|hint): (.+)$", output, re.MULTILINE))
    foreseen = "error" in said and exit_code in set(ExitCode)
    return StartFailed(
        said.get("error", f"{program} ended at its start with exit code {exit_code}"),
        hint=said.get("hint", hint),
        exit_code=ExitCode(exit_code) if foreseen else ExitCode.INFRASTRUCTURE,
    )
