"""What `muster run` shows once its goal is submitted, and what it does with the change at the end."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envelope.messages import TaskRequest, TaskResult
from repo.errors import RepoError
from transport.base import Handle
from transport.errors import TransportError

from ..client import Muster
from ..session.fold import Session
from ..submit import RUN
from .console import answer
from .follow import follow
from .outcome import exit_code_after
from .publish import Packed, Target, not_set, publish_bundle
from .report_forms import Wanted
from .reports import write_reports
from .summary import summary_of_run

BUNDLE = "change.bundle"  # what the driver of a goal calls its commit


@dataclass(frozen=True, slots=True)
class Shown:
    """`branch` of `repository` is set to the change; empty: none is."""

    goal: str
    branch: str
    repository: Path
    as_json: bool
    may_ask: bool
    reports: tuple[Wanted, ...] = ()


async def follow_run(muster: Muster, request: TaskRequest, handle: Handle, shown: Shown) -> int:
    """To the end of the goal, or for as long as the person stays; the exit code."""
    view = Session.of(handle.task_id, handle.trace_id, agent=RUN, title=shown.goal)
    followed = await follow(muster, view, as_json=shown.as_json, may_ask=shown.may_ask)
    await write_reports(muster, shown.reports, followed.result)
    if followed.result is not None:
        await _conclude(muster, shown, request, followed.view, followed.result)
    return exit_code_after(followed)


async def _conclude(muster: Muster, shown: Shown, request: TaskRequest, view: Session, result: TaskResult) -> None:
    """What is known of the run is said in any case; then, that its branch could not be set."""
    structured: dict[str, Any] = result.output.structured or {}
    commit = str(structured.get("commit") or "") if not result.errors else ""
    target = Target(shown.repository, shown.branch)
    branch, failure = "", None
    if shown.branch and commit:
        try:
            await publish_bundle(muster, result, Packed(BUNDLE, commit), target)
            branch = f"{shown.branch} at {commit[:12]}"
        except (RepoError, TransportError, OSError) as e:
            failure = e
    if result.output.text and not shown.as_json:
        answer(await _answer(muster, result))
    elsewhere = None if Path.cwd().is_relative_to(shown.repository) else shown.repository
    cap_microusd = request.budget.max_cost_microusd
    summary_of_run(view, result, cap_microusd=cap_microusd, branch=branch, repository=elsewhere).print()
    if failure is not None:
        take = f"under another name: muster publish {result.task_id} --repo {shlex.quote(str(shown.repository))}"
        raise not_set(failure, shown.branch, take) from failure


async def _answer(muster: Muster, result: TaskResult) -> str:
    """The whole of it; where the store has gone meanwhile, the beginning that its result carries."""
    try:
        return await muster.answer(result)
    except TransportError:
        return result.output.text
