"""`muster sandbox`: the image that sandboxes start from, and what sandboxes have left. Found by its entry point."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from envelope.errors import ExitCode
from sandbox.base import Finding, Known, SandboxDriver
from sandbox.errors import SandboxError
from transport.state_folder import private_folder

from ..errors import BadSettings
from ..sandboxes.owners import dead_owners
from .usable_settings import usable_settings

T = TypeVar("T")
PART_CHARS = 12
BEFORE = "(not by the one before: "  # so `choose_driver` tells why it is not the first


class Variant(StrEnum):
    DEFAULT = "default"
    CC = "cc"


class DriverOption(StrEnum):
    DOCKER = "docker"
    BUBBLEWRAP = "bubblewrap"


app = typer.Typer(no_args_is_help=True)


@app.command()
def build(
    tag: Annotated[str, typer.Option(metavar="NAME:TAG", help="What to call it [default: by variant].")] = "",
    variant: Annotated[Variant, typer.Option(help="`cc` has compilers for C and C++, too.")] = Variant.DEFAULT,
    file: Annotated[
        Path | None, typer.Option(metavar="DOCKERFILE", help="Build a user's own instead; needs --tag.")
    ] = None,
    driver: Annotated[DriverOption | None, typer.Option(help="For whom [default: MUSTER_SANDBOX_DRIVER's].")] = None,
) -> None:
    """Build the image, unless it is there and up to date, and try it.

    Pulls Debian where an image registry can be reached; else makes the same base from Debian's packages (mmdebstrap).
    For bubblewrap, it is a folder of the state folder, and always made from packages.
    """
    from ..sandboxes.building import Order, build_and_try

    if file is not None and (not tag or variant is not Variant.DEFAULT or driver is DriverOption.BUBBLEWRAP):
        raise BadSettings(
            "--file goes with --tag, and with docker alone", hint="muster sandbox build --file F --tag N:T"
        )
    order = Order(tag, variant is Variant.CC, file, driver.value if driver else None)
    typer.echo(_run(build_and_try(order, usable_settings(), _note)))


@app.command("list")
def list_sandboxes() -> None:
    """List the sandboxes that stand.

    One a line: id, owner, seconds until anybody may remove it, and its task. One that stands ready for a task shows
    `warm` instead, and one that is nobody's `-`. Then, as a note, what is kept for the next task.
    """
    from ..sandboxes.collecting import kept

    async def found() -> list[str]:
        async with _chosen() as (driver, _):
            for store in await kept(driver, usable_settings()):
                _note(str(store))
            return [_line(each, int(time.time())) for each in await driver.known()]

    lines = _run(found())
    for line in lines:
        typer.echo(line)
    if not lines:
        _note("none stands")


def _line(known: Known, now_s: int) -> str:
    whose = known.labels.get("task") or known.labels.get("pool") or "-"
    return f"{known.sandbox_id} {known.owner} {known.expires_at_s - now_s} {whose}"


@app.command()
def prune() -> None:
    """Remove what dead sandboxes left.

    Those whose time is over or whose worker is gone, each id on a line; those at work stay. Then the setup images, the
    mirrors, checkouts and bundles that are older or more than the settings allow.
    """
    from ..sandboxes.collecting import collect

    async def pruned() -> list[str]:
        async with _chosen() as (driver, state_dir):
            gone = await driver.reap(now_s=time.time())
            for owner in dead_owners(state_dir / "owners"):
                gone += await driver.reap(owner=owner, now_s=time.time())
            return gone + [each.name for each in await collect(driver, usable_settings())]

    gone = _run(pruned())
    for sandbox_id in gone:
        typer.echo(sandbox_id)
    if not gone:
        _note("nothing was left")


@app.command()
def check() -> None:
    """Say what isolates sandboxes here.

    As MUSTER_SANDBOX_DRIVER tells: docker, bubblewrap, or auto, which takes the first of them that works.
    """

    async def chosen() -> None:
        async with _chosen(say=typer.echo) as (driver, _):
            await driver.require_image(usable_settings().image)

    _run(chosen())


@app.command()
def doctor() -> None:
    """Say how sandboxes are isolated here, by which means, and what would be better.

    The driver and why it was chosen, what its engine does, how workspaces are made and limited, which image is used.
    """

    from ..sandboxes.building import image_finding

    async def findings() -> list[Finding]:
        chosen: list[str] = []
        async with _chosen(say=chosen.append) as (driver, _):
            why = Finding("driver", f"{driver.name}, by MUSTER_SANDBOX_DRIVER={usable_settings().sandbox_driver}")
            refused = [line.partition(BEFORE)[2].rstrip(")") for line in chosen if BEFORE in line]
            fallback = [Finding("", f"not the one before it: {why_not}") for why_not in refused]
            found = [why, *fallback, *await driver.report(), await image_finding(driver, usable_settings())]
            return [*found, Finding("sandboxes", f"{len(await driver.known())} stand here")]

    for each in _run(findings()):
        typer.echo(f"{each.part:<{PART_CHARS}} {each.found}")
        if each.hint:
            typer.echo(f"{'':<{PART_CHARS}} hint: {each.hint}")


@app.command()
def shell(task: Annotated[str, typer.Argument(metavar="TASK", help="A task's id, its start, or a sandbox's.")]) -> None:
    """Open a shell in the sandbox of a task that runs on this machine, as the sandbox's own user.

    It shares the task's limits and files. Its end leaves the task alone; a command of the task that takes too long
    ends it. Without a terminal, commands are read from standard input.
    """

    from ..sandboxes.building import sandbox_of

    async def found() -> list[str]:
        async with _chosen() as (driver, _):
            return await driver.shell(sandbox_of(task, await driver.known()), tty=sys.stdin.isatty())

    raise typer.Exit(subprocess.call(_run(found())))


@asynccontextmanager
async def _chosen(say: Callable[[str], Any] = lambda line: None) -> AsyncGenerator[tuple[SandboxDriver, Path]]:
    """The driver that a worker of this machine would use, and its state folder."""
    from sandbox.choice import choose_driver

    settings = usable_settings()
    driver = await choose_driver(
        settings.sandbox_driver,
        private_folder(settings.state_dir),
        f"muster-sandbox-{os.getpid()}",
        runtime=settings.sandbox_runtime,
        say=say,
    )
    try:
        yield driver, settings.state_dir
    finally:
        await driver.close()


def _note(line: str) -> None:
    sys.stderr.write(f"sandbox: {line}\n")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """A sandbox's errors as the command line tells them; it does not know their classes."""
    try:
        return asyncio.run(work)
    except SandboxError as error:
        hint = f"hint: {error.hint}\n" if error.hint else ""
        sys.stderr.write(f"error: {str(error).rstrip('.')}\n{hint}")
        raise typer.Exit(ExitCode.INFRASTRUCTURE) from error
