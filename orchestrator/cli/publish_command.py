"""`muster publish`: what was made leaves the fleet, and what became of it there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from envelope.errors import MusterError
from repo.errors import RepoError

from ..errors import BadInput
from ..publication.book import UNFINISHED, WAITS_FOR_PEOPLE, Publication, Stage
from ..publication.errors import ForgeDown, ForgeLimits
from ..publication.publisher import Publisher
from ..publication.telling import close, comment
from ..publication.terms import Form, Terms
from ..settings import Settings, load_settings
from .console import data, note, warn
from .find import find_task
from .fleet import open_records, quiet_logs
from .options import JsonLines, TaskId, task_words, writing_settings
from .places import recall, repositories_of
from .publish_told import Told, publisher_of, require_published, told_of
from .summary import print_lines
from .words import counted

if TYPE_CHECKING:
    from ..client import Muster
    from ..publication.changes import Change


class _TaskFirst(TyperGroup):
    """`muster publish TASK` is `muster publish task TASK`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else "--help"
        return super().parse_args(ctx, args if first in (*self.commands, "-h", "--help") else ["task", *args])


PUBLISHES = "something would be published"
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
    as_json: JsonLines = False,
) -> None:
    """Publish a task's change; again, and it is brought up to date. Nothing of anybody else's is overwritten."""
    said = {"to": to, "remote": remote, "forge": forge, "into": into, "title": title, "folder": folder}
    given: dict[str, Any] = {name: value for name, value in said.items() if value}
    given |= {"draft": False} if ready else {}
    given |= {"unverified": True} if unverified else {}
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
    """Close the open requests; their branches stay."""
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
        publisher = publisher_of(settings)
        told: list[Told] = []
        for change in changes:
            terms = _terms(change, given)
            place = folders.get(change.repository)
            job = Job(muster, publisher, change, terms, branch or change.branch, place)
            told.append(await publish_change(job))
        _print(told, as_json)
    require_published(told)


def _terms(change: Change, given: Mapping[str, Any]) -> Terms:
    """What the batch file says, and what is given here over it."""
    asked = change.asked.model_dump(exclude={"branch"}) if change.asked else {}
    try:
        return Terms.model_validate({**asked, **given})
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        what = fault["msg"].removeprefix("Value error, ")
        raise BadInput(f"{'.'.join(map(str, fault['loc']))}: {what}", hint="see muster publish task --help") from e


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
    publisher = publisher_of(load_settings())
    found = _chosen(publisher, words)
    _print([told_of(each) for each in (found if offline else await _looked_at(publisher, found))], as_json)


async def _looked_at(publisher: Publisher, publications: Iterable[Publication]) -> list[Publication]:
    """A forge that does not answer leaves what was seen last."""
    seen: list[Publication] = []
    for each in publications:
        try:
            seen.append(await publisher.look(each))
        except (ForgeDown, ForgeLimits, BadInput) as e:
            warn(f"{each.url} is as it was seen last: {e}", e.hint)
            seen.append(each)
    return seen


async def _sync(words: list[str], as_json: bool) -> None:
    settings = writing_settings(PUBLISHES)
    publisher = publisher_of(settings)
    found = _chosen(publisher, words)
    going = [each for each in found if each.stage in UNFINISHED]
    done = await _looked_at(publisher, (each for each in found if each.stage not in UNFINISHED))
    if going:
        async with open_records(settings) as muster:
            # the oldest first: who has waited longest is the next to go
            done = [*[await _went_on(muster, publisher, each) for each in reversed(going)], *done]
    told = [told_of(each) for each in done]
    _print(told, as_json)
    require_published(told[: len(going)])


async def _went_on(muster: Muster, publisher: Publisher, publication: Publication) -> Publication:
    from ..publication.changes import mirror_with  # as above

    task_id, bundle, commit = publication.task_id, publication.bundle, publication.commit
    try:
        async with mirror_with(muster, task_id, bundle=bundle, commit=commit) as mirror:
            return await publisher.go_on(publication, mirror)
    except (MusterError, RepoError) as e:  # its result is no longer kept, say: the others go on
        return await publisher.refuse(publication, e)


async def _comment(text: str, words: list[str]) -> None:
    quiet_logs()
    if not text.strip():
        raise BadInput("there is nothing in the comment", hint="say what reviewers should know")
    publisher = publisher_of(writing_settings(PUBLISHES))
    waiting = await _open_ones(publisher, words)
    said = sum([await comment(publisher, each, text) for each in waiting])
    note(f"said on {counted(said, 'request')}; {len(waiting) - said} had it already")


async def _close(words: list[str], as_json: bool) -> None:
    quiet_logs()
    publisher = publisher_of(writing_settings(PUBLISHES))
    _print([told_of(await close(publisher, each)) for each in await _open_ones(publisher, words)], as_json)


async def _open_ones(publisher: Publisher, words: list[str]) -> list[Publication]:
    looked_at = await _looked_at(publisher, (each for each in _chosen(publisher, words) if each.number))
    return [each for each in looked_at if each.stage in WAITS_FOR_PEOPLE]


def _chosen(publisher: Publisher, words: list[str]) -> list[Publication]:
    known = publisher.book.all()
    ends = [task_words(word) for word in words]
    found = [each for each in known if not ends or any(each.task_id.endswith(end) for end in ends)]
    if ends and not found:
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
