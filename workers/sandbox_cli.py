"""`muster sandbox`: the image that sandboxes start from, and what sandboxes have left. Found by its entry point."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from envelope.errors import ExitCode
from sandbox.base import Known, SandboxDriver
from sandbox.errors import SandboxError
from sandbox.image import DEFAULT_IMAGE

from .owners import dead_owners
from .usable_settings import usable_settings

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True)


@app.command()
def build(tag: Annotated[str, typer.Option(metavar="NAME:TAG", help="What to call it.")] = DEFAULT_IMAGE) -> None:
    """Build the image, unless it is there and up to date.

    Pulls Debian where an image registry can be reached; else makes the same base from Debian's packages (mmdebstrap).
    """
    from sandbox.image.build import build_image

    image_id = _run(build_image(tag, on_progress=_note))
    typer.echo(f"{tag} {image_id}")


@app.command("list")
def list_sandboxes() -> None:
    """List the sandboxes that stand.

    One a line: id, owner, seconds until anybody may remove it, and its task. One that stands ready for a task shows
    `warm` instead, and one that is nobody's `-`. Then, as a note, what is kept for the next task.
    """
    from .collecting import kept

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
    from .collecting import collect

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


@asynccontextmanager
async def _chosen(say: Callable[[str], Any] = lambda line: None) -> AsyncGenerator[tuple[SandboxDriver, Path]]:
    """The driver that a worker of this machine would use, and its state folder."""
    from sandbox.choice import choose_driver

    settings = usable_settings()
    driver = await choose_driver(
        settings.sandbox_driver,
        settings.state_dir,
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
