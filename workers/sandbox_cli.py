"""`muster sandbox`: the image that sandboxes start from, and what sandboxes have left. Found by its entry point."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer

from envelope.errors import ExitCode
from sandbox.errors import SandboxError
from sandbox.image import DEFAULT_IMAGE

from .owners import dead_owners
from .settings import WorkerSettings

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
    """List the sandboxes of this engine, one a line: id, owner, seconds until anybody may remove it."""
    from sandbox.container import EXPIRY_LABEL, OWNER_LABEL
    from sandbox.docker import Engine

    async def found() -> list[str]:
        engine = Engine()
        try:
            things = await engine.containers(OWNER_LABEL)
        finally:
            await engine.close()
        now_s = int(time.time())
        return [
            f"{thing.sandbox_id} {thing.labels[OWNER_LABEL]} {int(thing.labels.get(EXPIRY_LABEL, now_s)) - now_s}"
            for thing in things
        ]

    for line in _run(found()):
        typer.echo(line)


@app.command()
def prune() -> None:
    """Remove what is left of sandboxes whose time is over or whose worker is gone; those at work stay."""
    from sandbox.driver import DockerDriver

    async def pruned() -> list[str]:
        state_dir = WorkerSettings().state_dir
        async with DockerDriver(state_dir, owner="prune") as driver:
            gone = await driver.reap(now_s=time.time())
            for owner in dead_owners(state_dir / "owners"):
                gone += await driver.reap(owner=owner, now_s=time.time())
            return gone

    for sandbox_id in _run(pruned()):
        typer.echo(sandbox_id)


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
