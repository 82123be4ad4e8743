"""How a new session begins: the worker looks around once, and what it saw is the system prompt from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import TypeAdapter

from envelope.events import WarningRaised
from envelope.messages import TaskRequest
from sandbox.base import WORKSPACE, Sandbox, SandboxSpec

from ..agent.history import open_session
from ..agent.prompt import Environment, system_prompt
from ..agent.session import Session
from ..agent.surroundings import Git, Tree, git_of, tree_of
from ..delivery.artifacts import SYSTEM_LINE as ARTIFACTS_LINE
from ..delivery.attempt import Attempt
from ..permissions.guard import Guard
from ..project.committed import CommittedFiles, Unclear, committed_files
from ..project.files import Files
from ..project.instructions import Guidance, Instruction, Instructions, find_instructions
from ..project.skills import Skills, find_skills, preloaded_text
from ..recording.tape import Tape
from ..sandboxes.subpath import folder_of, require_folder
from ..sandboxes.workspace import Prepared
from ..tools.base import Target
from .first_prompt import first_prompt
from .params import agent_params


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker sees when it looks around."""

    environment: Environment
    instructions: Instructions
    skills: Skills


SURROUNDINGS = TypeAdapter(Surroundings)


async def new_session(attempt: Attempt, guidance: Guidance, tape: Tape, *, model: str) -> Session:
    """A session before its first turn. What of user and project cannot be used is a warning."""
    request, agent = attempt.request, attempt.agent
    around = await tape.kept("surroundings", SURROUNDINGS, lambda: _look_around(attempt, guidance, model))
    environment, instructions, skills = around.environment, around.instructions, around.skills
    for warning in (*instructions.warnings, *skills.warnings):
        attempt.reporter.report(WarningRaised(message=warning))
    readable = [file for file in instructions.files if file.is_users or _may_tell(attempt.guard, file)]
    usable = [skill for skill in skills.found if attempt.guard.check([Target("skill", skill.name)]) is None]
    system = system_prompt(
        agent, environment, instructions=readable, skills=usable, is_structured=request.output_schema is not None
    )
    for name in sorted(set(agent.skills).difference(skill.name for skill in usable)):
        why = f"the agent {agent.name!r} begins without the skill {name!r}: there is none that it may use"
        attempt.reporter.report(WarningRaised(message=why))
    preloaded = preloaded_text([skill for skill in usable if skill.name in agent.skills])
    prompt = await first_prompt(request, request.input.prompt, attempt.sandbox)
    system = "\n\n".join(part for part in (system, preloaded, ARTIFACTS_LINE) if part)
    session = open_session(agent, model=model, system=system, prompt=prompt, budget=request.budget)
    # what stands in the prompt is not attached to a read again; to be edited it must be read
    digests = {file.source: "" for file in readable if not file.is_users}
    told = agent_params(request)
    given = {"read_digests": digests, "waypoints": told.waypoints, "given_plan": told.plan}
    return session.model_copy(update=given)


async def _look_around(attempt: Attempt, guidance: Guidance, model: str) -> Surroundings:
    request = attempt.request
    prepared, directory = await attempt.sandbox.prepared(), folder_of(request)
    if (committed := await _committed(request, prepared)) is not None:
        with suppress(Unclear):
            return await _seen(attempt, guidance, model, committed, committed.tree_and_git(directory))
    # where nothing is there is nothing to look at: the sandbox is opened by the first tool that needs one
    is_empty = request.workspace is None and not request.attachments
    sandbox = None if is_empty else await attempt.sandbox.opened()
    return await _seen(attempt, guidance, model, sandbox, _tree_and_git(sandbox, directory))


async def _committed(request: TaskRequest, prepared: Prepared) -> CommittedFiles | None:
    """The workspace as its commit has it; None when the request adds something, or there is no commit."""
    spec = prepared.spec
    if prepared.request_diff or request.attachments or spec.git_dir is None or spec.checkout is None:
        return None
    return await committed_files(spec.git_dir, spec.checkout, spec.base)


async def _seen(
    attempt: Attempt,
    guidance: Guidance,
    model: str,
    workspace: Files | None,
    tree_and_git: Coroutine[None, None, tuple[Tree, Git | None]],
) -> Surroundings:
    directory, knows_skills = folder_of(attempt.request), not attempt.guard.hides("skill")
    (tree, git), instructions, skills = await asyncio.gather(
        tree_and_git,
        find_instructions(workspace, guidance, directory=directory),
        find_skills(workspace, guidance.user_dir) if knows_skills else _none(),
    )
    spec = (await attempt.sandbox.prepared()).spec
    environment = Environment(
        date=datetime.now(UTC).date().isoformat(),
        writable=not spec.read_only,
        model=model,
        directory=directory,
        git=git,
        tree=tree,
        network=network_of(spec),
    )
    return Surroundings(environment, instructions, skills)


async def _tree_and_git(sandbox: Sandbox | None, directory: str) -> tuple[Tree, Git | None]:
    if sandbox is None:
        return Tree(), None
    await require_folder(sandbox, directory)
    return await asyncio.gather(tree_of(sandbox, directory), git_of(sandbox))


def network_of(spec: SandboxSpec) -> tuple[str, ...]:
    """What a model should know of the way out."""
    adds = "a proxy goes on by https and adds what you need to be let in"
    hosts = (f"{host} (through the proxy that http_proxy and https_proxy name)" for host in sorted(spec.egress))
    return (*hosts, *(f"http://{each.place}/ (write http: {adds})" for each in spec.outlet.credentials))


def may_read(guard: Guard, path: str) -> bool:
    """Do scope and rules let this task read the file? Its path in the workspace, absolute or not."""
    return guard.check([Target("read", path.removeprefix(f"{WORKSPACE}/"))]) is None


def _may_tell(guard: Guard, file: Instruction) -> bool:
    """By its name, and by that of the file that a link leads to."""
    return all(may_read(guard, path) for path in (file.source, file.leads_to) if path)


async def _none() -> Skills:
    return Skills()
