"""A real worker for tests: embedded Redis, a Docker engine, repositories made by git, a scripted model over HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from envelope.events import Event
from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskInput, TaskProgress, TaskRequest, TaskResult, Workspace
from envelope.skills import LOCK_NAME, Pin, SkillLock, lock_text, read_lock
from repo.bundle import bundle
from repo.folder import digest_of, entries_in
from sandbox.base import SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.image.build import build_image
from tests.workers.prefixes import changed_prefixes
from transport import approvals
from transport.base import Transport
from transport.consumer import Consumer
from transport.embedded import Server, embedded_redis
from transport.keyring import fresh
from transport.redis import connect_redis
from workers.agent_task.task import AgentTasks
from workers.agents.registry import builtin, parse_agent
from workers.delivery.runner import Runner
from workers.llm.script import load_script
from workers.llm.scripted_server import ScriptedServer
from workers.metrics import WorkerMetrics
from workers.service import make_runner
from workers.settings import WorkerSettings
from workers.subagents.children import PARK_AFTER_S
from workers.tools.base import ChildRequest, ToolContext

KEYRING = fresh()
APPROVALS = approvals.fresh()
MODEL = "openai/scripted"
PRICES = {MODEL: {"input": 1_000_000, "output": 2_000_000}}  # micro-dollars for a million tokens
IDENTITY = {f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_fleets = itertools.count()
AGENT_KIT = Path(__file__).parent / "agent" / "agent_kit.py"


@pytest.fixture(scope="session")
def image() -> str:
    tag = "muster-sandbox:latest"
    asyncio.run(build_image(tag))
    return tag


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def redis_server() -> AsyncIterator[Server]:
    with tempfile.TemporaryDirectory(prefix="muster-workers-") as folder:
        async with embedded_redis(Path(folder)) as server:
            yield server


@pytest.fixture
async def transport(redis_server: Server) -> AsyncIterator[Transport]:
    connected = await connect_redis(
        redis_server.url, keyring=KEYRING, approval_keys=APPROVALS, fleet=f"workers-{next(_fleets)}"
    )
    yield connected
    await connected.close()


@pytest.fixture
async def stranger(redis_server: Server, transport: Any) -> AsyncIterator[Transport]:
    """The same fleet, for somebody who has its Redis password and no key of it."""
    connected = await connect_redis(redis_server.url, keyring=fresh(), fleet=transport.fleet)
    yield connected
    await connected.close()


@pytest.fixture
def owner() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def containers_of_task(engine_holds: Callable[[str, str], list[str]]) -> Callable[[str], list[str]]:
    return lambda task_id: engine_holds("containers", f"muster.task={task_id}")


@pytest.fixture
async def driver(
    tmp_path: Path, owner: str, engine_holds: Callable[[str, str], list[str]]
) -> AsyncIterator[DockerDriver]:
    async with DockerDriver(tmp_path / "state", owner) as opened:
        yield opened
    assert engine_holds("containers", f"muster.owner={owner}") == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small package with tests of its own, under git."""
    root = tmp_path / "project"
    files = {
        "src/greet.py": "def greet(name):\n    return 'Hello %s' % name\n",
        "src/other.py": "X = 1\n",
        "tests/test_greet.py": (
            "import sys\nsys.path.insert(0, 'src')\nfrom greet import greet\n\n\n"
            "def test_greet():\n    assert greet('a') == 'Hello a'\n\n\n"
            "def test_again():\n    assert greet('b') == 'Hello b'\n"
        ),
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "start")
    return root


def git(root: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "LC_ALL": "C"} | IDENTITY
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
async def workspace(repository: Path, transport: Transport, tmp_path: Path) -> Workspace:
    """The repository as it travels: a bundle among the blobs."""
    return await packed(repository, transport, tmp_path)


async def packed(repository: Path, transport: Transport, folder: Path) -> Workspace:
    head = git(repository, "rev-parse", "HEAD")
    file = folder / f"{head}.bundle"
    await bundle(repository, head, file)
    return Workspace(bundle=await transport.blobs.put(file.read_bytes()), base=head)


@pytest.fixture
def pack(repository: Path, transport: Transport, tmp_path: Path) -> Callable[..., Awaitable[Workspace]]:
    """`await pack({path: text})`: the repository with these files, and all that a test put there, as it travels."""

    async def committed(files: Mapping[str, str] | None = None) -> Workspace:
        for name, content in (files or {}).items():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / name).write_text(content)
        git(repository, "add", "--all", "--force")
        git(repository, "commit", "--quiet", "-m", "more")
        return await packed(repository, transport, tmp_path)

    return committed


@pytest.fixture
def user_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the worker's user has configuration, instructions, skills and commands: nothing yet."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("MUSTER_CONFIG", str(folder / "config.toml"))
    return folder


@pytest.fixture
def pin_skill(user_dir: Path) -> Callable[[Path], None]:
    """Pins a skill of the user's as it is now; `muster skills add` does the same."""

    def pin(folder: Path) -> None:
        lock = user_dir / LOCK_NAME
        pins = read_lock(lock.read_bytes()).skills if lock.exists() else {}
        key = folder.relative_to(user_dir / "skills").as_posix()
        made = Pin(name=folder.name, sha256=digest_of(entries_in(folder)))
        lock.write_text(lock_text(SkillLock(skills={**pins, key: made})))

    return pin


@dataclass
class Hands:
    """A worker on all pools, and a way to send it tasks. `stop` drains it: what runs is given back."""

    transport: Transport
    runner: Runner
    metrics: WorkerMetrics
    stop: Callable[[], Awaitable[None]]

    def request(self, **fields: Any) -> TaskRequest:
        defaults: dict[str, Any] = {
            "task_id": new_task_id(),
            "trace_id": new_trace_id(),
            "sender": "test",
            "recipient": "build",
            "agent": "recipe",
            "auth_scope": ("edit:**", "bash:**", "read:**"),
            "deadline_ms": 120_000,
            "created_at_ms": time.time_ns() // 1_000_000,
        }
        return TaskRequest(**{**defaults, **fields})

    def recipe(self, *commands: str, **fields: Any) -> TaskRequest:
        return self.request(**{"input": TaskInput(params={"commands": list(commands)}), **fields})

    async def result(self, request: TaskRequest) -> TaskResult:
        await self.transport.submit([request])
        return await self.ended(request.task_id)

    async def ended(self, task_id: str) -> TaskResult:
        async for result in self.transport.results([task_id]):
            return result
        raise AssertionError("no result")

    async def until(self, trace_id: str, seen: Callable[[TaskProgress], bool], *, after: str = "0") -> str:
        """Follow the trace until a progress is seen; its id in the stream."""
        async with asyncio.timeout(60):
            async for entry in self.transport.follow(trace_id, after=after):
                if isinstance(entry.message, TaskProgress) and seen(entry.message):
                    return entry.id
        raise AssertionError("the trace ended before")

    async def events(self, trace_id: str, kind: str = "", *, task_id: str = "") -> list[Event]:
        """All events of a trace that has ended; those of one kind, or of one of its tasks."""
        return [
            event
            async for entry in self.transport.follow(trace_id)
            if isinstance(entry.message, TaskProgress) and task_id in ("", entry.message.task_id)
            for event in entry.message.events
            if kind in ("", event.kind)
        ]

    async def diff(self, result: TaskResult) -> str:
        assert result.patch is not None
        return (await self.transport.blobs.get(result.patch.diff)).decode()


StartHands = Callable[..., Awaitable[Hands]]


@pytest.fixture
async def start_hands(
    transport: Transport, driver: DockerDriver, image: str, tmp_path: Path
) -> AsyncIterator[StartHands]:
    """`await start_hands(model=…)`: consumers for the three pools over one runner; all stopped at the end.

    `slots` are of each pool; `agents` (text of their files, by name) are known beside the builtin ones;
    `park_after_s` is how long callers wait for their subagents before they are parked.
    """
    async with AsyncExitStack() as stack:

        async def start(
            *,
            slots: int = 4,
            agents: Mapping[str, str] | None = None,
            park_after_s: float = PARK_AFTER_S,
            **settings: Any,
        ) -> Hands:
            # a title is a request more, which no script of these tests foresees
            told = WorkerSettings(state_dir=tmp_path / "state", image=image, **{"titles": False, **settings})
            metrics = WorkerMetrics("build", known_models=(told.model,))
            known = {**builtin(), **{name: parse_agent(name, text) for name, text in (agents or {}).items()}}
            runner = make_runner(told, transport, driver, metrics, agents=known)
            kit = replace(runner.agent_tasks.kit, park_after_s=park_after_s)
            runner = replace(runner, agent_tasks=AgentTasks(kit))
            consumers = await stack.enter_async_context(AsyncExitStack())
            for pool in ("build", "explore", "general"):
                await consumers.enter_async_context(_consuming(transport, pool, runner, slots))
            return Hands(transport, runner, metrics, consumers.aclose)

        yield start


@asynccontextmanager
async def _consuming(transport: Transport, pool: str, runner: Runner, slots: int) -> AsyncIterator[None]:
    stop = asyncio.Event()
    worker = f"test-{pool}-{uuid.uuid4().hex[:6]}"
    consumer = Consumer(
        transport, pool=pool, worker=worker, slots=slots, handle=runner.handle, on_event=runner.metrics.observe
    )
    serving = asyncio.create_task(consumer.run(stop))
    yield
    stop.set()
    await serving


@pytest.fixture
async def hands(start_hands: StartHands) -> Hands:
    return await start_hands()


StartAgents = Callable[..., Awaitable[tuple[Hands, ScriptedServer]]]


@pytest.fixture
def start_agents(
    start_hands: StartHands, serve: Callable[[str], Awaitable[ScriptedServer]], user_dir: Path
) -> StartAgents:
    """`await start_agents(script, …)`: a worker whose model answers from the script, and the model's server.

    The settings are those of `start_hands`: with `model_base_url` a worker shares another's model. What the user of
    this machine has configured counts for none of them.
    """

    async def start(script: str, **settings: Any) -> tuple[Hands, ScriptedServer]:
        server = await serve(script)
        told = {"model": MODEL, "model_base_url": server.base_url, "model_api_key": "unused-key", "prices": PRICES}
        return await start_hands(**{**told, **settings}), server

    return start


@dataclass
class NoChildren:
    """For tools that start nobody."""

    asked: list[ChildRequest] = field(default_factory=list)

    def catalogue(self) -> dict[str, str]:
        return {}

    def in_background(self, agent: str) -> bool:
        raise AssertionError("this test starts no subagent")

    async def start(self, request: ChildRequest) -> str:
        raise AssertionError("this test starts no subagent")

    async def sent_to_background(self, task_ids: Sequence[str]) -> Sequence[str]:
        raise AssertionError("this test starts no subagent")

    async def ended(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        raise AssertionError("this test starts no subagent")

    async def tell(self, session: str, text: str) -> bool:
        raise AssertionError("this test starts no subagent")

    async def ended_by_now(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        raise AssertionError("this test starts no subagent")


@pytest.fixture
async def context(driver: DockerDriver, image: str) -> AsyncIterator[ToolContext]:
    """Tools on a real, empty sandbox."""
    async with await driver.open(SandboxSpec(image)) as sandbox:

        async def opened() -> Any:
            return sandbox

        yield ToolContext(opened, NoChildren(), {})


@pytest.fixture
async def serve(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[str], Awaitable[ScriptedServer]]]:
    """`await serve(script)` gives a running model server; all are stopped at the end.

    No test may change what a model was shown, but for those that are marked: providers would refuse its thoughts.
    """
    servers: list[ScriptedServer] = []
    async with AsyncExitStack() as stack:

        async def start(script: str) -> ScriptedServer:
            servers.append(await stack.enter_async_context(ScriptedServer(load_script(script))))
            return servers[-1]

        yield start
    if request.node.get_closest_marker("rewrites_history") is None:
        assert [change for server in servers for change in changed_prefixes(server.log.bodies)] == []


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def serve_pages() -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """`await serve_pages(answer)`: the port of a web server on loopback; all are stopped at the end."""
    async with AsyncExitStack() as stack:

        async def start(answer: Answer, *, tls: ssl.SSLContext | None = None) -> int:
            app = web.Application()
            app.router.add_get("/{path:.*}", answer)
            runner = web.AppRunner(app, shutdown_timeout=0)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            listener = socket.create_server(("127.0.0.1", 0))
            await web.SockSite(runner, listener, ssl_context=tls).start()
            return listener.getsockname()[1]

        yield start


@pytest.fixture(scope="session")
def kit() -> ModuleType:
    """`agent_kit.py`, which a fresh process runs as a program, too."""
    spec = importlib.util.spec_from_file_location("agent_kit", AGENT_KIT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["agent_kit"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[..., None]:
    """`install(source, name="module:Class")`: a package with these hooks beside the worker's own."""
    folder = tmp_path / "site"
    module = f"hooks_of_{abs(hash(request.node.nodeid))}"

    def put(source: str, **points: str) -> None:
        info = folder / f"{module}-1.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        lines = "\n".join(f"{name} = {module}:{attribute}" for name, attribute in points.items())
        (info / "entry_points.txt").write_text(f"[muster.hooks]\n{lines}\n")
        monkeypatch.syspath_prepend(folder)

    return put
