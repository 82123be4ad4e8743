"""A new agent from a sentence: a model writes its file, a person commits it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from envelope.budget import Budget
from envelope.errors import ErrorCode, MusterError
from envelope.messages import TaskResult
from envelope.wire import Wire
from repo.local import locate

from ..agent_files import AgentFiles, agent_files
from ..catalogue import agent_named
from ..client import Muster
from ..errors import BadInput, TaskFailed
from ..settings import load_settings
from ..submit import task_request
from .console import answer, note
from .fleet import open_fleet

FOLDER = ".muster/agents"
# Who answers: without a workspace and with no grant it has nothing but its model.
WRITER = "general"


class WrittenAgent(Wire):
    name: str
    path: str
    text: str


async def generate_agent(
    description: str, repo: Path, name: str, taken: Collection[str], *, model: str, budget_microusd: int | None
) -> WrittenAgent:
    """`BadInput` before anything is paid for, where it can be; an answer that nobody can store is printed."""
    if not description.strip():
        raise BadInput("the description is empty", hint='say what it is for: muster agents generate "…"')
    root = (await locate(repo)).root
    if name:
        _free_path(root, name)
    settings = load_settings()
    cap = settings.budget_microusd if budget_microusd is None else budget_microusd
    async with open_fleet(settings) as muster:
        note("asking a model for the agent …")
        chosen, text = await _written(muster, agent_files(), description, name, taken, model=model, cap_microusd=cap)
    try:
        path = _free_path(root, chosen)
    except BadInput:
        answer(text)
        raise
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x") as file:
        file.write(text)
    return WrittenAgent(name=chosen, path=str(path), text=text)


async def _written(
    muster: Muster,
    files: AgentFiles,
    description: str,
    name: str,
    taken: Collection[str],
    *,
    model: str,
    cap_microusd: int,
) -> tuple[str, str]:
    """The name and the text of a file that is an agent."""
    refused: tuple[str, str] | None = None
    for last in (False, True):
        prompt = files.request_text(description, taken, refused=refused)
        result = await _asked(muster, prompt, model=model, cap_microusd=cap_microusd)
        said = await muster.answer(result)
        try:
            return files.accepted(said, name)
        except MusterError as e:
            if e.code is not ErrorCode.BAD_INPUT or last:
                raise
            refused = (said, f"{e.message} ({e.hint})")
    raise AssertionError("the second answer is taken or refused")


async def _asked(muster: Muster, prompt: str, *, model: str, cap_microusd: int) -> TaskResult:
    card = agent_named(WRITER, await muster.workers(), by_person=False)
    request = task_request(
        agent=WRITER,
        pool=card.pool,
        intent="generate agent",
        prompt=prompt,
        auth_scope=(),
        model=model,
        budget=Budget(max_cost_microusd=cap_microusd),
        deadline_ms=muster.settings.deadline_ms,
        tenant=muster.settings.tenant,
        sender="cli",
    )
    [result] = await muster.gather([await muster.submit(request)])
    if result.errors:
        raise TaskFailed(result.errors[0])
    return result


def _free_path(root: Path, name: str) -> Path:
    """Where an agent of this name is stored; `BadInput` for what is there, or would be somewhere else."""
    path = root / FOLDER / f"{name}.md"
    if not path.parent.resolve().is_relative_to(root.resolve()):
        raise BadInput(f"{path.parent} is not inside of the repository", hint="give it a plain name, with --name")
    if path.exists() or path.is_symlink():
        raise BadInput(f"{path} exists already", hint="give the new one another name, with --name")
    return path
