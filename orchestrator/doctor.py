"""What Muster needs on this machine, looked at one by one. Each check says what it found and how to mend it.

Nothing is started, but for programs that tell their version.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Any

from envelope.agents import WorkerCard
from envelope.errors import MusterError
from repo.errors import RepoError
from repo.version import OLDEST_GIT, git_version
from transport import approvals
from transport.embedded import LEAST_FREE_BYTES, find_server, socket_path
from transport.redis import RedisTransport
from transport.settings import connect, user_file

from .settings import Settings, load_settings
from .submit import DRIVERS

OLDEST_PYTHON = (3, 11)
# A program that tells its version, an engine that answers: both take milliseconds where they work at all.
COMMAND_TIMEOUT_S = 10.0
# From here on Docker's own profile refuses sockets of the kernel's crypto API, and 32-bit programs run.
SAFE_ENGINE = (29, 4, 3)
DEFAULT_IMAGE = "muster-sandbox:latest"


class Health(StrEnum):
    WORKS = "works"
    NOTE = "note"  # it is not there, and most things go without
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class Check:
    part: str
    health: Health
    found: str
    mend: str = ""

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def works(part: str, found: str) -> Check:
    return Check(part, Health.WORKS, found)


async def check_all() -> list[Check]:
    """Every part in the order in which a task needs them. `BadSettings` when the settings cannot even be read."""
    settings = load_settings()
    looks = [_sandboxes if check is _docker else check for check in CHECKS if check is not _image]
    checks: list[Check] = []
    for look in CHECKS if _sandbox_driver() == "docker" else looks:
        checks.append(_unless_said(await look(settings), checks))
    return checks


def _unless_said(check: Check, before: list[Check]) -> Check:
    """What a part says that needs an earlier one: that part's fault is told once."""
    for one in before:
        if check.health is one.health is Health.FAILS and check.found == one.found:
            return Check(check.part, Health.NOTE, f"not known: see {one.part}")
    return check


async def _python(_: Settings) -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Check("Python", Health.FAILS, found, f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or later")
    return works("Python", found)


async def _git(_: Settings) -> Check:
    needed = ".".join(map(str, OLDEST_GIT))
    try:
        version = await git_version()
    except RepoError as error:
        return Check("git", Health.FAILS, str(error), f"install git {needed} or later")
    found = ".".join(map(str, version))
    return works("git", found) if version >= OLDEST_GIT else Check("git", Health.FAILS, found, f"install git {needed}")


async def _state(settings: Settings) -> Check:
    folder = settings.state_dir
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check("state folder", Health.FAILS, f"{existing} is not writable", "set MUSTER_STATE_DIR")
    if shutil.disk_usage(existing).free < LEAST_FREE_BYTES:
        return Check("state folder", Health.FAILS, f"there is no room in {existing}", "free some; see `df`")
    return works("state folder", str(folder))


async def _answers(settings: Settings) -> Check:
    """Whether workers can tell a person's answer from one that somebody wrote into Redis."""
    name, path = "people's answers", settings.keyring_path
    if not path.exists():
        return Check(name, Health.NOTE, "will be signed: the first start makes the keys", "")
    try:
        keys = approvals.at(path, approves=True)
    except MusterError as error:
        return Check(name, Health.FAILS, error.message, error.hint)
    if keys.can_sign:
        return works(name, f"are signed; workers verify them with {approvals.PUBLIC}, beside their keyring")
    if keys.are_known:
        return Check(name, Health.NOTE, "are verified here, and given elsewhere: this host has no private key", "")
    hint = "run: muster keys add; then see docs/operations.md, Upgrading without loss"
    return Check(name, Health.NOTE, "are not signed: a worker's Redis password can give them", hint)


async def _redis(settings: Settings) -> Check:
    """An own server's program, or the given one: reached, and checked for version, eviction policy and memory."""
    try:
        if not settings.redis_url:
            return works("Redis", f"{find_server()}, on demand, for this machine")
        transport = await connect(settings)
        try:
            used, most = await transport.memory_used(), settings.limits.memory_share
            fault = await transport.lua_fault() if isinstance(transport, RedisTransport) else None
        finally:
            await transport.close()
    except MusterError as error:
        return Check("Redis", Health.FAILS, error.message, error.hint)
    found = "the one at MUSTER_REDIS_URL answers and evicts nothing"
    if fault:
        return Check("Redis", Health.NOTE, f"{found}, but {fault[0]}", fault[1])
    if used < most:
        return works("Redis", found)
    full = f"{found}, but its memory is {used * 100:.0f} % full; no new task is accepted beyond {most * 100:.0f} %"
    return Check("Redis", Health.NOTE, full, "raise its maxmemory; docs/runbooks/MusterRedisMemoryFull.md says more")


async def _docker(_: Settings) -> Check:
    code, said = await _say("docker", "version", "--format", "{{.Server.Version}} ({{.Server.Os}}/{{.Server.Arch}})")
    if code is None:
        return Check("Docker", Health.FAILS, "there is no docker program", "install Docker, for instance docker.io")
    if code:
        return Check("Docker", Health.FAILS, said, "start the Docker engine, and let this user use its socket")
    if () < engine_version(said) < SAFE_ENGINE:
        wanted = ".".join(map(str, SAFE_ENGINE))
        mend = f"update it to {wanted} for your other containers; sandboxes have Muster's own filter as well"
        return Check("Docker", Health.NOTE, f"engine {said} lets containers open AF_ALG sockets (CVE-2026-31431)", mend)
    return works("Docker", f"engine {said}")


def engine_version(said: str) -> tuple[int, ...]:
    """
    >>> engine_version("20.10.24+dfsg1 (linux/amd64)"), engine_version("29.4.3-rc.1"), engine_version("dev")
    ((20, 10, 24), (29, 4, 3), ())
    """
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


async def _image(settings: Settings) -> Check:
    image = settings.image or DEFAULT_IMAGE
    code, said = await _say("docker", "image", "inspect", "--format", "{{.Id}}", image)
    if code == 0:
        return works("sandbox image", f"{image} {said.removeprefix('sha256:')[:12]}")
    return Check("sandbox image", Health.FAILS, f"there is no image {image}", "build it: muster sandbox build")


def _sandbox_driver() -> str:
    """The workers' setting; whether it is one is for them to say."""
    file = user_file()
    told: dict[str, Any] = tomllib.loads(file.read_text()) if file.is_file() else {}
    table: dict[str, Any] = told.get("workers", {})
    return os.environ.get("MUSTER_SANDBOX_DRIVER") or str(table.get("sandbox_driver", "docker"))


async def _sandboxes(_: Settings) -> Check:
    """Where the workers have another driver than Docker, they know it, and are asked as a program."""
    code, lines = await _lines(sys.executable, "-P", "-m", "orchestrator.cli.main", "sandbox", "check")
    told = [line.removeprefix("error: ").removeprefix("hint: ") for line in lines or ["it says nothing"]]
    if code:
        return Check("sandboxes", Health.FAILS, told[-2:][0], told[-1] if len(told) > 1 else "")
    return works("sandboxes", told[-1].removeprefix("sandboxes "))


async def _model(settings: Settings) -> Check:
    """Its name only: keys belong to the workers, and whether one is right is known by the first call."""
    if settings.model:
        return works("model", settings.model)
    hint = "set MUSTER_MODEL and its key; batches with recipes need none"
    return Check("model", Health.NOTE, "none is configured", hint)


async def _hooks(_: Settings) -> Check:
    """By name only: they are the workers' to load."""
    found = sorted(f"{point.name} ({point.value})" for point in entry_points(group="muster.hooks"))
    return works("hooks", ", ".join(found)) if found else Check("hooks", Health.NOTE, "none is installed")


async def _workers(settings: Settings) -> Check:
    if not settings.redis_url and not socket_path(settings.state_dir).exists():
        return Check("fleet", Health.NOTE, "does not run; the next `muster run` starts it", "")
    try:
        transport = await connect(settings)
        try:
            cards = await transport.workers()
        finally:
            await transport.close()
    except MusterError as error:
        return Check("fleet", Health.FAILS, error.message, error.hint)
    missing = sorted({DRIVERS, *settings.pools} - {card.pool for card in cards})
    found = "; ".join(map(_served, sorted(cards, key=lambda card: card.pool))) or "nobody has announced itself"
    if missing:
        return Check("fleet", Health.FAILS, found, f"start somebody for: {', '.join(missing)}")
    if unsigned := sorted(card.worker for card in cards if not card.is_signed):
        mend = f"their agents do not count: give {', '.join(unsigned)} this fleet's keyring, or upgrade them"
        return Check("fleet", Health.FAILS, f"{found}; cards that nobody has signed", mend)
    return works("fleet", found)


def _served(card: WorkerCard) -> str:
    metrics = f", metrics on port {card.metrics_port}" if card.metrics_port else ""
    return f"{card.pool}: {card.slots} slots{metrics}"


async def _say(*words: str) -> tuple[int | None, str]:
    """A program's exit code and the last line that it wrote; None when there is no such program."""
    code, lines = await _lines(*words)
    return code, lines[-1] if lines else ""


async def _lines(*words: str) -> tuple[int | None, list[str]]:
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except FileNotFoundError:
        return None, []
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return 1, [f"`{' '.join(words[:2])}` does not answer"]
    return process.returncode, output.decode("utf-8", "replace").strip().splitlines()


CHECKS: tuple[Callable[[Settings], Awaitable[Check]], ...] = (
    _python, _git, _state, _redis, _answers, _docker, _image, _model, _hooks, _workers,
)  # fmt: skip
