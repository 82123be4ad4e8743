"""`muster init`: a `muster.toml` for a repository, guessed from its files; and its gate, tried out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from envelope.errors import ExitCode
from repo.local import describe, locate

from ..errors import BadInput
from ..project.file import ProjectFile, parsed
from ..project.files import ProjectFiles
from ..project.guess import guess
from ..project.text import NAME, text_of
from ..settings import load_settings
from .console import data, note
from .gate_check import check_gate
from .options import Repo


def init(
    repo: Repo = Path(),
    only_print: Annotated[bool, typer.Option("--print", help="Print it, and write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over the one that is there.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Run its setup and its gate in a sandbox, on the last commit.")
    ] = False,
) -> None:
    """Write a muster.toml for a repository: setup, gate and agents, guessed from its files.

    One that is there is not written over without --force; with --check it is tried out as it stands.
    """
    root = asyncio.run(locate(repo)).root
    path = root / NAME
    is_there = path.exists() or path.is_symlink()
    if only_print or not is_there or force:
        _write(root, path, only_print=only_print, force=force)
    elif not check:
        raise BadInput(f"{path} exists already", hint="see a new one with --print, or write over it with --force")
    if check:
        content = _guessed(root).encode() if only_print else path.read_bytes()
        raise typer.Exit(asyncio.run(_check(repo, parsed(content, str(path)))))


def _guessed(root: Path) -> str:
    files = ProjectFiles.of(root)
    return text_of(guess(files), files)


def _write(root: Path, path: Path, *, only_print: bool, force: bool) -> None:
    text = _guessed(root)
    if only_print:
        data(text.rstrip("\n"))
        return
    if path.is_symlink():
        raise BadInput(f"{path} is a link", hint="write to where it leads yourself, or remove it")
    with path.open("w" if force else "x", encoding="utf-8") as file:
        file.write(text)
    found = parsed(text.encode(), str(path))
    note(f"{path} is written; look at it, and try it out with: muster init --check")
    for name, commands in (("setup", found.setup), ("gate", found.gate)):
        note(f"  {name:<6} {' && '.join(commands) or 'not known: fill it in'}")
    note(f"it counts once it is committed and trusted: git add {NAME} && git commit -m {NAME} && muster trust")
    data(str(path))


async def _check(repo: Path, file: ProjectFile) -> ExitCode:
    if not file.gate:
        raise BadInput(f"{NAME} has no gate to run", hint='name the command of the tests: gate = ["…"]')
    local = await describe(repo)
    return await check_gate(load_settings(), local, setup=file.setup, gate=file.gate)
