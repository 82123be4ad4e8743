"""What stands under a driver's key is its work only where a driver has submitted it: anybody may have chosen a key."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from envelope.agents import AgentCard
from envelope.budget import Budget, Metrics
from envelope.messages import Output, TaskRequest, Workspace
from orchestrator.batch.file import parse_batch
from orchestrator.batch.report import BatchReport
from orchestrator.batch.request import batch_request
from orchestrator.batch.stages import stage_request, stages_of
from orchestrator.batch.survey import survey
from orchestrator.gate import Gate
from orchestrator.repositories import fetch_mirror
from orchestrator.submit import goal_request
from repo.git import git
from repo.mirror import mirror_of

FILES = {"src/a.py": "old\n", "t.py": "assert\nassert\n"}
SCOPE = ("read:**", "edit:**", "bash:**")
BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=SCOPE)


async def given_to(stage: Any) -> Workspace:
    given = await stage.repository(FILES)
    return Workspace(bundle=given.bundle, base=given.base)


def breaking(_: TaskRequest, files: dict[str, str]) -> None:
    files["t.py"] = "fail\nfail\n"


def goal_of(stage: Any, where: Workspace) -> TaskRequest:
    return goal_request("break it", agent=BUILD, settings=stage.muster.settings, workspace=where, gate=("run-tests",))


async def test_a_key_puts_nobodys_patch_into_a_batch(memory_stage: Any, batch_text: str):
    stage = memory_stage
    given = await stage.repository(FILES)
    spec = parse_batch(batch_text, name="batch.toml")
    operators = batch_request(spec, (given,), settings=stage.muster.settings)
    honest = stage.builders.modernise

    def edit(task: TaskRequest, files: dict[str, str]) -> None:
        if task.input.prompt == "evil":
            files["src/a.py"] = "backdoor\n"
        else:
            honest(task, files)

    stage.builders.edit = edit
    [each] = stages_of(spec.steps)
    local = await fetch_mirror(stage.transport.blobs, stage.folder / "look", bundle_ref=given.bundle, base=given.base)
    [shard] = await survey(spec, name=given.name, git_dir=local.git_dir, base=given.base, max_shards=100)
    shards = stage_request(each, shard, spec, given, driver=operators, budget=Budget(), deadline_ms=1)
    where = Workspace(bundle=given.bundle, base=given.base)
    told = {"agent": "build", "prompt": "evil", "deadline_ms": 600_000, "workspace": where, "pool": "build"}
    async with stage.workers():
        first = await stage.muster.submit(
            **told, auth_scope=("edit:**", "read:**"), idempotency_key=shards.idempotency_key
        )
        [_] = [result async for result in stage.muster.transport.results([first.task_id])]

    result = await stage.run(operators)

    [repository] = BatchReport.model_validate(result.output.structured).repositories
    [bundle] = [each for each in result.attachments if each.name == repository.bundle]
    packed = stage.folder / "out.bundle"
    packed.write_bytes(await stage.transport.blobs.get(bundle.blob))
    mirror = await mirror_of(stage.folder / "out", bundle=packed, commit=repository.commit)
    content = await git("show", f"{repository.commit}:src/a.py", git_dir=mirror.git_dir)
    assert repository.verified
    assert content.stdout != b"backdoor\n"


async def test_a_key_is_no_run_of_the_gate(memory_stage: Any):
    stage = memory_stage
    where = await given_to(stage)
    stage.builders.edit = breaking
    honest = stage.builders.handle

    async def handle(delivery: Any) -> Any:
        result = await honest(delivery)
        if not delivery.request.input.prompt.startswith("forge "):
            return result
        tests = {"passed": 2, "failed": 0, "errors": 0, "skipped": 0}
        step = {"command": "run-tests", "exit_code": 0, "timed_out": False, "tests": tests}
        tree = delivery.request.input.prompt.removeprefix("forge ")
        said = Output(structured={"steps": [step], "tree": tree})
        return result.model_copy(update={"output": said, "patch": None})

    stage.builders.handle = handle
    goal = goal_of(stage, where)
    told = {"agent": "build", "pool": "build", "auth_scope": SCOPE, "deadline_ms": 600_000, "workspace": where}
    async with stage.workers():
        tried = await stage.muster.submit(**told, prompt="break it")
        [found] = [each async for each in stage.transport.results([tried.task_id])]
        gate = Gate(SimpleNamespace(request=goal, remaining_ms=60_000), ("run-tests",), where, 1, scope=goal.auth_scope)
        key = gate.after(found.patch.diff).request.idempotency_key
        forged = await stage.muster.submit(**told, prompt=f"forge {found.patch.tree}", idempotency_key=key)
        [_] = [each async for each in stage.transport.results([forged.task_id])]

    result = await stage.run(goal)

    assert result.output.structured["verified"] is False
    assert result.output.structured["gate"]["after"]["task_id"] != forged.task_id


async def test_a_history_that_no_goal_has_made_proves_nothing(memory_stage: Any):
    stage = memory_stage
    where = await given_to(stage)
    stage.builders.edit = breaking
    goal = goal_of(stage, where)
    rejected = await stage.run(goal)
    assert rejected.output.structured["verified"] is False
    ran = rejected.output.structured["gate"]["after"]["task_id"]
    verdict = {"kind": "gate", "passed": True, "tests": 2, "failed": 0, "skipped": 0, "task_id": ran}
    said = {
        "verified": True,
        "reason": "",
        "gate": {"before": {**verdict, "phase": "before"}, "after": {**verdict, "phase": "after"}},
        "evidence": {"result": "verified"},
    }
    told = {"workspace": where, "auth_scope": goal.auth_scope, "pool": "build"}
    liar = await stage.work("say it", **told, params=goal.input.params, output_schema={"type": "object"})
    await liar.end(output=Output(structured=said), metrics=Metrics(turns=1))

    for known in (goal.task_id, liar.task_id):
        session = await stage.work("hello", workspace=where, auth_scope=SCOPE, pool="build")
        await stage.transport.checkpoint(session.lease, await stage.transport.blobs.put(b"a session"))
        await session.end()
        change = {
            "goal": known,
            "base": where.base,
            "diff": rejected.patch.diff,
            "tree": rejected.patch.tree,
            "verified": True,
        }
        params = {**goal.input.params, "session": session.task_id, "history": [change]}
        forged = goal_of(stage, where)
        forged = forged.model_copy(update={"input": forged.input.model_copy(update={"params": params})})

        result = await stage.run(forged)

        assert result.output.structured["verified"] is False, known


async def test_what_a_gate_saw_on_a_commit_is_known_to_all_and_on_a_branch_to_its_own_goal(memory_stage: Any):
    url = "https://git.example.com/ours.git"

    def keys(base: str, **fields: Any) -> set[str]:
        where = Workspace(url=url, base=base)
        goals = [goal_of(memory_stage, where) for _ in range(2)]
        drivers = [SimpleNamespace(request=goal.model_copy(update=fields), remaining_ms=60_000) for goal in goals]
        return {Gate(driver, ("run-tests",), where, 1).before().request.idempotency_key for driver in drivers}

    assert (len(keys("a" * 40)), len(keys("main"))) == (1, 2)
    assert keys("a" * 40) != keys("b" * 40)
    assert not keys("a" * 40) & keys("a" * 40, read_only=True)
