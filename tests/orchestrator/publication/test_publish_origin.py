"""Where a change comes from decides where it goes: into no other repository, and over nobody's branch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import pytest_asyncio

from envelope.agents import AgentCard
from envelope.messages import Workspace
from orchestrator.batch.file import parse_batch
from orchestrator.batch.request import batch_request
from orchestrator.cli.publish_batch import publish_batch
from orchestrator.cli.publish_forms import Job, publish_change
from orchestrator.errors import OrchestratorError
from orchestrator.publication.book import Stage
from orchestrator.publication.changes import changes_of
from orchestrator.publication.terms import Form, Terms
from orchestrator.publication.wanted import wanted_of
from orchestrator.submit import RepositoryInput, goal_request

TO_PUSH = '[publish]\nbranch = "muster/new"\nto = "push"\n'
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest_asyncio.fixture
async def goal(memory_stage, github):
    """What becomes of a goal's change when it is published from a folder."""
    where = await memory_stage.muster.pack(github.user)
    memory_stage.builders.edit = lambda _task, files: files.update({"app.py": "new\n"})
    asked = goal_request(
        "Make it new",
        agent=BUILD,
        settings=memory_stage.muster.settings,
        workspace=Workspace(bundle=where.bundle, base=where.base),
    )
    result = await memory_stage.run(asked)
    [change] = await changes_of(memory_stage.muster, result.task_id)

    async def publish(folder: Path, **terms: object):
        asked = Terms.model_validate({"unverified": True, **terms})
        job = Job(memory_stage.muster, github.publisher, change, asked, "muster/new", folder)
        return await publish_change(job)

    return publish


@pytest.mark.parametrize("to", [Form.BRANCH, Form.PUSH, Form.REQUEST])
async def test_a_goals_change_goes_into_no_repository_that_one_happens_to_stand_in(goal, github, to):
    other, theirs = github.folder / "other", github.folder / "theirs.git"
    git(github.folder, "init", "-q", str(other))
    git(github.folder, "init", "-q", "--bare", str(theirs))
    git(other, "remote", "add", "origin", str(theirs))
    refused = await goal(other, to=to)

    assert refused.stage == Stage.REFUSED and "is not the repository that the change was made from" in refused.reason
    assert refused.hint == "name the one that it was made from: --repo PATH"
    assert git(other, "branch", "--list", "--all") == git(theirs, "branch", "--list") == ""


async def test_from_its_own_repository_it_goes_to_the_remote_of_that_name(goal, github):
    git(github.user, "remote", "add", "origin", str(github.hub.bare))
    kept, pushed = await goal(github.user, to=Form.BRANCH), await goal(github.user, to=Form.PUSH)

    assert (kept.stage, pushed.stage) == ("set", Stage.PUSHED)
    assert github.hub.tip("muster/new") == git(github.user, "rev-parse", "muster/new") == pushed.commit


@pytest_asyncio.fixture
async def two(memory_stage, batch_text, tmp_path):
    """A batch over two repositories that were fetched: each one's own place, and how the batch is published."""
    given: list[RepositoryInput] = []
    for name in ("alpha", "beta"):
        one = await memory_stage.repository({"src/a.py": f"old\nassert\n{name}\n"}, name=name)
        git(tmp_path, "init", "-q", "--bare", f"{name}.git")
        given.append(one.model_copy(update={"url": str(tmp_path / f"{name}.git")}))
    spec = parse_batch(batch_text + TO_PUSH, name="batch.toml")
    result = await memory_stage.run(batch_request(spec, given, settings=memory_stage.muster.settings))

    async def publish(**terms: object) -> None:
        assert spec.publish is not None
        await publish_batch(memory_stage.muster, result.task_id, spec.publish.model_copy(update=terms), {})

    return [Path(each.url) for each in given], publish


async def test_what_was_fetched_goes_back_to_where_it_came_from(two):
    [alpha, beta], publish = two
    await publish()

    assert git(alpha, "show", "muster/new:src/a.py") == "new\nassert\nalpha"
    assert git(beta, "show", "muster/new:src/a.py") == "new\nassert\nbeta"


async def test_at_one_address_no_repository_takes_the_others_branch(two, tmp_path):
    git(tmp_path, "init", "-q", "--bare", "shared.git")
    _, publish = two
    for _ in range(2):  # what was refused has left no trace that would let it in
        with pytest.raises(OrchestratorError, match=r"beta: .* holds what was made of the repository alpha") as told:
            await publish(remote=str(tmp_path / "shared.git"))

    assert "publish to another branch" in told.value.hint
    assert git(tmp_path / "shared.git", "show", "muster/new:src/a.py") == "new\nassert\nalpha"


async def test_a_remotes_name_means_nothing_to_what_was_fetched(two):
    _, publish = two
    with pytest.raises(OrchestratorError, match="nobody knows where the remote 'upstream' is"):
        await publish(remote="upstream")


@pytest.mark.parametrize(
    ("name", "why"), [("modernise", ""), ("rename", "the repository alpha by the batch modernise")]
)
async def test_a_branch_is_one_batchs_whatever_others_call_their_repository(two, memory_stage, batch_text, name, why):
    """The same batch on a newer commit goes on with it."""
    [alpha, _], publish = two
    await publish()
    again = await memory_stage.repository({"src/a.py": "old\nassert\nmore\n"}, name="alpha")
    spec = parse_batch(batch_text.replace("modernise", name) + TO_PUSH, name="batch.toml")
    given = [again.model_copy(update={"url": str(alpha)})]
    result = await memory_stage.run(batch_request(spec, given, settings=memory_stage.muster.settings))

    if not why:
        await publish_batch(memory_stage.muster, result.task_id, spec.publish, {})
        assert git(alpha, "show", "muster/new:src/a.py") == "new\nassert\nmore"
        return
    with pytest.raises(OrchestratorError, match=why):
        await publish_batch(memory_stage.muster, result.task_id, spec.publish, {})
    assert git(alpha, "show", "muster/new:src/a.py") == "new\nassert\nalpha"


async def test_the_forge_that_a_repository_names_is_the_one_that_it_is_published_to(memory_stage, batch_text, github):
    """At one host there may be two, each with a token of its own."""
    given = await memory_stage.repository({"src/a.py": "old\nassert\n"}, name="app")
    given = given.model_copy(update={"url": github.hub.remote, "forge": "second"})
    spec = parse_batch(batch_text + TO_PUSH, name="batch.toml")
    result = await memory_stage.run(batch_request(spec, [given], settings=memory_stage.muster.settings))
    [change] = await changes_of(memory_stage.muster, result.task_id)
    forges = {"first": github.hub.settings(), "second": github.hub.settings()}

    own = await wanted_of(change, spec.publish, "muster/new", forges, repository=None, tenant="default")
    said = spec.publish.model_copy(update={"forge": "first"})
    other = await wanted_of(change, said, "muster/new", forges, repository=None, tenant="default")

    assert (own.forge, own.remote, other.forge) == ("second", github.hub.remote, "first")
