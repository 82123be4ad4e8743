"""`muster publish` as a person types it, in a process of its own: a batch that ended, and a forge on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from envelope.agents import WorkerCard
from orchestrator.batch.file import load_batch, parse_batch
from orchestrator.batch.request import batch_request
from orchestrator.cli.batch_end import Conclusion, conclude
from orchestrator.cli.places import remember
from orchestrator.cli.publish import Packed, Target, not_set, publish_bundle
from orchestrator.publication.book import Book, Stage
from orchestrator.session.fold import Session
from orchestrator.submit import RepositoryInput
from repo.errors import BranchRefused
from transport.errors import Unreachable

pytestmark = pytest.mark.redis
MUSTER = (sys.executable, "-m", "orchestrator.cli.main")
TOKEN = "canary-0123456789-token"
BRANCH = "muster/modernise"
PUBLISH = """
[publish]
branch = "muster/modernise"
to = "request"
remote = "{remote}"
max_open = 5
"""


@dataclass
class Done:
    exit_code: int
    stdout: str
    stderr: str


@dataclass
class Shell:
    home: Path
    environment: dict[str, str]

    async def __call__(self, *words: str) -> Done:
        process = await asyncio.create_subprocess_exec(
            *(*MUSTER, *words), env=self.environment, cwd=self.home,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        return Done(process.returncode or 0, out.decode(), err.decode())


@pytest_asyncio.fixture
async def made(served_stage, make_desk, batch_text, tmp_path):
    """A batch over one repository, whose gate has passed, and a shell on its fleet."""
    desk = await make_desk("github")
    (desk.user / "src").mkdir()
    (desk.user / "src" / "a.py").write_text("old\nassert\n")
    for words in (["add", "-A"], ["commit", "-q", "-m", "base"], ["push", "-q", str(desk.hub.bare), "HEAD:main"]):
        identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        subprocess.run(["git", *identity, "-C", str(desk.user), *words], check=True)
    where = await served_stage.muster.pack(desk.user)
    given = RepositoryInput(name="app", bundle=where.bundle, base=where.base)
    text = batch_text + PUBLISH.format(remote=desk.hub.remote)
    settings = served_stage.muster.settings
    request = batch_request(parse_batch(text, name="batch.toml"), [given], settings=settings)
    result = await served_stage.run(request)
    (served_stage.folder / "batch.toml").write_text(text)
    desk.base = where.base
    forge = {"kind": "github", "url": f"{desk.hub.url}/api/v3", "token_env": "HUB_TOKEN"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    environment = kept | {
        "MUSTER_REDIS_URL": settings.redis_url,
        "MUSTER_FLEET": settings.fleet,
        "MUSTER_STATE_DIR": str(settings.state_dir),
        "MUSTER_CONFIG": os.environ["MUSTER_CONFIG"],
        "MUSTER_FORGES": json.dumps({"hub": forge}),
        "HUB_TOKEN": TOKEN,
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    return desk, result, Shell(tmp_path, environment), served_stage


async def test_from_a_verified_batch_to_a_closed_request(made):
    desk, result, muster, stage = made
    published = await muster("publish", result.task_id, "--json")
    again = await muster("publish", result.task_id[-8:])
    said = await muster("publish", "comment", "Please look at this.", "--all")
    status = await muster("publish", "status", "--json")
    desk.hub.reviews[0].merged, desk.hub.reviews[0].state = True, "closed"
    synced = await muster("publish", "sync")
    closed = await muster("publish", "close", result.task_id[-8:])
    book = Book(stage.muster.settings.state_dir / "publications")
    stopped = {
        "key": "0" * 32,
        "number": 0,
        "url": "",
        "repository": "other",
        "stage": Stage.REFUSED,
        "code": "bad_input",
        "reason": "not so",
    }
    book.put(book.all()[0].model_copy(update=stopped))
    beside = await muster("publish", "sync")
    await muster("publish", "close", "--all")
    without = await muster("publish", "sync")

    assert published.exit_code == 0, published.stderr
    told = json.loads(published.stdout)
    [review] = desk.hub.reviews
    assert (told["stage"], told["repository"], told["where"]) == ("draft", "app", f"{desk.hub.url}/team/app/1")
    assert desk.hub.tip() == told["commit"]
    assert (again.exit_code, "draft: http" in again.stderr, desk.hub.created) == (0, True, 1)
    for fact in ("Verified by the project's own gate", result.task_id, "fix {path}", "1 applied", "1 tests, 0 failed"):
        assert fact in review.body
    assert (said.exit_code, "said on 1 request" in said.stderr, len(review.comments)) == (0, True, 1)
    assert json.loads(status.stdout)["stage"] == "draft"
    assert ("merged: http" in synced.stderr, synced.exit_code, closed.exit_code) == (True, 0, 0)
    assert (beside.exit_code, "error: other: not so" in beside.stderr) == (8, True), beside.stderr
    assert (without.exit_code, "closed: muster/modernise" in without.stderr) == (0, True), without.stderr
    noted = [entry.fields for entry in await stage.transport.audit.latest(10)]
    assert [(each["action"], each["subject"]) for each in noted] == [("publish", result.task_id)] * 2
    for done in (published, again, said, status, synced, closed):
        assert TOKEN not in done.stdout + done.stderr


async def test_a_batchs_end_is_its_publication(made):
    """As `batch run` does it, for one that was detached."""
    desk, result, muster, stage = made
    text = (stage.folder / "batch.toml").read_text()
    (muster.home / "file").mkdir()
    (muster.home / "file" / "batch.toml").write_text(text)
    for pool in ("orchestrator", "build"):
        await stage.transport.announce(WorkerCard(worker=f"{pool}-1", pool=pool, slots=4), ttl_s=600)
    there = replace(muster, environment={**muster.environment, "MUSTER_POOLS": '{"build": 1}'})
    protected = desk.hub.bare / "hooks" / "pre-receive"
    protected.parent.mkdir(exist_ok=True)
    protected.write_text("#!/bin/sh\necho 'protected branch' >&2\nexit 1\n")
    protected.chmod(0o755)
    refused = await there("batch", "attach", result.task_id, "--file", "file/batch.toml")
    protected.unlink()
    attached = await there("batch", "attach", result.task_id, "--file", "file/batch.toml")

    assert (refused.exit_code, "app: The branch muster/modernise is protected" in refused.stderr) == (2, True)
    assert "✔ done and verified" in refused.stderr and "hint: publish to a branch" in refused.stderr
    assert attached.exit_code == 0, attached.stderr
    assert "draft: http" in attached.stderr and len(desk.hub.reviews) == 1
    assert git(desk.user, "branch", "--list", BRANCH) == "", "the local repository keeps its branches"


async def test_what_a_person_pushed_to_the_branch_is_told_and_nothing_is_half_published(made):
    desk, result, muster, _ = made
    theirs = desk.push_as_ann("hers\n", "main")
    refused = await muster("publish", result.task_id)

    assert (refused.exit_code, "was changed by somebody else" in refused.stderr) == (2, True), refused.stderr
    assert "hint: look at what is there; publish to another branch" in refused.stderr
    assert (desk.hub.tip(), desk.hub.reviews) == (theirs, [])


async def test_what_is_not_verified_stays_here_unless_told_and_sync_says_what_is_gone(made):
    desk, result, muster, stage = made
    spec = batch_request(
        parse_batch(
            (stage.folder / "batch.toml").read_text().replace('[gate]\ncommands = ["run-tests"]', ""), name="b.toml"
        ),
        [RepositoryInput(name="app", bundle=(await stage.muster.pack(desk.user)).bundle, base=desk.base)],
        settings=stage.muster.settings,
    )
    unproved = await stage.run(spec)
    kept = await muster("publish", unproved.task_id)
    told = await muster("publish", unproved.task_id, "--unverified")
    book = Book(stage.muster.settings.state_dir / "publications")
    [one] = book.all()
    book.put(one.model_copy(update={"task_id": result.task_id[:-12] + "0" * 12, "stage": Stage.HELD}))
    gone = await muster("publish", "sync")

    assert (kept.exit_code, "not verified: no gate is configured" in kept.stderr) == (1, True), kept.stderr
    assert (told.exit_code, "Done, not verified" in desk.hub.reviews[0].body) == (0, True)
    assert gone.exit_code == 2 and "hint: " in gone.stderr
    assert [each.stage for each in book.all()] == [Stage.REFUSED]


@pytest.mark.parametrize(("line", "is_set"), [("", False), ("unverified = true", True)])
async def test_a_branch_of_what_the_gate_refused_is_set_where_the_file_says_so(made, line, is_set):
    desk, _, muster, stage = made
    text = (stage.folder / "batch.toml").read_text().partition("[publish]")[0].replace('"."', f'"{desk.user}"')
    file = muster.home / "mine.toml"
    file.write_text(f'{text}\n[merge]\ngate = "end"\n[publish]\nbranch = "kept"\n{line}\n')
    where = await stage.muster.pack(desk.user)
    given = RepositoryInput(name="user", bundle=where.bundle, base=where.base)
    stage.builders.tests = lambda _files: None  # which proves nothing
    result = await stage.run(batch_request(load_batch(file), [given], settings=stage.muster.settings))
    for pool in ("orchestrator", "build"):
        await stage.transport.announce(WorkerCard(worker=f"{pool}-1", pool=pool, slots=4), ttl_s=600)
    there = replace(muster, environment={**muster.environment, "MUSTER_POOLS": '{"build": 1}'})
    attached = await there("batch", "attach", result.task_id, "--file", str(file))

    [told] = result.output.structured["repositories"]
    assert told["commit"] != told["base"] and told["bundle"] and not told["verified"]
    kept = git(desk.user, "for-each-ref", "--format=%(objectname)", "refs/heads/kept")
    assert kept == (told["commit"] if is_set else ""), attached.stderr


async def test_what_fails_beside_a_branch_hides_neither_it_nor_what_was_done(made, capsys):
    desk, result, _, stage = made
    state = stage.muster.settings.state_dir
    state.mkdir(exist_ok=True)
    (state / "branches").write_text("no folder")
    [told] = result.output.structured["repositories"]
    await publish_bundle(stage.muster, result, Packed(told["bundle"], told["commit"]), Target(desk.user, "mine"))
    warned = " ".join(capsys.readouterr().err.split())
    text = (stage.folder / "batch.toml").read_text().partition("[publish]")[0]
    spec = parse_batch(f'{text}[publish]\nbranch = "{BRANCH}"\n', name="batch.toml")
    without = result.model_copy(update={"attachments": ()})  # as of a store that has gone
    view = Session.of(result.task_id, result.trace_id, agent="batch", title="")
    with pytest.raises(
        BranchRefused, match=r"app: The branch muster/modernise cannot be set: .* has no attachment"
    ) as refused:
        await conclude(
            stage.muster, view, without, Conclusion((), publishes=True, spec=spec, folders={"app": desk.user})
        )

    assert "warning: the branch mine is set, but not noted as ours: " in warned
    assert git(desk.user, "rev-parse", "mine") == told["commit"]
    assert "✔ done and verified" in capsys.readouterr().err
    assert "all of its repositories under another name: muster publish" in refused.value.hint
    assert type(not_set(Unreachable("no server answers"), BRANCH, "take it")) is Unreachable, "another try helps"


async def test_files_and_branches_need_no_forge_and_what_cannot_be_says_so(made):
    desk, result, muster, stage = made
    shard = result.output.structured["repositories"][0]["shards"][0]["task_id"]
    no_forge = replace(muster, environment={**muster.environment, "MUSTER_FORGES": "{}"})
    cases = {
        "remote: String should match": await muster("publish", result.task_id, "--remote", "-x"),
        "nobody knows where the repository is": await muster("publish", result.task_id, "--to", "branch"),
        "neither a goal nor a batch": await muster("publish", shard),
        "no forge is known at": await no_forge("publish", result.task_id),
    }
    file = muster.home / "mine.toml"
    file.write_text((stage.folder / "batch.toml").read_text().replace('path = "."', 'path = "user"\nname = "app"'))
    remember(stage.muster.settings, result.task_id, file)
    bundle = await muster("publish", result.task_id, "--to", "bundle", "--folder", "out")
    patches = await muster("publish", result.task_id, "--to", "patches", "--folder", "out")
    branch = await muster("publish", result.task_id, "--to", "branch", "--branch", "mine")

    for words, done in cases.items():
        assert (done.exit_code, words in done.stderr) == (2, True), done.stderr
        assert "hint: " in done.stderr and "Traceback" not in done.stderr
    for done in (patches, bundle, branch):
        assert done.exit_code == 0, done.stderr
    assert (muster.home / "out" / "app" / "series").is_file() and (muster.home / "out" / "app.bundle").is_file()
    assert f"set: mine at {git(desk.user, 'rev-parse', 'mine')[:12]}" in branch.stderr
    assert (desk.hub.asked, desk.hub.reviews) == ([], [])


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()
