"""A session that goes on is proved on the terms that it was begun on: against its base, and what was verified last."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from typing import Any

import pytest
from redis.asyncio import Redis

from envelope.agents import AgentCard, WorkerCard
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.gate import GateRules
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import TaskRequest, TaskResult, Workspace
from orchestrator.acp.book import Kept
from orchestrator.acp.goals import Terms, desk_of, goal_of
from orchestrator.acp.prompts import Prompt
from orchestrator.batch.formats import FORMATS
from orchestrator.cli.reports import report_for
from orchestrator.cli.summary import summary_of_run
from orchestrator.goal_session import GONE, LOST
from orchestrator.prompting import listener, session_of
from orchestrator.read_only import READS_ONLY
from orchestrator.resume import WITHOUT
from orchestrator.session.fold import Session
from orchestrator.submit import DRIVERS, RUN, VERIFY, GoalParams, goal_request, params_of, task_request
from transport.base import Handle
from transport.consumer import Delivery
from transport.embedded import Server

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
FILES = {"a.py": "old\n", "tests/test_a.py": "assert\nassert\n"}
GATE = ("run-tests",)

Files = dict[str, str]
Edit = Callable[[Files], object]


def writes(path: str, text: str) -> Edit:
    return lambda files: files.update({path: text})


def reads(_files: Files) -> None: ...


@dataclass
class Sessions:
    """Plays agents whose sessions go on: each prompt is done by the next of `edits`, on what those before have left."""

    stage: Any
    edits: list[Edit] = field(default_factory=list)
    past: dict[str, list[Files]] = field(default_factory=dict)

    def edit(self, task: TaskRequest, files: Files) -> None:
        past = self.past.setdefault(task.resume_token or task.task_id, [dict(files)])
        if task.input.params.get("undo"):
            past.pop()
        else:
            past.append(dict(past[-1]))
            self.edits.pop(0)(past[-1])
        files.clear()
        files.update(past[-1])

    async def handle(self, delivery: Delivery) -> TaskResult:
        """With a checkpoint, without which the queue knows of no session."""
        if delivery.request.agent != VERIFY:
            blob = await self.stage.transport.blobs.put(delivery.request.task_id.encode())
            await self.stage.transport.checkpoint(delivery.claim.lease, blob)
        return await self.stage.builders.handle(delivery)


@pytest.fixture
def sessions(stage, monkeypatch) -> Sessions:
    played = Sessions(stage)
    stage.builders.edit = played.edit
    monkeypatch.setattr(stage, "workers", lambda: stage.serving("build", played.handle))
    return played


@pytest.fixture
def begin(stage, sessions):
    """A goal with one edit; its result."""

    async def run(edit: Edit, *, files: Files = FILES, gate: tuple[str, ...] = GATE, **fields) -> TaskResult:
        given = await stage.repository(files)
        told = {"workspace": Workspace(bundle=given.bundle, base=given.base), "gate": gate, **fields}
        sessions.edits.append(edit)
        return await stage.run(goal_request("Begin", agent=BUILD, settings=stage.muster.settings, **told))

    return run


@pytest.fixture
def go_on(stage, sessions):
    """One more prompt, with one edit; its result. `by`: through which door."""

    async def run(
        task_id: str, edit: Edit, *, by: Callable[..., Awaitable[Handle]] | None = None, **said
    ) -> TaskResult:
        sessions.edits.append(edit)
        async with stage.orchestrator(), stage.workers():
            handle = await (by or stage.muster.resume)(task_id, "More", **said)
            [result] = await stage.muster.gather([handle])
        return result

    return run


def gate_runs(stage) -> list[TaskRequest]:
    return [task for task in stage.builders.started if task.agent == VERIFY]


def told(result: TaskResult) -> tuple[bool, str]:
    return result.output.structured["verified"], result.output.structured["reason"]


async def say_in_editor(stage, task_id: str, text: str) -> Handle:
    """As `muster acp` does with a session's later prompt, without any option."""
    await stage.transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=(BUILD,)), ttl_s=60)
    agent = await listener(stage.transport, task_id)
    [root] = stage.folder.glob("demo-*")
    desk = await desk_of(stage.muster, str(root), agent.workspace)
    where = {"session_id": new_task_id(), "cwd": str(root), "root": str(root), "mode": "build"}
    kept = Kept(**where, tasks=(task_id,), session=session_of(agent), near=agent.trace_id)
    return await stage.muster.submit(await goal_of(stage.muster, kept, desk, Prompt(text, ()), Terms(), print))


DOORS = {
    "resume": lambda stage: stage.muster.resume,
    "prompt": lambda stage: stage.muster.prompt,
    "editor": lambda stage: partial(say_in_editor, stage),
}


@pytest.mark.parametrize("door", DOORS)
async def test_a_session_that_goes_on_is_proved_by_the_gate_that_it_was_begun_with(stage, begin, go_on, door: str):
    rules = GateRules(reruns=0, protect=("golden/**",))
    budget = Budget(max_cost_microusd=7)
    first = await begin(writes("a.py", "new\n"), gate_rules=rules, budget=budget, deadline_ms=77_000, min_tests=2)

    second = await go_on(first.task_id, writes("b.py", "more\n"), by=DOORS[door](stage))

    assert (second.errors, told(second)) == ((), (True, ""))
    request = await stage.muster.request(second.task_id)
    params = params_of(GoalParams, request)
    assert (request.agent, request.recipient, request.input.prompt) == (RUN, DRIVERS, "More")
    assert (params.gate, params.gate_rules, params.min_tests) == (GATE, rules, 2)
    assert (request.budget, request.deadline_ms) == (budget, 77_000)
    assert request.workspace == (await stage.muster.request(first.task_id)).workspace
    assert {file.path for file in second.patch.files} == {"a.py", "b.py"}
    agent = stage.builders.shards_started()[-1]
    assert (agent.auth_scope, agent.parent_task_id) == (BUILD.auth_scope, second.task_id)


async def test_a_copy_that_only_looks_has_no_gate_and_says_so(stage, begin, sessions):
    first = await begin(writes("a.py", "new\n"))
    looking = stage.muster.read_only()
    sessions.edits.append(reads)
    async with stage.orchestrator(), stage.workers():
        [copy] = await stage.muster.gather([await looking.fork(first.task_id)])
        sessions.edits.append(reads)
        [second] = await stage.muster.gather([await looking.resume(copy.task_id, "and why?")])

    assert (second.errors, told(second)) == ((), (False, READS_ONLY))


async def test_a_prompt_that_breaks_the_tests_is_rejected(begin, go_on):
    first = await begin(writes("a.py", "new\n"))

    second = await go_on(first.task_id, writes("a.py", "fail\n"))

    assert [error.code for error in second.errors] == [ErrorCode.GATE_FAILED]
    assert second.patch is not None


async def test_a_test_that_a_verified_prompt_added_is_missed(begin, go_on):
    first = await begin(writes("tests/test_b.py", "assert\n"))

    second = await go_on(first.task_id, writes("tests/test_b.py", "\n"))

    [error] = second.errors
    assert error.code is ErrorCode.GATE_FAILED
    assert error.message == "since what was verified last: the gate ran 2 tests, fewer than the 3 before"


async def test_so_it_is_where_the_repository_is_fetched_from_an_address(stage, begin, go_on, monkeypatch):
    given = await stage.repository(FILES)
    packed = Workspace(bundle=given.bundle, base=given.base)
    real = stage.builders._workspace

    async def fetched(task: TaskRequest):
        mirror, _ = await real(task.model_copy(update={"workspace": packed}))
        return mirror, task.workspace

    monkeypatch.setattr(stage.builders, "_workspace", fetched)
    where = Workspace(url="https://code.example/demo.git", base=given.base)
    first = await begin(writes("tests/test_b.py", "assert\n"), workspace=where)

    second = await go_on(first.task_id, writes("tests/test_b.py", "\n"))

    assert second.errors[0].message == "since what was verified last: the gate ran 2 tests, fewer than the 3 before"


async def test_a_test_that_a_verified_prompt_added_holds_as_it_was(stage, begin, go_on):
    def tests(files: Files):
        strict = "strict" in files.get("tests/test_b.py", "")
        fails = int(strict and files["a.py"] == "worse\n")
        return {"passed": 3 - fails, "failed": fails, "errors": 0, "skipped": 0}

    stage.builders.tests = tests
    first = await begin(writes("tests/test_b.py", "strict\n"))

    second = await go_on(first.task_id, lambda files: files.update({"a.py": "worse\n", "tests/test_b.py": "lax\n"}))

    assert [one["code"] for one in second.output.structured["evidence"]["objections"]] == ["tests_edited"]
    assert second.errors[0].message.startswith("since what was verified last: the change edits tests/test_b.py, and")


async def forget_blob(server: Server, ref: str) -> None:
    async with Redis(unix_socket_path=server.url.removeprefix("unix://")) as client:
        assert await client.delete(*[key async for key in client.scan_iter(match=f"*:blob:{ref}")])


async def test_where_what_was_verified_is_gone_every_form_says_that_the_base_alone_counted(
    stage, conductor_redis, begin, go_on
):
    first = await begin(writes("tests/test_b.py", "assert\n"))
    await forget_blob(conductor_redis, first.patch.diff)

    second = await go_on(first.task_id, writes("tests/test_b.py", "\n"))

    assert told(second) == (True, GONE)
    view = Session.of(second.task_id, second.trace_id, agent=RUN)
    assert summary_of_run(view, second, cap_microusd=None).headline == f"✔ verified: {GONE}"
    report = await report_for(stage.muster, second)
    assert all(f"verified: {GONE}" in unescape(FORMATS[form](report)) for form in ("markdown", "junit", "sarif"))
    assert json.loads(FORMATS["jsonl"](report).splitlines()[0])["reason"] == GONE


async def test_so_it_does_where_the_work_was_taken_back_to_the_middle_of_a_prompt(stage, begin, sessions, go_on):
    first = await begin(writes("a.py", "new\n"))
    session = session_of(await listener(stage.transport, first.task_id))
    sessions.past[session] += [{**sessions.past[session][-1], "a.py": "in the middle\n"}, {}]
    async with stage.orchestrator(), stage.workers():
        await stage.muster.gather([await stage.muster.prompt(first.task_id, "/undo")])

    second = await go_on(first.task_id, writes("b.py", "more\n"))

    assert (second.errors, told(second)) == ((), (True, LOST))


async def test_after_a_rejected_prompt_the_one_before_it_counts(begin, go_on):
    first = await begin(writes("tests/test_b.py", "assert\n"))
    await go_on(first.task_id, writes("a.py", "fail\n"))

    lost = await go_on(first.task_id, lambda files: files.update({"a.py": "old\n", "tests/test_b.py": "\n"}))
    mended = await go_on(lost.task_id, writes("tests/test_b.py", "assert\nassert\n"))

    assert "since what was verified last" in lost.errors[0].message
    assert (mended.errors, told(mended)) == ((), (True, ""))


async def test_what_was_verified_last_is_known_by_its_run_and_not_run_again(stage, begin, go_on):
    first = await begin(writes("a.py", "new\n"))
    earlier = len(gate_runs(stage))

    second = await go_on(first.task_id, writes("b.py", "more\n"))

    assert [run.workspace.changes for run in gate_runs(stage)[earlier:]] == [second.patch.diff]
    seen = [(run["phase"], run["about"]) for run in second.output.structured["evidence"]["runs"]]
    assert seen == [("before", ""), ("after", ""), ("before", "what was verified last")]


async def test_under_another_gate_what_was_verified_last_is_run_with_it(stage, begin, go_on):
    first = await begin(writes("a.py", "new\n"))
    earlier = len(gate_runs(stage))

    second = await go_on(first.task_id, writes("b.py", "more\n"), gate=("other-tests",))

    runs = gate_runs(stage)[earlier:]
    assert [tuple(run.input.params["commands"]) for run in runs] == [("other-tests",)] * 3
    assert first.patch.diff in {run.workspace.changes for run in runs}
    assert told(second) == (True, "")


async def test_a_prompt_that_only_reads_is_as_verified_as_what_it_read(stage, begin, go_on):
    first = await begin(writes("a.py", "new\n"))

    second = await go_on(first.task_id, reads)

    assert (second.errors, told(second)) == ((), (True, ""))
    assert "nothing was changed since" in second.output.structured["evidence"]["notes"][-1]
    assert second.patch.diff == first.patch.diff
    assert [run.workspace.changes for run in gate_runs(stage)].count(first.patch.diff) == 1


async def test_a_prompt_that_only_reads_verifies_nothing_that_was_rejected(begin, go_on):
    first = await begin(writes("a.py", "fail\n"))

    second = await go_on(first.task_id, reads)

    assert [error.code for error in second.errors] == [ErrorCode.GATE_FAILED]


def takes_out(*paths: str) -> Edit:
    return lambda files: [files.pop(path) for path in paths]


async def test_a_prompt_that_takes_out_all_work_says_so(stage, begin, go_on):
    first = await begin(writes("b.py", "new\n"))
    earlier = len(gate_runs(stage))

    second = await go_on(first.task_id, takes_out("b.py"))

    assert (second.status, second.errors, second.patch) == (State.COMPLETED, (), None)
    assert told(second) == (False, "all that the session had changed was taken out again: nothing is left to verify")
    assert second.output.structured["gate"]["after"]["tests"] == 2  # the base's
    assert len(gate_runs(stage)) == earlier


async def test_a_prompt_that_takes_out_a_verified_test_with_all_else_is_rejected(begin, go_on):
    first = await begin(writes("tests/test_b.py", "assert\n"))

    second = await go_on(first.task_id, takes_out("tests/test_b.py"))
    third = await go_on(first.task_id, writes("b.py", "new\n"))

    words = "since what was verified last: the gate ran 2 tests, fewer than the 3 before"
    assert [error.code for error in second.errors] == [ErrorCode.GATE_FAILED]
    assert (second.errors[0].message, third.errors[0].message) == (words, words)
    assert second.output.structured["evidence"]["result"] == "rejected"


@pytest.mark.parametrize("edit", [writes("tests/test_b.py", "\n"), takes_out("tests/test_b.py")], ids=["less", "all"])
async def test_a_verified_test_may_go_where_a_grant_names_it(begin, go_on, edit):
    first = await begin(writes("tests/test_b.py", "assert\n"))

    second = await go_on(first.task_id, edit, allow=("edit:tests/**",))
    third = await go_on(second.task_id, writes("b.py", "new\n"))

    assert (second.errors, third.errors, told(third)) == ((), (), (True, ""))
    assert any(
        note.startswith("since what was verified last: ") for note in second.output.structured["evidence"]["notes"]
    )


async def test_a_grant_of_other_tests_lifts_nothing(begin, go_on):
    first = await begin(writes("tests/test_b.py", "assert\n"))

    second = await go_on(first.task_id, writes("tests/test_b.py", "\n"), allow=("edit:tests/test_a.py",))

    assert "since what was verified last" in second.errors[0].message


async def test_a_session_that_was_begun_without_a_gate_says_that_it_has_none(begin, go_on):
    first = await begin(writes("a.py", "new\n"), gate=())

    second = await go_on(first.task_id, writes("b.py", "more\n"))

    assert (second.status, told(second)) == (State.COMPLETED, (False, WITHOUT))


async def test_a_gate_that_is_given_later_holds_from_then_on(begin, go_on):
    first = await begin(writes("a.py", "new\n"), gate=())

    second = await go_on(first.task_id, writes("b.py", "more\n"), gate=GATE)
    third = await go_on(first.task_id, writes("a.py", "fail\n"))

    assert told(second) == (True, "")
    assert [error.code for error in third.errors] == [ErrorCode.GATE_FAILED]


async def test_work_that_was_taken_back_is_not_missed(stage, begin, go_on):
    first = await begin(writes("a.py", "new\n"))
    second = await go_on(first.task_id, writes("tests/test_b.py", "assert\n"))
    async with stage.orchestrator(), stage.workers():
        [undone] = await stage.muster.gather([await stage.muster.prompt(second.task_id, "/undo")])
    assert undone.patch.tree == first.patch.tree

    third = await go_on(first.task_id, writes("b.py", "more\n"))

    assert (third.errors, told(third)) == ((), (True, ""))
    verified = params_of(GoalParams, await stage.muster.request(third.task_id)).history
    assert [change.goal for change in verified] == [first.task_id]


async def test_taking_back_is_no_way_past_what_was_verified(stage, begin, go_on):
    first = await begin(writes("tests/test_b.py", "assert\n"))
    await go_on(first.task_id, writes("tests/test_b.py", "\n"))  # rejected
    await go_on(first.task_id, writes("a.py", "new\n"))
    async with stage.orchestrator(), stage.workers():
        await stage.muster.gather([await stage.muster.prompt(first.task_id, "/undo")])

    last = await go_on(first.task_id, writes("b.py", "more\n"))

    assert last.errors[0].message == "since what was verified last: the gate ran 2 tests, fewer than the 3 before"


async def test_a_goal_that_was_cancelled_goes_on_with_its_gate(stage, begin, go_on, sessions):
    given = await stage.repository(FILES)
    workspace = Workspace(bundle=given.bundle, base=given.base)
    settings = stage.muster.settings
    sessions.edits.append(writes("a.py", "new\n"))
    proving = asyncio.Event()

    async def stop_at_proof(task: TaskRequest) -> None:
        if task.workspace.changes and not proving.is_set():
            proving.set()
            await asyncio.Event().wait()

    stage.builders.before_start = stop_at_proof
    async with stage.orchestrator(), stage.workers():
        handle = await stage.muster.submit(
            goal_request("Begin", agent=BUILD, settings=settings, workspace=workspace, gate=GATE)
        )
        await proving.wait()
        await stage.muster.cancel(handle.task_id)
        [first] = await stage.muster.gather([handle])

    second = await go_on(first.task_id, writes("b.py", "more\n"), by=lambda task_id, _: stage.muster.resume(task_id))

    assert (first.status, told(second)) == (State.CANCELLED, (True, ""))
    request = await stage.muster.request(second.task_id)
    assert (request.input.prompt, request.intent) == ("", "Begin")


@pytest.mark.parametrize("killed_at", ["build", "verify"])
async def test_a_driver_that_goes_away_is_followed_by_one_that_knows_what_was_verified(
    stage, begin, sessions, killed_at: str
):
    first = await begin(writes("tests/test_b.py", "assert\n"))
    sessions.edits.append(writes("tests/test_b.py", "\n"))
    under_way, may_go_on = asyncio.Event(), asyncio.Event()

    async def hold(task: TaskRequest) -> None:
        if task.agent == killed_at and not under_way.is_set():
            under_way.set()
            await may_go_on.wait()

    stage.builders.before_start = hold
    async with stage.workers():
        async with stage.orchestrator():
            handle = await stage.muster.resume(first.task_id, "More")
            await under_way.wait()
        may_go_on.set()
        async with stage.orchestrator():
            [second] = await stage.muster.gather([handle])

    assert "since what was verified last" in second.errors[0].message
    assert [task.parent_task_id for task in stage.builders.shards_started()] == [first.task_id, second.task_id]


async def test_prompts_to_one_session_are_done_in_turn_and_each_sees_what_was_verified(stage, begin, sessions):
    first = await begin(writes("a.py", "new\n"))
    sessions.edits += [writes("tests/test_b.py", "assert\n"), writes("tests/test_b.py", "\n")]
    handles = [await stage.muster.prompt(first.task_id, "one"), await stage.muster.prompt(first.task_id, "two")]

    async with stage.orchestrator(), stage.workers():
        results = list(await stage.muster.gather(handles))

    failed = [result for result in results if result.errors]
    assert [told(result)[0] for result in results if not result.errors] == [True]
    assert ["fewer than the 3 before" in result.errors[0].message for result in failed] == [True]


async def test_hidden_tests_stay_hidden_and_stay_the_gate(stage, sessions, go_on, tmp_path):
    root = tmp_path / "suite"
    git = ("git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@localhost")
    root.mkdir()
    subprocess.run([*git[:3], "init", "-q"], check=True)
    places = []
    for files in (FILES, {"tests/test_hidden.py": "assert\n"}):
        for path, text in files.items():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text(text)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "files"], check=True)
        places.append(await stage.muster.pack(root))
    settings = stage.muster.settings
    request = goal_request("Begin", agent=BUILD, settings=settings, workspace=places[0], gate=GATE)
    hidden = {"hidden": {"bundle": places[1].bundle, "base": places[1].base}}
    told_so = request.input.model_copy(update={"params": {**request.input.params, **hidden}})
    sessions.edits.append(writes("tests/test_b.py", "assert\n"))
    first = await stage.run(request.model_copy(update={"input": told_so}))

    same = await go_on(first.task_id, reads)
    lost = await go_on(first.task_id, writes("tests/test_b.py", "\n"))

    assert [told(result) for result in (first, same)] == [(True, "")] * 2
    assert lost.errors[0].message == "since what was verified last: the gate ran 3 tests, fewer than the 4 before"
    assert all("tests/test_hidden.py" not in files for past in sessions.past.values() for files in past)


async def test_a_word_to_an_agent_at_work_is_proved_with_its_goal(stage, begin, sessions):
    async def said(task: TaskRequest) -> None:
        if task.agent != VERIFY and len(sessions.edits) == 2:
            assert (await stage.muster.prompt(task.parent_task_id, "and break it")).existing

    stage.builders.before_start = said
    sessions.edits.append(writes("a.py", "new\n"))  # and again, once the word is there

    result = await begin(writes("a.py", "fail\n"))

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]


async def plain(stage, **fields) -> TaskResult:
    """An agent's task of no goal, as programs submit it."""
    given = await stage.repository(FILES)
    workspace = Workspace(bundle=given.bundle, base=given.base)
    known = {"agent": "build", "pool": "build", "deadline_ms": 60_000, "auth_scope": BUILD.auth_scope}
    async with stage.workers():
        return await stage.muster.run(**{**known, "prompt": "work", "workspace": workspace, **fields})


async def test_an_agents_own_session_goes_on_as_it_was_and_with_a_gate_where_one_is_given(stage, sessions, go_on):
    sessions.edits.append(writes("a.py", "new\n"))
    first = await plain(stage)

    second = await go_on(first.task_id, reads)
    third = await go_on(first.task_id, writes("a.py", "fail\n"), gate=GATE)

    assert (await stage.muster.request(second.task_id)).agent == "build"
    assert [error.code for error in third.errors] == [ErrorCode.GATE_FAILED]


async def test_an_agents_task_in_a_goals_session_is_not_proved_and_hides_nothing(stage, begin, sessions, go_on):
    first = await begin(writes("tests/test_b.py", "assert\n"))
    agent = await listener(stage.transport, first.task_id)
    sessions.edits.append(writes("tests/test_b.py", "\n"))

    own = await plain(stage, workspace=agent.workspace, resume_token=session_of(agent), params={"goal": new_task_id()})
    after = await go_on(own.task_id, writes("a.py", "new\n"))

    assert own.output.structured is None
    assert "since what was verified last" in after.errors[0].message


async def test_what_a_subagent_may_not_do_is_told_to_whoever_goes_on_with_its_session(stage, begin, sessions):
    held = {"inherited_denies": [[["bash", "*", True]]], "subagent_depth": 0}

    async def delegate(task: TaskRequest) -> None:
        if task.agent != VERIFY and not below:
            same = {"agent": "build", "pool": "build", "auth_scope": BUILD.auth_scope, "workspace": task.workspace}
            child = task_request(
                parent=task, **same, deadline_ms=60_000, sender="build/build", prompt="look", params=held
            )
            below.append(child)
            sessions.edits.insert(0, reads)
            await stage.transport.submit([child])
            async for _ in stage.transport.results([child.task_id]):
                pass

    below: list[TaskRequest] = []
    stage.builders.before_start = delegate
    await begin(writes("a.py", "new\n"))
    sessions.edits.append(writes("a.py", "newer\n"))
    async with stage.orchestrator(), stage.workers():
        [second] = await stage.muster.gather([await stage.muster.resume(below[0].task_id, "More")])

    agent = stage.builders.shards_started()[-1]
    assert (told(second), agent.parent_task_id) == ((True, ""), second.task_id)
    assert {name: agent.input.params[name] for name in held} == held


SHARDS = """
name = "both"
[[repositories]]
path = "."
[shards]
glob = "*.py"
[[steps]]
agent = "build"
prompt = "Mend {path}."
[gate]
commands = ["run-tests"]
"""


async def test_a_shards_session_is_proved_by_its_batchs_gate_against_its_base(stage, sessions, go_on):
    sessions.edits.append(writes("a.py", "new\n"))
    _, report = await stage.batch(await stage.repository(FILES), text=SHARDS)
    [shard] = report.repositories[0].shards

    good = await go_on(shard.task_id, writes("a.py", "newer\n"))
    bad = await go_on(shard.task_id, writes("a.py", "fail\n"))

    assert (report.verified, good.errors, told(good)) == (True, (), (True, ""))
    assert [file.path for file in good.patch.files] == ["a.py"]
    assert [error.code for error in bad.errors] == [ErrorCode.GATE_FAILED]


async def test_a_copy_of_a_session_at_work_does_not_wait_for_it(stage, begin, sessions):
    first = await begin(writes("a.py", "new\n"))
    under_way, may_end = asyncio.Event(), asyncio.Event()

    async def hold(task: TaskRequest) -> None:
        if task.input.prompt == "Slowly":
            under_way.set()
            await may_end.wait()

    stage.builders.before_start = hold
    sessions.edits += [reads, writes("b.py", "more\n"), reads]
    async with stage.orchestrator(), stage.workers():
        slow = await stage.muster.resume(first.task_id, "Slowly")
        await under_way.wait()
        [copy] = await stage.muster.gather([await stage.muster.fork(first.task_id)])
        [beside] = await stage.muster.gather([await stage.muster.resume(copy.task_id, "More")])
        may_end.set()
        await stage.muster.gather([slow])

    assert told(beside) == (True, "")
