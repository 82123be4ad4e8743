"""The program of an agent, as it runs in the task's sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from sandbox.base import Sandbox, Service
from sandbox.errors import SandboxError

from ..project.framing import shortened

# What it complains of, for whoever wonders why it ended. The folder's size is the sandbox's limit.
COMPLAINTS = "/tmp/muster-engine.log"  # noqa: S108 - inside the sandbox
START = f'exec "$@" 2>{COMPLAINTS}'
SHOWN_CHARS = 400
READ_BYTES = 64 * 1024
# For programs that are told nothing else; `${key}` is none, and no program starts without one.
RELAY_ENV = {
    "OPENAI_BASE_URL": "${relay}/v1",
    "OPENAI_API_KEY": "${key}",
    "ANTHROPIC_BASE_URL": "${relay}",
    "ANTHROPIC_API_KEY": "${key}",
}
NO_KEY = "the-relay-adds-it"


def environment(env: Mapping[str, str], *, relay: str, model: str) -> dict[str, str]:
    """
    >>> environment({"MY": "${model} at ${relay}/v1"}, relay="http://h", model="openai/x")["MY"]
    'openai/x at http://h/v1'
    """
    known = {"${relay}": relay, "${model}": model, "${key}": NO_KEY}
    return {name: _filled(value, known) for name, value in (RELAY_ENV | dict(env)).items()}


@asynccontextmanager
async def running(
    sandbox: Sandbox, command: Sequence[str], cwd: str, env: Mapping[str, str]
) -> AsyncGenerator[Service, None]:
    """Killed at the end, with all that it has started."""
    service = await sandbox.start(["sh", "-c", START, "sh", *command], cwd=cwd, env=env)
    try:
        yield service
    finally:
        with suppress(SandboxError):  # it is gone then
            await service.stop()


async def last_words(sandbox: Sandbox) -> str:
    """The end of what it has complained of, on one line; empty when it has not."""
    try:
        size = (await sandbox.stat(COMPLAINTS)).size_bytes
        said = await sandbox.read(COMPLAINTS, offset_bytes=max(0, size - READ_BYTES), max_bytes=READ_BYTES)
    except SandboxError:
        return ""
    return shortened(said.decode("utf-8", "replace")[-SHOWN_CHARS:], SHOWN_CHARS)


def _filled(value: str, known: Mapping[str, str]) -> str:
    for place, text in known.items():
        value = value.replace(place, text)
    return value
