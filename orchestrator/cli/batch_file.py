"""`muster batch init`, `check` and `preview`: a batch file before it is run. Nothing is submitted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from envelope.errors import require_room
from repo.errors import RepositoryMissing
from repo.local import locate
from transport.errors import NotFound

from ..batch.file import load_batch
from ..batch.measured import Outlook
from ..batch.plan import Planned, Sources, planned
from ..batch.preview import BatchPreview
from ..batch.starter import starter
from ..client import Muster
from ..errors import BadInput
from ..publication.terms import Form
from ..settings import Settings, load_settings
from ..units import dollars, duration
from .batch_branches import refusals
from .batch_here import require_here
from .batch_submit import done_before
from .console import data, note, warn
from .find import find_task
from .fleet import open_records
from .known import looked_up
from .options import AllowDirty, OneJson
from .places import latest_of
from .publish import first_of
from .summary import Line, print_lines

BatchFile = Annotated[Path, typer.Argument(metavar="FILE", help="The batch file: TOML or YAML.")]
MAX_SHARDS = 10  # of a repository, for people; --json has them all
NO_LIMIT = 1_000_000  # of shards, while they are counted; a person says whether so many are meant
SHORT_CHARS = 100  # of a step: the first line of a prompt says what it is about


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("batch.toml"),
    repo: Annotated[Path, typer.Option(metavar="PATH", help="The first repository.")] = Path(),
) -> None:
    """Write a batch file to start from: a codemod over each source file, proved by the tests. Overwrites nothing."""
    with suppress(RepositoryMissing):  # a folder that will be one
        repo = asyncio.run(locate(repo)).root
    text = starter(repo, seen_from=file.parent)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as e:
        raise BadInput(f"{file} is there already", hint="name another file") from e
    except OSError as e:
        require_room(e, file.parent)
        raise BadInput(f"{file} cannot be written: {e.strerror}") from e
    note(f"written: {file}; see what it would do with: muster batch preview {file}")


def check(file: BatchFile, allow_dirty: AllowDirty = False) -> None:
    """Check FILE, its repositories and its shards, as `run` would, and do nothing."""
    found = asyncio.run(_preview(file, allow_dirty=allow_dirty))
    count = _count(found.count, "shard") if found.known else "shards by a command"
    note(f"{file} can be run: {count} in {_count(len(found.repositories), 'repository')}")
    for warning in found.warnings:
        warn(warning)


def show_preview(file: BatchFile, as_json: OneJson = False) -> None:
    """Show what FILE would do: its shards, steps and gate, and the most that it may cost. Does nothing of it."""
    found = asyncio.run(_foreseen(file))
    if as_json:
        data(found.model_dump_json())
    else:
        print_lines(_lines(found))
        for warning in found.warnings:
            warn(warning)


async def plan_here(file: Path, settings: Settings, *, allow_dirty: bool) -> Planned:
    """As `run` would take it: read-only, what it would be refused for is neither read nor fetched."""
    spec = load_batch(file, only_looks=settings.read_only)
    if settings.read_only:
        await require_here(spec, file, settings)
    return await planned(spec, file, settings, Sources(allow_dirty=allow_dirty, tell=note))


async def _preview(file: Path, *, allow_dirty: bool) -> BatchPreview:
    settings = load_settings()
    found = await plan_here(file, settings, allow_dirty=allow_dirty)
    if found.spec.shards.failures_of is not None:
        async with open_records(settings) as muster:
            found = await with_undone(muster, found)
    seen = await unlimited(found).preview(settings)
    if (refused := await refusals(found, settings)) and not await _is_done(found, settings):
        raise first_of(refused)
    return seen.model_copy(update={"warnings": _too_many(found, seen)})


async def _is_done(plan: Planned, settings: Settings) -> bool:
    """Then its branch may well be as it was."""
    if latest_of(settings, plan.file) is None:
        return False
    return await looked_up(settings, lambda muster: done_before(muster, plan, settings)) is not None


async def _foreseen(file: Path) -> BatchPreview:
    """With what the fleet remembers of earlier runs."""
    settings = load_settings()
    plan = await plan_here(file, settings, allow_dirty=True)
    async with open_records(settings) as muster:
        plan = await with_undone(muster, plan)
        seen = await muster.batches.preview(unlimited(plan), earlier=await known_run(muster, file) or "")
    refused = [f"it cannot be published: {name}: {why}" for name, why in (await refusals(plan, settings)).items()]
    return seen.model_copy(update={"warnings": (*refused, *_too_many(plan, seen), *seen.warnings)})


def unlimited(plan: Planned) -> Planned:
    """With as many shards as there are, unless its file says how many there may be."""
    return plan if "max_shards" in plan.spec.limits.model_fields_set else limited(plan, NO_LIMIT)


def limited(plan: Planned, max_shards: int) -> Planned:
    limits = plan.spec.limits.model_copy(update={"max_shards": max_shards})
    return replace(plan, spec=plan.spec.model_copy(update={"limits": limits}))


def _too_many(plan: Planned, seen: BatchPreview) -> tuple[str, ...]:
    most = plan.spec.limits.max_shards
    told = f"more than {most} shards: `muster batch run` asks first, or wants --yes or limits.max_shards"
    return (told,) if seen.known and seen.count > most else ()


async def known_run(muster: Muster, file: Path) -> str | None:
    """The task that the file was last run as from here, if its records are still kept."""
    task_id = latest_of(muster.settings, file)
    with suppress(NotFound):
        return task_id and (await muster.record(task_id)).task_id
    return None


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
    if found.reused:
        told = f"{_count(found.reused, 'shard')} of the last run as before, {found.runs} to do (muster batch diff)"
        lines.append(("", told))
    lines += [("step", _short(step)) for step in found.steps]
    lines += [("gate", command) for command in found.gate] or [("gate", "none: the change will be done, not verified")]
    if found.max_gate_runs:
        lines.append(("", f"up to {found.max_gate_runs} more runs to find who makes it fail (merge.max_gate_runs)"))
    lines += _published(found)
    most = f"at most {dollars(found.max_cost_microusd)}, {dollars(found.share_microusd)} a shard and what others leave"
    lines.append(("cost", most if found.max_cost_microusd else "nothing: no model is asked"))
    took = found.outlook
    if found.max_cost_microusd and took.low_microusd is not None and took.high_microusd is not None:
        lines.append(("", f"about {dollars(took.low_microusd)} to {dollars(took.high_microusd)}, by {took.by}"))
    elif found.max_cost_microusd:
        lines.append(("", f"about: unknown, {took.by}"))
    lines.append(("time", _time(took)))
    return lines


def _time(took: Outlook) -> str:
    if took.low_s is None or took.high_s is None:
        return f"unknown: {took.by}"
    low, high = (duration(round(seconds * 1000)) for seconds in (took.low_s, took.high_s))
    return f"about {low}{f' to {high}' if high != low else ''}, by {took.by}"


def _published(found: BatchPreview) -> list[Line]:
    terms = found.publish
    if terms is None:
        return [("branch", "none: the change stays in the result")]
    lines: list[Line] = [("branch", terms.branch)]
    if terms.to is Form.BRANCH:
        return lines
    what = {Form.REQUEST: "a draft request" if terms.draft else "a request, ready for review"}.get(terms.to, terms.to)
    into = f" into {terms.into}" if terms.into else ""
    proof = "also what is not verified" if terms.unverified else "only what is verified"
    lines.append(("publish", f"{what}{into} for each repository that changed; {proof}"))
    if terms.to in (Form.PATCHES, Form.BUNDLE):
        lines.append(("", f"below {terms.folder}"))
    lines += [("", f"{one.name} to {one.goes_to}") for one in found.repositories if one.goes_to]
    caps = {"in a repository": terms.max_open, "in all of its owner's": terms.max_open_per_owner}
    lines += [("", f"while fewer than {most} of ours are open {where}") for where, most in caps.items() if most]
    return [*lines, *(("", f"in the window {window}") for window in terms.windows)]


def _short(step: str) -> str:
    first = step.strip().splitlines()[0] if step.strip() else ""
    return first if first == step.strip() and len(first) <= SHORT_CHARS else f"{first[:SHORT_CHARS]} …"


def _count(count: int, thing: str) -> str:
    plural = {"repository": "repositories"}.get(thing, f"{thing}s")
    return f"{count} {thing if count == 1 else plural}"
