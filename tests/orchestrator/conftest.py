"""A whole fleet but for its workers: their part is played at the transport, with patches that real git makes."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from envelope.agents import AgentCard
from envelope.budget import Metrics
from envelope.errors import ErrorCode
from envelope.events import AskOpened, Event
from envelope.ids import blob_ref
from envelope.lifecycle import State
from envelope.messages import (
    Attachment,
    ErrorInfo,
    FileStat,
    Output,
    PatchRef,
    TaskProgress,
    TaskRequest,
    TaskResult,
    Workspace,
)
from envelope.recipe import CodeDigest
from envelope.scope import allows
from orchestrator.batch.file import parse_batch
from orchestrator.batch.report import BatchReport
from orchestrator.batch.request import batch_request
from orchestrator.client import Muster
from orchestrator.driver import DriverContext
from orchestrator.metrics import OrchestratorMetrics
from orchestrator.repositories import fetch_mirror
from orchestrator.service import handler_of
from orchestrator.settings import Settings
from orchestrator.submit import DRIVERS, VERIFY, RepositoryInput, goal_request, task_request
from repo.mirror import Mirror
from repo.patch import apply_to_tree, extract_patch
from transport import approvals
from transport.base import Lease, Transport, Wait
from transport.consumer import Consumer, Delivery
from transport.embedded import Server, embedded_redis
from transport.keyring import fresh
from transport.limits import Limits
from transport.memory import MemoryTransport
from transport.redis import connect_redis
from transport.settings import connect

KEYRING = fresh()
APPROVALS = approvals.fresh()
IDENTITY = {f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
BUILDER = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
_fleets = itertools.count()

Files = dict[str, str]
Tests = dict[str, int]


def count_asserts(files: Files) -> Tests:
    """The scripted test runner: each line `assert` is a test that passes, each line `fail` one that does not."""
    lines = [line for text in files.values() for line in text.splitlines()]
    return {"passed": lines.count("assert"), "failed": lines.count("fail"), "errors": 0, "skipped": 0}


BATCH = """
name = "modernise"
[[repositories]]
path = "."
[shards]
glob = "src/*.py"
[[steps]]
recipe = ["fix {path}"]
[gate]
commands = ["run-tests"]
"""


def modernise(task: TaskRequest, files: Files) -> None:
    """What the recipe `fix PATH` of `BATCH` does."""
    path = task.input.params["commands"][0].removeprefix("fix ")
    files[path] = files[path].replace("old", "new")


class ShardFails(Exception):
    pass


@dataclass
class Builders:
    """Plays the build pool. `edit` gets a shard's task and its files, and changes them in place."""

    transport: Transport
    folder: Path
    edit: Callable[[TaskRequest, Files], None] = modernise
    tests: Callable[[Files], Tests | None] = count_asserts
    digest: Callable[[Files], CodeDigest | None] = lambda _: None  # of the tests' code, while they run
    before_start: Callable[[TaskRequest], Awaitable[None]] | None = None
    honest: bool = True  # else patches hold what they must not
    cost: Callable[[TaskRequest], int] = lambda _: 0  # of a shard, in millionths of a dollar
    broken_base: str = ""  # a commit on which nothing can be set up
    started: list[TaskRequest] = field(default_factory=list)
    modernise: Callable[[TaskRequest, Files], None] = modernise
    code: Callable[[Exception], ErrorCode] = lambda _: ErrorCode.RECIPE_FAILED  # of a shard that fails
    leaves: Callable[[TaskRequest], Files] = lambda _: {}  # what is attached to the result, by name
    fails: type[Exception] = ShardFails  # raised by a test's `edit`: the scripted recipe ends badly

    def shards_started(self) -> list[TaskRequest]:
        return [task for task in self.started if task.agent != VERIFY]

    async def handle(self, delivery: Delivery) -> TaskResult:
        task = delivery.request
        self.started.append(task)
        if self.before_start is not None:
            await self.before_start(task)
        try:
            if task.workspace.base == self.broken_base:
                raise ShardFails("pip said no")
            fields = await (self._verify if task.agent == VERIFY else self._change)(task)
        except ShardFails as e:
            code = ErrorCode.SETUP_FAILED if self.broken_base else self.code(e)
            fields = {"status": State.ERROR, "errors": (ErrorInfo.of(code, str(e)),)}
        left = [
            Attachment(blob=await self.transport.blobs.put(text.encode()), name=name, media_type="text/plain")
            for name, text in self.leaves(task).items()
        ]
        return TaskResult(
            **{
                "attachments": tuple(left),
                "trace_id": task.trace_id,
                "task_id": task.task_id,
                "attempt": delivery.claim.lease.attempt,
                "status": State.COMPLETED,
                "metrics": Metrics(cost_microusd=self.cost(task)),
                **fields,
            }
        )

    async def _workspace(self, task: TaskRequest) -> tuple[Mirror, Workspace]:
        assert task.workspace and task.workspace.bundle
        where = task.workspace
        return await fetch_mirror(self.transport.blobs, self.folder, bundle_ref=where.bundle, base=where.base), where

    async def _tree(self, mirror: Mirror, where: Workspace) -> str:
        diff = await self.transport.blobs.get(where.changes) if where.changes else b""
        return await apply_to_tree(mirror.git_dir, where.base, diff)

    async def _change(self, task: TaskRequest) -> dict[str, Any]:
        mirror, where = await self._workspace(task)
        tree = await self._tree(mirror, where)
        with tempfile.TemporaryDirectory() as copy:
            unpack(mirror, tree, Path(copy))
            files = read_files(Path(copy))
            there = set(files)
            self.edit(task, files)
            for path in there - files.keys():
                (Path(copy) / path).unlink()
            for path, text in files.items():
                (Path(copy) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(copy) / path).write_text(text)
            patch = await extract_patch(
                git_dir=mirror.git_dir,
                base=tree if where.changes else where.base,
                work_tree=Path(copy),
                allowed=lambda path: not self.honest or allows(task.auth_scope, "edit", path),
            )
        if patch.empty:
            return {"output": Output(text="nothing to do")}
        stats = tuple(FileStat(path=f.path, status=f.status, old_path=f.old_path) for f in patch.files)
        added = sum(file.added or 0 for file in patch.files)
        ref = PatchRef(
            base=patch.base, diff=await self.transport.blobs.put(patch.diff), files=stats, added=added, tree=patch.tree
        )
        return {"output": Output(text="changed"), "patch": ref}

    async def _verify(self, task: TaskRequest) -> dict[str, Any]:
        mirror, where = await self._workspace(task)
        tree = await self._tree(mirror, where)
        with tempfile.TemporaryDirectory() as copy:
            unpack(mirror, tree, Path(copy))
            files = read_files(Path(copy))
        tests, digest = self.tests(files), self.digest(files)
        code = 1 if tests and tests["failed"] else 0
        step = {"command": task.input.params["commands"][0], "exit_code": code, "timed_out": False, "tests": tests}
        told = {"digest": digest.model_dump(mode="json")} if digest else {}
        return {"output": Output(structured={"steps": [step | told], "tree": tree})}


def unpack(mirror: Mirror, tree: str, folder: Path) -> None:
    archive = subprocess.run(["git", "archive", tree], cwd=mirror.git_dir, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)


def read_files(folder: Path) -> Files:
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.relative_to(folder).parts)
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@dataclass
class Work:
    """A task that is under way, in the hands of the test."""

    transport: Transport
    lease: Lease
    _seq: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def task_id(self) -> str:
        return self.lease.task_id

    @property
    def trace(self) -> str:
        """Its page in the console; `task` is the other one."""
        return f"/traces/{self.lease.trace_id}"

    @property
    def task(self) -> str:
        return f"/tasks/{self.lease.task_id}"

    async def tell(self, *events: Event, **fields: Any) -> None:
        told = {"seq": next(self._seq), "at_ms": await self.transport.now_ms(), "status": State.RUNNING, **fields}
        await self.transport.emit(self.lease, TaskProgress(**{**self._names(), **told, "events": events}))

    async def ask(self, *asks: AskOpened) -> str:
        """It waits for answers from now on; its id."""
        await self.tell(*asks)
        assert await self.transport.park(self.lease, Wait(asks=frozenset(ask.ask_id for ask in asks)))
        return self.task_id

    async def end(self, status: State = State.COMPLETED, *, dead: str = "", **fields: Any) -> None:
        await self.transport.finish(self.lease, TaskResult(**self._names(), status=status, **fields), dead=dead)

    def _names(self) -> dict[str, Any]:
        return {"trace_id": self.lease.trace_id, "task_id": self.lease.task_id, "attempt": self.lease.attempt}


@dataclass
class Stage:
    """One fleet: its client, its builders, and orchestrators that a test starts and stops."""

    transport: Transport
    muster: Muster
    builders: Builders
    metrics: OrchestratorMetrics
    folder: Path

    @asynccontextmanager
    async def serving(self, pool: str, handle: Callable[[Delivery], Awaitable[TaskResult]]) -> AsyncIterator[Consumer]:
        stop = asyncio.Event()
        name = f"{pool}-{next(_fleets)}"
        consumer = Consumer(self.transport, pool=pool, worker=name, slots=32, handle=handle)
        async with asyncio.TaskGroup() as group:
            group.create_task(consumer.run(stop))
            try:
                yield consumer
            finally:
                stop.set()

    def orchestrator(self):
        return self.serving(DRIVERS, handler_of(DriverContext(self.transport, self.folder / "cache", self.metrics)))

    def workers(self):
        return self.serving("build", self.builders.handle)

    async def claimed(self, pool: str = "build") -> Work:
        """What waits for a worker, taken by the test."""
        [claim] = await self.transport.claim(pool, "w", slots=1, wait_s=10)
        return Work(self.transport, claim.lease)

    async def work(self, prompt: str, **fields: Any) -> Work:
        """A task of an agent, submitted and begun."""
        handle = await self.muster.submit(**{"agent": "build", "prompt": prompt, "deadline_ms": 600_000, **fields})
        work = await self.claimed()
        assert work.task_id == handle.task_id
        return work

    async def ended_goal(self, **fields: Any) -> str:
        """A goal with a gate whose agent has left a session, and which has ended verified, all by hand; its id."""
        told = {"gate": ("run-tests",), "workspace": Workspace(bundle=blob_ref(b"bundle"), base="0" * 40), **fields}
        request = goal_request("Begin", agent=BUILDER, settings=self.muster.settings, **told)
        await self.muster.submit(request)
        driver = await self.claimed(DRIVERS)
        asked = {"agent": "build", "pool": "build", "auth_scope": BUILDER.auth_scope, "deadline_ms": 60_000}
        agent = task_request(parent=request, **asked, prompt="Begin", workspace=request.workspace, sender="run")
        await self.transport.submit([agent], under=driver.lease)
        work = await self.claimed()
        await self.transport.checkpoint(work.lease, await self.transport.blobs.put(b"a session"))
        await work.end()
        patch = PatchRef(base="0" * 40, diff=blob_ref(b"diff"), tree="1" * 40)
        await driver.end(output=Output(structured={"verified": True}), patch=patch)
        return request.task_id

    async def crowd(self, count: int = 1_001, **fields: Any) -> list[str]:
        """So many roots that are younger than all that is there, in line; their ids."""
        told = {
            "agent": "explore",
            "pool": "explore",
            "auth_scope": (),
            "deadline_ms": 600_000,
            "prompt": "x",
            **fields,
        }
        handles = await self.transport.submit([task_request(**told) for _ in range(count)])
        return [handle.task_id for handle in handles]

    @asynccontextmanager
    async def process(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """`python -m orchestrator.service`, from when it says that it has started; for a `served_stage`."""
        settings = self.muster.settings
        told = {
            "MUSTER_REDIS_URL": settings.redis_url,
            "MUSTER_FLEET": settings.fleet,
            "MUSTER_LEASE_S": str(settings.lease_s),
            "MUSTER_STATE_DIR": str(settings.state_dir),
        }
        command, env = (sys.executable, "-m", "orchestrator.service"), {**os.environ, **told}
        process = await asyncio.create_subprocess_exec(*command, env=env, stderr=asyncio.subprocess.PIPE)
        try:
            line = b""
            while b"orchestrator_started" not in line:
                line = await process.stderr.readline()
                assert line, "the service ended before it had started"
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def repository(self, files: Files, *, name: str = "demo") -> RepositoryInput:
        """A commit of a repository; all of one name are of the same one."""
        where = await self.muster.pack(make_repository(self.folder / f"{name}-{next(_fleets)}", files))
        assert where.bundle
        return RepositoryInput(name=name, bundle=where.bundle, base=where.base, origin=f"where {name} is")

    async def run(self, request: TaskRequest) -> TaskResult:
        """The result of a goal or batch, with one orchestrator and the builders at work."""
        async with self.orchestrator(), self.workers():
            handle = await self.muster.submit_repeatable(request)
            [result] = await self.muster.gather([handle])
        return result

    async def batch(self, *repositories: RepositoryInput, text: str = BATCH) -> tuple[TaskResult, BatchReport]:
        result = await self.run(self.batch_request(*repositories, text=text))
        return result, BatchReport.model_validate(result.output.structured)

    def batch_request(self, *repositories: RepositoryInput, text: str = BATCH) -> TaskRequest:
        spec = parse_batch(text, name="batch.toml")
        return batch_request(spec, repositories, settings=self.muster.settings)


def make_repository(root: Path, files: Files) -> Path:
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "LC_ALL": "C"} | IDENTITY
    root.mkdir(parents=True)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for command in (["init", "-q", "-b", "main"], ["add", "--all"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(root), *command], check=True, env=environment)
    return root


@pytest.fixture
def batch_text() -> str:
    return BATCH


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def conductor_redis() -> AsyncIterator[Server]:
    with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
        async with embedded_redis(Path(folder)) as server:
            yield server


@pytest.fixture
def keep_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings without this machine's environment or the user's own file."""
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "none.toml"))
    yield Settings(state_dir=tmp_path / "state")


def make_stage(transport: Transport, settings: Settings, folder: Path) -> Stage:
    builders = Builders(transport, folder / "builders")
    return Stage(transport, Muster(transport, settings), builders, OrchestratorMetrics(), folder)


@pytest.fixture
def memory_stage(keep_settings: Settings, tmp_path: Path) -> Stage:
    return make_stage(
        MemoryTransport(keyring=KEYRING, approval_keys=APPROVALS, limits=Limits(lease_ms=1_000)),
        keep_settings,
        tmp_path,
    )


@asynccontextmanager
async def stage_on(
    server: Server, settings: Settings, folder: Path, limits: Limits = Limits(lease_ms=1_000)
) -> AsyncIterator[Stage]:
    name = f"c{next(_fleets)}"
    transport = await connect_redis(server.url, keyring=KEYRING, approval_keys=APPROVALS, fleet=name, limits=limits)
    try:
        yield make_stage(transport, settings, folder)
    finally:
        await transport.close()


@pytest_asyncio.fixture
async def redis_stage(conductor_redis: Server, keep_settings: Settings, tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage_on(conductor_redis, keep_settings, tmp_path) as made:
        yield made


@pytest_asyncio.fixture
async def served_stage(conductor_redis: Server, keep_settings: Settings, tmp_path: Path) -> AsyncIterator[Stage]:
    """On Redis, with settings that other processes can be given."""
    settings = Settings(
        redis_url=conductor_redis.url, fleet=f"s{next(_fleets)}", lease_s=1.0, state_dir=keep_settings.state_dir
    )
    transport = await connect(settings)
    yield make_stage(transport, settings, tmp_path)
    await transport.close()


ON_REDIS = pytest.param("redis", marks=pytest.mark.redis)


@pytest.fixture(params=[ON_REDIS])
def stage(request: pytest.FixtureRequest) -> Stage:
    """Drivers run real git, so most of their tests meet one transport only: the one that counts."""
    return request.getfixturevalue(f"{request.param}_stage")


@pytest.fixture(params=["memory", ON_REDIS])
def any_stage(request: pytest.FixtureRequest) -> Stage:
    return request.getfixturevalue(f"{request.param}_stage")
