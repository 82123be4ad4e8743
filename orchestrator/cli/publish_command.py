"""`muster publish`: what was made leaves the fleet, and what became of it there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import BadInput
from ..looking import PUBLISHES
from ..publication.book import UNFINISHED, Publication, Stage
from ..publication.client import Publications, Published, require_words, terms_of
from ..publication.errors import ForgeDown, ForgeLimits
from ..publication.terms import Form
from ..publication.told import Told, told_of
from ..settings import Settings, load_settings
from ..words import counted
from .console import data, note, warn
from .find import find_task
from .fleet import open_records, quiet_logs
from .options import JsonLines, TaskId, task_words, writing_settings
from .places import recall, repositories_of
from .publish_told import require_published
from .summary import print_lines

if TYPE_CHECKING:
    from ..publication.changes import Change


class _TaskFirst(TyperGroup):
    """`muster publish TASK` is `muster publish task TASK`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else "--help"
        return super().parse_args(ctx, args if first in (*self.commands, "-h", "--help") else ["task", *args])


FIRST = "muster publish TASK --to request: what most want. All that it takes: muster publish task --help"

app = typer.Typer(cls=_TaskFirst, epilog=FIRST)

Tasks = Annotated[
    list[str] | None, typer.Argument(metavar="[TASK]…", help="Of these tasks, by their ids or the ends of them.")
]
Every = Annotated[bool, typer.Option("--all", help="Of all tasks.")]


@app.callback()
def publish() -> None:
    """Publish what a goal or a batch has made: `muster publish TASK --to request`. See what became of it."""


@app.command("task")
def publish_task(
    task: TaskId,
    to: Annotated[Form | None, typer.Option("--to", help="Default: as its batch file says, else a branch.")] = None,
    branch: Annotated[str, typer.Option(metavar="NAME", help="The branch that holds the change.")] = "",
    repo: Annotated[
        list[str] | None,
        typer.Option("--repo", metavar="[NAME=]PATH", help="The local repository; of a batch one for each, by name."),
    ] = None,
    remote: Annotated[str, typer.Option(metavar="REMOTE", help="A remote's name, or an address.")] = "",
    forge: Annotated[str, typer.Option(metavar="NAME", help="Of the settings' table [forges.NAME].")] = "",
    into: Annotated[str, typer.Option(metavar="BRANCH", help="What a request is to be merged into.")] = "",
    title: Annotated[str, typer.Option(metavar="TEXT", help="Of a request.")] = "",
    ready: Annotated[bool, typer.Option("--ready", help="A request that is no draft.")] = False,
    folder: Annotated[str, typer.Option(metavar="PATH", help="Where patches and bundles are written.")] = "",
    unverified: Annotated[bool, typer.Option("--unverified", help="Also what no gate has proved.")] = False,
    default_branch: Annotated[
        bool, typer.Option("--default-branch", help="Also to the branch that everybody begins with.")
    ] = False,
    as_json: JsonLines = False,
) -> None:
    """Publish a task's change; again, and it is brought up to date. Nothing of anybody else's is overwritten."""
    said = {"to": to, "remote": remote, "forge": forge, "into": into, "title": title, "folder": folder}
    given: dict[str, Any] = {name: value for name, value in said.items() if value}
    given |= {"draft": False} if ready else {}
    given |= {"unverified": True} if unverified else {}
    given |= {"default_branch": True} if default_branch else {}
    asyncio.run(_publish(task, given, branch, repo or [], as_json))


@app.command("status")
def status(
    tasks: Tasks = None,
    offline: Annotated[bool, typer.Option("--offline", help="As they were seen last: no forge is asked.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Show what was published, and what became of it: held, draft, open, merged, closed."""
    asyncio.run(_status(tasks or [], offline, as_json))


@app.command("sync")
def sync(tasks: Tasks = None, as_json: JsonLines = False) -> None:
    """Go on with what is held or was interrupted, as far as windows and caps let it. For a timer or a CI job."""
    asyncio.run(_sync(tasks or [], as_json))


@app.command("comment")
def comment_on(
    text: Annotated[str, typer.Argument(help="What to say. The same text is said once on each request.")],
    tasks: Tasks = None,
    every: Every = False,
) -> None:
    """Say something on the open requests."""
    asyncio.run(_comment(text, _some(tasks, every)))


@app.command("close")
def close_requests(tasks: Tasks = None, every: Every = False, as_json: JsonLines = False) -> None:
    """Close the open requests, whose branches stay; give up what is held or refused before there was one."""
    asyncio.run(_close(_some(tasks, every), as_json))


def _some(tasks: list[str] | None, every: bool) -> list[str]:
    if every == bool(tasks):
        raise BadInput("name the tasks, or say --all", hint="see them with: muster publish status")
    return tasks or []


async def _publish(words: str, given: Mapping[str, Any], branch: str, repos: list[str], as_json: bool) -> None:
    from ..publication.changes import changes_of  # they need what takes a while to load, and no other command of these
    from .publish_forms import Job, publish_change

    settings = writing_settings(PUBLISHES)
    async with open_records(settings) as muster:
        task_id = (await find_task(muster, words)).task_id
        changes = await changes_of(muster, task_id)
        folders = _folders(repos, changes) if repos else _known_folders(settings, task_id, changes)
        publisher = muster.publications.publisher
        told: list[Told] = []
        for change in changes:
            terms = terms_of(change, given)
            place = folders.get(change.repository)
            job = Job(muster, publisher, change, terms, branch or change.branch, place)
            told.append(await publish_change(job))
        _print(told, as_json)
    require_published(told)


def _folders(repos: list[str], changes: list[Change]) -> dict[str, Path]:
    """By the names of the changes' repositories. Without a name it is the only one's."""
    names = [change.repository for change in changes]
    found: dict[str, Path] = {}
    for each in repos:
        name, has_name, path = each.rpartition("=")
        if not has_name and len(names) > 1:
            raise BadInput(f"which repository is {path}?", hint=f"write --repo NAME={path}, of: {', '.join(names)}")
        found[name if has_name else names[0]] = Path(path)
    return found


def _known_folders(settings: Settings, task_id: str, changes: list[Change]) -> dict[str, Path]:
    """A goal's is here, and a batch's where its file says, if it was started from this machine and still says so."""
    if changes[0].is_goal:
        return {changes[0].repository: Path()}
    from ..batch.file import load_batch  # it is loaded already

    try:
        file = recall(settings, task_id)
        return repositories_of(load_batch(file), file)
    except BadInput:
        return {}


async def _status(words: list[str], offline: bool, as_json: bool) -> None:
    quiet_logs()
    published = Published.of(load_settings())
    found = _chosen(published, words)
    _print([told_of(each) for each in (found if offline else await published.look(found, _stale))], as_json)


def _stale(each: Publication, error: ForgeDown | ForgeLimits | BadInput) -> None:
    """A forge that does not answer leaves what was seen last."""
    warn(f"{each.url} is as it was seen last: {error}", error.hint)


async def _sync(words: list[str], as_json: bool) -> None:
    settings = writing_settings(PUBLISHES)
    published = Published.of(settings)
    found = _chosen(published, words)
    going = [each for each in found if each.stage in UNFINISHED]
    done = await published.look((each for each in found if each.stage not in UNFINISHED), _stale)
    if going:
        async with open_records(settings) as muster:
            done = [*await Publications(muster, published.publisher).go_on(going), *done]
    told = [told_of(each) for each in done]
    _print(told, as_json)
    require_published(told)  # what was refused before is still for somebody to mend


async def _comment(text: str, words: list[str]) -> None:
    quiet_logs()
    published = Published.of(writing_settings(PUBLISHES))
    require_words(text)
    waiting = await published.waiting(_chosen(published, words), _stale)
    said = await published.comment(waiting, text)
    note(f"said on {counted(said, 'request')}; {len(waiting) - said} had it already")


async def _close(words: list[str], as_json: bool) -> None:
    quiet_logs()
    published = Published.of(writing_settings(PUBLISHES))
    waiting = await published.closable(_chosen(published, words), _stale)
    _print([told_of(each) for each in await published.close(waiting)], as_json)


def _chosen(published: Published, words: list[str]) -> list[Publication]:
    found = published.known([task_words(word) for word in words])
    if words and not found:
        raise BadInput("nothing was published of that", hint="see what was with: muster publish status")
    return found


def _print(told: list[Told], as_json: bool) -> None:
    if as_json:
        for each in told:
            data(json.dumps(each.as_json()))
        return
    if not told:
        note("nothing was published from here")
    print_lines(each.line() for each in told)
    hints = dict.fromkeys(each.hint for each in told if each.hint and each.stage == Stage.HELD)
    for hint in hints:
        note(f"hint: {hint}")
