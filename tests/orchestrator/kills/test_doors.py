"""Bad input at every door (command line, API, Python): one sentence, a hint, whose turn it is; and nothing changes."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import uvicorn

from envelope.asks import Reply
from envelope.errors import ExitCode, MusterError
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.api.app import create_app
from orchestrator.api.tokens import Role, Tokens
from orchestrator.asks import ask_to_answer, find_ask
from orchestrator.errors import Answered, BadInput, UnknownName
from orchestrator.planner.files import mode_or_plan
from orchestrator.submit import task_request
from transport.base import Lease, Wait
from transport.errors import Busy, NotFound, Refused

pytestmark = [pytest.mark.redis, pytest.mark.asyncio(loop_scope="module")]

FIELDS = {"agent": "build", "pool": "build", "auth_scope": ("read:**",), "deadline_ms": 600_000}
NEW = {"agent": "build", "prompt": "do it", "deadline_ms": 60_000}
ASK = AskOpened(ask_id="ask_aaaa0001", permission="bash", patterns=("git push",), detail="git push")
STEPS = '{"goal": "x", "steps": [{"step_id": "a", "title": "A", "goal": "Do a", "agent": "build"%s}]}'
HUNDRED_MB = 100_000_000


@dataclass
class Doors:
    scene: Any
    api: str
    secrets: dict[str, str]
    http: aiohttp.ClientSession
    task: str = ""
    trace: str = ""

    @property
    def muster(self):
        return self.scene.muster

    async def call(self, method: str, path: str, *, who: str = "admin", **options: Any) -> tuple[int, dict[str, Any]]:
        path = path.format(task=self.task, trace=self.trace)
        headers = {"Authorization": f"Bearer {self.secrets[who]}"}
        async with self.http.request(method, self.api + path, headers=headers, **options) as answer:
            return answer.status, await answer.json()


@pytest_asyncio.fixture(loop_scope="module")
async def doors(stages):
    folder = stages.folder
    if not (project := folder / "project").exists():
        project.mkdir()
        identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost")
        for words in (["init", "-q"], ["commit", "-qm", "first", "--allow-empty"]):
            subprocess.run(["git", *identity, "-C", str(project), *words], check=True)
    async with stages.scene(2) as scene, aiohttp.ClientSession() as http:
        tokens = Tokens(scene.transport.registry)
        tenants = {"admin": "default", "stranger": "x"}
        secrets = {name: await tokens.create(name, Role.ADMIN, tenant) for name, tenant in tenants.items()}
        server = uvicorn.Server(uvicorn.Config(create_app(scene.muster), port=0, log_config=None, lifespan="off"))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.wait({serving}, timeout=0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Doors(scene, f"http://127.0.0.1:{port}", secrets, http)
        server.should_exit = server.force_exit = True
        await serving


# -- what is the case before


async def running(doors: Doors) -> None:
    request = task_request(**FIELDS)
    await doors.muster.submit(request)
    [claim] = await doors.scene.transport.claim("build", "w", slots=1, wait_s=5)
    await doors.scene.transport.checkpoint(claim.lease, await doors.scene.transport.blobs.put(b"a session"))
    doors.task, doors.trace = request.task_id, request.trace_id


async def asking(doors: Doors) -> None:
    await running(doors)
    transport, record = doors.scene.transport, await doors.muster.record(doors.task)
    lease = Lease(doors.task, doors.trace, "build", "w", record.attempt)
    said = {"trace_id": doors.trace, "task_id": doors.task, "attempt": record.attempt}
    await transport.emit(lease, TaskProgress(**said, seq=0, at_ms=1, status=State.RUNNING, events=(ASK,)))
    assert await transport.park(lease, Wait(asks=frozenset({ASK.ask_id})))


async def answered_by_bob(doors: Doors) -> None:
    await asking(doors)
    await doors.muster.reply(
        await find_ask(doors.scene.transport, ASK.ask_id), Reply(choice="reject", message="no"), by="bob"
    )


async def gone(doors: Doors) -> None:
    await asking(doors)
    await doors.muster.cancel(doors.task, by="bob")


async def nothing(_: Doors) -> None:
    pass


# -- what is then tried


async def answer_in_python(doors: Doors) -> None:
    await doors.muster.reply(await ask_to_answer(doors.scene.transport, ASK.ask_id), Reply(choice="once"), by="ann")


def given_plan(doors: Doors, text: str) -> None:
    (doors.scene.mortals.log.parent / "plan.json").write_text(text)


@dataclass
class Case:
    before: Callable[[Doors], Awaitable[None]]
    python: Callable[[Doors], Awaitable[Any]] | None = None
    raises: type[MusterError] | None = None
    cli: tuple[str, ...] = ()
    sentence: str = ""
    exit_code: int = ExitCode.USAGE
    api: tuple[str, str, Any] | None = None
    status: int = 422
    title: str = ""
    who: str = "admin"
    plan: str = ""


ANSWER = ("POST", f"/v1/asks/{ASK.ask_id}/answer", {"choice": "once"})
RUN = ("run", "x", "--repo", "project", "--detach")
CASES = {
    "an ask that is gone": Case(
        gone,
        python=lambda doors: find_ask(doors.scene.transport, ASK.ask_id),
        raises=BadInput,
        cli=("ask", "answer", ASK.ask_id, "once"),
        sentence="no open ask has an id that ends in",
        api=ANSWER,
        status=404,
        title="no open ask has the id ask_aaaa0001",
    ),
    "an ask that another has answered": Case(
        answered_by_bob,
        python=answer_in_python,
        raises=Answered,
        cli=("ask", "answer", ASK.ask_id, "once"),
        sentence="bob has answered this already",
        api=ANSWER,
        status=409,
        title="bob has answered this already: reject, no",
    ),
    "a session that runs": Case(
        running,
        python=lambda doors: doors.muster.resume(doors.task, "go on"),
        raises=Busy,
        cli=("run", "go on", "--resume", "{task}", "--detach"),
        exit_code=ExitCode.REFUSED,
        sentence="is under way in task",
        api=("POST", "/v1/tasks/{task}/resume", {"prompt": "go on"}),
        status=409,
        title="is under way in task",
    ),
    "an agent that nobody has": Case(
        nothing,
        python=lambda doors: doors.muster.submit(agent="biuld", prompt="x", deadline_ms=60_000),
        raises=UnknownName,
        cli=(*RUN, "--agent", "biuld"),
        sentence="there is no agent 'biuld'",
        api=("POST", "/v1/goals", {"goal": "x", "agent": "biuld"}),
        title="there is no agent 'biuld'",
    ),
    "a key that is not known": Case(
        nothing,
        python=lambda doors: doors.muster.submit(**NEW, budget={"max_cots": 5}),
        raises=BadInput,
        cli=(*RUN, "--plan", "plan.json"),
        sentence="'agnet'",
        plan=STEPS % ', "agnet": "x"',
        api=("POST", "/v1/tasks", {**NEW, "budget": {"max_cots": 5}}),
        title="there is no field 'budget.max_cots'",
    ),
    "a plan that goes in a circle": Case(
        nothing,
        python=lambda doors: asyncio.to_thread(mode_or_plan, str(doors.scene.mortals.log.parent / "plan.json")),
        raises=BadInput,
        cli=(*RUN, "--plan", "plan.json"),
        sentence="wait for each other",
        plan=STEPS % ', "depends_on": ["a"]',
    ),
    "a plan whose agent nobody has": Case(
        nothing,
        cli=(*RUN, "--plan", "plan.json"),
        sentence="'biuld'",
        plan=(STEPS % "").replace("build", "biuld"),
    ),
    "a prompt of 100 MB": Case(
        nothing,
        python=lambda doors: doors.muster.submit(agent="build", prompt="x" * HUNDRED_MB, deadline_ms=60_000),
        raises=Refused,
        api=("POST", "/v1/tasks", {**NEW, "prompt": "x" * HUNDRED_MB}),
        status=413,
        title="larger than",
    ),
    "a task of another tenant": Case(
        asking,
        api=("POST", "/v1/tasks/{task}/cancel", {}),
        who="stranger",
        status=404,
        title="there is no task",
    ),
    "another tenant's ask": Case(asking, api=ANSWER, who="stranger", status=404, title="no open ask has the id"),
    "another tenant's session": Case(
        running,
        api=("POST", "/v1/tasks", {**NEW, "resume_token": "{task}"}),
        who="stranger",
        status=404,
        title="there is no task",
    ),
    "a task that never was": Case(
        nothing,
        python=lambda doors: doors.muster.record("01900000-0000-7000-8000-000000000000"),
        raises=NotFound,
        cli=("task", "cancel", "01900000-0000-7000-8000-000000000000"),
        sentence="there is no task 0190",
        api=("POST", "/v1/tasks/01900000-0000-7000-8000-000000000000/cancel", {}),
        status=404,
        title="there is no task",
    ),
}


def changed(before: dict[bytes, Any], after: dict[bytes, Any]) -> set[bytes]:
    return {key for key in before | after if before.get(key) != after.get(key)}


@pytest.mark.parametrize("name", CASES)
async def test_what_cannot_be_is_refused_at_every_door_and_changes_nothing(doors: Doors, name: str):
    case = CASES[name]
    await case.before(doors)
    given_plan(doors, case.plan)
    state = await doors.scene.state()

    if case.cli:
        words = [word.format(task=doors.task) for word in case.cli]
        code = await doors.scene.mortals.live("muster", doors.scene.env, words=words)
        said = doors.scene.mortals.log.read_text()
        assert (code, changed(state, await doors.scene.state())) == (case.exit_code, set()), said
        assert re.search(rf"^error: [^\n]*{re.escape(case.sentence)}[^\n]*\nhint: [^\n]+\n\Z", said, re.MULTILINE), said
    if case.api:
        method, path, body = case.api
        told = {key: value.format(task=doors.task) if key == "resume_token" else value for key, value in body.items()}
        status, problem = await doors.call(method, path, who=case.who, json=told)
        assert (status, case.title in problem["title"], problem["status"]) == (case.status, True, status), problem
        # what was sent counts as sent, whatever comes of it
        assert {key for key in changed(state, await doors.scene.state()) if b":uploads:" not in key} == set()
    if case.python:
        if case.raises:
            with pytest.raises(case.raises) as refusal:
                await case.python(doors)
            assert refusal.value.hint
        else:
            await case.python(doors)
        # what was sent counts as sent, whatever comes of it
        assert {key for key in changed(state, await doors.scene.state()) if b":uploads:" not in key} == set()


async def test_of_two_who_answer_at_once_both_hear_of_the_same_answer(doors: Doors):
    await asking(doors)
    one = await find_ask(doors.scene.transport, ASK.ask_id)
    (told, _), stood = await asyncio.gather(
        doors.call("POST", f"/v1/asks/{ASK.ask_id}/answer", json={"choice": "once"}),
        doors.muster.reply(one, Reply(choice="reject", message="no"), by="bob"),
        return_exceptions=True,
    )
    [standing] = (await doors.scene.transport.answers(doors.task)).values()
    if standing.by == "bob":
        assert (told, stood) == (409, standing)
    else:
        assert told == 200
        assert isinstance(stood, Answered)
        assert stood.by == standing.by
    assert await doors.scene.decisions() == [("answer", doors.task)]
