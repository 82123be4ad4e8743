"""`muster batch init`, `check` and `preview`: a batch file before it is run. Nothing is submitted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ..batch.file import load_batch
from ..batch.plan import Planned, Sources, planned
from ..batch.preview import BatchPreview
from ..batch.starter import starter
from ..client import Muster
from ..errors import BadInput
from ..settings import load_settings
from .console import data, note
from .find import find_task
from .fleet import open_records
from .options import AllowDirty, Json
from .summary import Line, print_lines
from .units import dollars

BatchFile = Annotated[Path, typer.Argument(metavar="FILE", help="The batch file: TOML or YAML.")]
MAX_SHARDS = 10  # of a repository, for people; --json has them all
SHORT_CHARS = 100  # of a step: the first line of a prompt says what it is about


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("batch.toml"),
    repo: Annotated[Path, typer.Option(metavar="PATH", help="The first repository.")] = Path(),
) -> None:
    """Write a batch file to start from: a codemod over each Python file, proved by the tests. Overwrites nothing."""
    text = starter(repo, seen_from=file.parent)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as e:
        raise BadInput(f"{file} is there already", hint="name another file") from e
    except OSError as e:
        raise BadInput(f"{file} cannot be written: {e.strerror}") from e
    note(f"written: {file}; see what it would do with: muster batch preview {file}")


def check(file: BatchFile, allow_dirty: AllowDirty = False) -> None:
    """Check FILE, its repositories and its shards, as `run` would, and do nothing."""
    found = asyncio.run(_preview(file, allow_dirty=allow_dirty))
    count = _count(found.count, "shard") if found.known else "shards by a command"
    note(f"{file} can be run: {count} in {_count(len(found.repositories), 'repository')}")


def show_preview(file: BatchFile, as_json: Json = False) -> None:
    """Show what FILE would do: its shards, steps and gate, and the most that it may cost. Does nothing of it."""
    found = asyncio.run(_preview(file, allow_dirty=True))
    if as_json:
        data(found.model_dump_json())
    else:
        print_lines(_lines(found))


async def _preview(file: Path, *, allow_dirty: bool) -> BatchPreview:
    settings = load_settings()
    found = await planned(load_batch(file), file, settings, Sources(allow_dirty=allow_dirty, tell=note))
    if found.spec.shards.failures_of is not None:
        async with open_records(settings) as muster:
            found = await with_undone(muster, found)
    return await found.preview(settings)


async def with_undone(muster: Muster, plan: Planned) -> Planned:
    """With the shards that an earlier batch left undone, where the file names one by what a person types of its id."""
    if plan.spec.shards.failures_of is None:
        return plan
    earlier = await find_task(muster, plan.spec.shards.failures_of)
    return plan.having(await muster.batches.undone(earlier.task_id))


def _lines(found: BatchPreview) -> list[Line]:
    lines: list[Line] = [("batch", found.name)]
    for repository in found.repositories:
        count = _count(len(repository.shards), "shard") if found.known else "as many shards as its command prints"
        lines.append(("shards", f"{count} of {repository.name} at {repository.base[:12]}"))
        lines += [("", key) for key in repository.shards[:MAX_SHARDS]]
        if (more := len(repository.shards) - MAX_SHARDS) > 0:
            lines.append(("", f"… {more} more"))
    lines += [("step", _short(step)) for step in found.steps]
    lines += [("gate", command) for command in found.gate] or [("gate", "none: the change will be done, not verified")]
    lines.append(("branch", found.branch or "none: the change stays in the result"))
    most = f"at most {dollars(found.max_cost_microusd)}, {dollars(found.share_microusd)} a shard and what others leave"
    lines.append(("cost", most if found.max_cost_microusd else "nothing: no model is asked"))
    return lines


def _short(step: str) -> str:
    first = step.strip().splitlines()[0] if step.strip() else ""
    return first if first == step.strip() and len(first) <= SHORT_CHARS else f"{first[:SHORT_CHARS]} …"


def _count(count: int, thing: str) -> str:
    plural = {"repository": "repositories"}.get(thing, f"{thing}s")
    return f"{count} {thing if count == 1 else plural}"
