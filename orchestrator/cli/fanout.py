"""`muster fanout`: one prompt for each of many items."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from envelope.budget import Budget as TaskBudget
from envelope.errors import ExitCode
from envelope.messages import TaskResult
from envelope.scope import Scope, narrow
from repo.content import files_of
from repo.local import LocalRepository

from ..agent_files import project_cards
from ..approvals import ask_terms
from ..catalogue import agent_named
from ..client import Muster
from ..errors import BadInput
from ..fanout.items import Item, check_prompt, items_of_json, items_of_lines, items_of_paths
from ..fanout.report import ANSWERS_NAME
from ..fanout.spec import fanout_request
from ..gathering import Policy, Want
from ..globs import matching
from ..looking import READ_SCOPE
from ..session.fold import Session
from ..submit import FANOUT, scope_of
from ..trust import TrustStore, trusted_digest
from .completing import agent_names
from .console import answer, data, note
from .estimate import Spending, agreed
from .fleet import open_fleet
from .follow import follow
from .leaving import leave, require_lasting, tell_known
from .options import (
    Allow,
    AllowDirty,
    Budget,
    Deadline,
    Detach,
    Json,
    Model,
    NoInput,
    ReadOnly,
    Repo,
    Yes,
    grants,
    microusd,
    settings_for,
)
from .outcome import exit_code_after
from .repository import project_defaults, starting_point
from .summary import summary_of_fanout


class Form(StrEnum):
    """What stands on stdout at the end."""

    REPORT = "report"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Ask:
    """The command line, as it was meant."""

    agent: str
    prompt: str
    over: str
    repository: Path
    want: Want
    max_running: int | None
    form: Form
    budget_microusd: int | None
    deadline_s: int | None
    model: str
    detach: bool
    as_json: bool
    no_input: bool
    allow_dirty: bool
    yes: bool
    allow: Scope
    read_only: bool


def fanout(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", autocompletion=agent_names, help="Who does each: explore, general, build, or your own."
        ),
    ],
    prompt: Annotated[
        str,
        typer.Argument(metavar="PROMPT", help="What each is to do; {item} stands for its item, {name} for a field."),
    ],
    over: Annotated[
        str,
        typer.Option(
            metavar="ITEMS",
            help="A glob of committed files, a file with a line for each, a .jsonl file, or - for stdin.",
        ),
    ],
    repo: Repo = Path(),
    gather: Annotated[
        Policy, typer.Option(help="Wait for all, for the first, for the best, or for --quorum equal answers.")
    ] = Policy.ALL,
    quorum: Annotated[int, typer.Option(metavar="N", help="So many equal answers, for --gather quorum.")] = 0,
    max_running: Annotated[int | None, typer.Option(metavar="N", help="At most so many at once.")] = None,
    form: Annotated[Form, typer.Option("--format", help="The answers as one text, or as JSON Lines.")] = Form.REPORT,
    budget: Budget = None,
    deadline: Deadline = None,
    model: Model = "",
    allow: Allow = None,
    detach: Detach = False,
    as_json: Json = False,
    no_input: NoInput = False,
    allow_dirty: AllowDirty = False,
    yes: Yes = False,
    read_only: ReadOnly = False,
) -> None:
    """Ask one thing of many items: each is a task of its own, and the answers meet in one report.

    The budget is shared in equal parts. Running the same command again does only what did not complete.
    """
    asked = Ask(
        agent, prompt, over, repo, Want(gather, quorum), max_running, form, microusd(budget), deadline, model, detach,
        as_json, no_input, allow_dirty, yes, grants(allow), read_only,
    )  # fmt: skip
    raise typer.Exit(asyncio.run(_run(asked)))


async def _run(asked: Ask) -> int:
    settings = settings_for(read_only=asked.read_only)
    if settings.read_only:
        narrow(READ_SCOPE, asked.allow)
    if asked.detach:
        require_lasting(settings)
    local = await starting_point(asked.repository, allow_dirty=asked.allow_dirty)
    items = await _items(asked.over, local)
    check_prompt(asked.prompt, items)  # before anything is started
    asked.want.checked(len(items))
    store = TrustStore(settings.state_dir)
    trusted = "" if settings.read_only else await trusted_digest(store, local.root, local.git_dir, local.head)
    known = await project_defaults(local, settings, is_trusted=bool(trusted))
    async with open_fleet(settings) as muster:
        project = [] if settings.read_only else await project_cards(local, trusted, wanted=asked.agent)
        workers = await muster.workers()
        commit, tenant = local.head, settings.tenant
        card = agent_named(asked.agent, workers, by_person=False, commit=commit, tenant=tenant, project=project)
        caps = (asked.budget_microusd, known.budget_microusd, settings.budget_microusd)
        cap = next(cap for cap in caps if cap is not None)
        deadline_s = asked.deadline_s or known.deadline_s
        request = await fanout_request(
            asked.prompt,
            items,
            agent=card,
            blobs=muster.transport.blobs,
            settings=settings,
            want=asked.want,
            max_running=asked.max_running,
            workspace=await muster.pack(local.root, commit=local.head, setup=known.setup),
            auth_scope=(*scope_of(card), *asked.allow),
            budget=TaskBudget(max_cost_microusd=cap, waits_at_cap=not asked.no_input),
            deadline_ms=deadline_s and deadline_s * 1000,
            model=asked.model or known.model,
            asks=ask_terms(settings, (local.root,), no_input=asked.no_input),
        )
        may_ask = not (asked.yes or asked.no_input or asked.detach or asked.as_json)
        spending = Spending(asked.prompt, request.model or card.model, cap, may_ask, agents=len(items))
        if not await agreed(spending, workers, ask_above_microusd=settings.ask_above_microusd):
            note("nothing was submitted")
            return ExitCode.CANCELLED
        handle = await muster.submit_repeatable(request)
        await tell_known(muster, handle)
        if asked.detach:
            return leave(settings, handle, "muster task watch")
        view = Session.of(handle.task_id, handle.trace_id, agent=FANOUT, title=asked.prompt)
        followed = await follow(muster, view, as_json=asked.as_json, may_ask=not asked.no_input)
        if followed.result is not None:
            await _conclude(muster, followed.view, followed.result, asked, cap)
        return exit_code_after(followed)


async def _conclude(muster: Muster, view: Session, result: TaskResult, asked: Ask, cap_microusd: int | None) -> None:
    if asked.form is Form.JSONL and result.attachments:
        data((await muster.attachment(result, ANSWERS_NAME)).decode().rstrip("\n"))
    elif result.output.text and not asked.as_json:
        answer(result.output.text)
    summary_of_fanout(view, result, cap_microusd=cap_microusd).print()


async def _items(over: str, local: LocalRepository) -> list[Item]:
    """What `--over` names: stdin, a file that is there, else a glob of the repository's committed files."""
    lines = sys.stdin if over == "-" else _lines_of(Path(over))
    if lines is None:
        return items_of_paths(matching(over, await files_of(local.git_dir, local.head)), name=f"the glob {over!r}")
    return (items_of_json if over.endswith(".jsonl") else items_of_lines)(lines, name="stdin" if over == "-" else over)


def _lines_of(path: Path) -> Iterable[str] | None:
    """None where there is no such file."""
    if not path.is_file():
        return None
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as e:
        raise BadInput(f"{path} cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise BadInput(f"{path} is not UTF-8 text") from e
