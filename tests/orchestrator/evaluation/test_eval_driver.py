"""Suites from the request to the report: real git and a real queue; only the workers' part is scripted."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import pytest

from envelope.agents import AgentCard
from envelope.errors import ErrorCode
from envelope.events import WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskRequest
from orchestrator.cli.outcome import exit_code_of
from orchestrator.errors import BadBatchFile, BadInput
from orchestrator.evaluation.file import parse_suite
from orchestrator.evaluation.outcomes import NO_CALL
from orchestrator.evaluation.plan import packed_cases
from orchestrator.evaluation.report import EvalReport, report_of
from orchestrator.evaluation.request import eval_request
from orchestrator.submit import VERIFY, step_of
from repo.mirror import mirror_of
from transport.delivery import Again
from transport.errors import NotFound

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
SUITE = """
name = "words"
repository = { folder = "project" }
matrix = { model = ["good", "bad"] }
gate = { commands = ["run-tests"], reruns = 0 }
[[cases]]
name = "one"
prompt = "Do one"
hidden = "hidden/one"
[[cases]]
name = "two"
prompt = "Do two"
"""
SECOND = '[[cases]]\nname = "two"\nprompt = "Do two"\n'
ONE = SUITE.replace('["good", "bad"]', '["good"]').replace(SECOND, "")  # one sample
CODE = {"project/a.py": "old\n", "project/t.py": "assert\n", "hidden/one/secret/test_one.py": "assert\nassert\n"}


class Suites:
    """Suites on one stage, whose files are below `root`."""

    def __init__(self, stage):
        self.stage, self.root = stage, stage.folder / "suites"
        self.write(CODE)
        stage.builders.edit = self.edit

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def edit(self, task, files) -> None:
        files["a.py"] = "new\n" if task.model == "good" else "fail\n"

    async def plan(self, text: str = SUITE):
        return await self.stage.muster.evals.plan(parse_suite(text), file=self.root / "suite.toml")

    async def request(self, text: str = SUITE, **fields):
        plan = await self.plan(text)
        cases = await packed_cases(plan, self.stage.muster)
        settings = self.stage.muster.settings
        return eval_request(plan.spec, cases, {"build": step_of(BUILD)}, settings=settings, **fields)

    async def run(self, text: str = SUITE, **fields):
        result = await self.stage.run(await self.request(text, **fields))
        return result, EvalReport.model_validate(result.output.structured)

    def agents(self):
        return self.stage.builders.shards_started()


@pytest.fixture
def suites(stage) -> Suites:
    return Suites(stage)


async def test_each_variant_tries_each_case_and_the_gate_says_who_is_better(suites):
    result, report = await suites.run()

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert [(one.case, one.variant) for one in report.samples] == [
        ("one", "good"), ("one", "bad"), ("two", "good"), ("two", "bad"),
    ]  # fmt: skip
    assert [one.outcome for one in report.samples] == ["accepted", "rejected"] * 2
    good, bad = report.variants
    assert (good.pass_at, bad.pass_at) == ({1: 1.0}, {1: 0.0})
    [compared] = report.comparisons
    assert (compared.difference, compared.worse, compared.p_value, compared.verdict) == (-1.0, 2, 0.5, "unclear")
    assert [(one.case, one.variant) for one in report.chosen] == [("one", "good"), ("two", "good")]
    assert {sample.outcome for sample in (await suites.stage.muster.evals.report(result.task_id)).samples} == {
        "accepted", "rejected",
    }  # fmt: skip


async def test_hidden_tests_are_only_where_the_gate_runs(suites, tmp_path):
    seen: list[str] = []
    suites.stage.builders.edit = lambda task, files: (seen.extend(files), suites.edit(task, files))

    await suites.run()

    assert set(seen) == {"a.py", "t.py"}
    gates = [task for task in suites.stage.builders.started if task.agent == VERIFY]
    [given] = {task.workspace.bundle for task in gates if task.input.params} - {
        agent.workspace.bundle for agent in suites.agents()
    }
    for agent in suites.agents():
        assert given not in agent.model_dump_json()  # nor does a reference lead there
        packed = tmp_path / "agent.bundle"
        packed.write_bytes(await suites.stage.transport.blobs.get(agent.workspace.bundle))
        mirror = await mirror_of(tmp_path / agent.task_id, bundle=packed, commit=agent.workspace.base)
        every = subprocess.run(
            ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=mirror.git_dir, check=True, capture_output=True
        ).stdout
        assert b"test_one" not in every and b"secret" not in every


async def test_no_run_of_hidden_tests_is_there_while_an_agent_could_look_at_it(suites):
    started: list[str] = []

    async def note(task):
        if task.agent != VERIFY:
            others = await suites.stage.transport.tasks(trace_id=task.trace_id)
            started.extend(one.agent for one in others)

    suites.stage.builders.before_start = note
    await suites.run(SUITE.replace('[[cases]]\nname = "two"\nprompt = "Do two"\n', ""))

    assert set(started) == {"run", "build"}


WRITTEN = {
    "the same file": ("hidden/one/secret/test_one.py", "secret/test_one.py"),
    "a file where the tests' folder is": ("hidden/one/secret/test_one.py", "secret"),
    "a folder where the tests' file is": ("hidden/one/test_one.py", "test_one.py/mine.py"),
}


@pytest.mark.parametrize(("hidden", "path"), WRITTEN.values(), ids=WRITTEN.keys())
async def test_what_an_agent_writes_in_the_place_of_hidden_tests_does_not_stay(suites, hidden: str, path: str):
    (suites.root / "hidden/one/secret/test_one.py").unlink()
    suites.write({hidden: "assert\nassert\n"})

    def cheat(task, files):
        files["a.py"] = "fail\n"
        files[path] = "assert\nassert\nassert\n"

    suites.stage.builders.edit = cheat
    _, report = await suites.run()

    assert [one.outcome for one in report.samples] == ["rejected"] * 4


async def test_a_hidden_test_that_fails_before_and_after_accepts_nothing(suites):
    suites.write({"hidden/one/secret/test_one.py": "fail\n"})
    result, report = await suites.run()

    assert [one.outcome for one in report.samples if one.case == "one"] == ["rejected"] * 2
    assert result.status is State.COMPLETED  # to find out was what it was for


async def test_an_agent_that_changes_nothing_is_not_accepted(suites):
    suites.stage.builders.edit = lambda task, files: None
    _, report = await suites.run()

    assert {(one.outcome, one.code) for one in report.samples} == {("rejected", "")}


async def test_of_many_tries_the_best_that_the_gate_accepts_is_chosen(suites):
    tries = iter(("fail\n", "new\nnew\nnew\n", "new\n"))
    suites.stage.builders.edit = lambda task, files: files.update({"a.py": next(tries)})
    text = SUITE.replace('["good", "bad"]', '["good"]').replace('name = "words"', 'name = "words"\nsamples = 3')
    text = text.replace('[[cases]]\nname = "two"\nprompt = "Do two"\n', "[limits]\nconcurrency = 1\n")

    _, report = await suites.run(text)

    [variant] = report.variants
    assert variant.counts == {"rejected": 1, "accepted": 2}
    assert variant.pass_at == pytest.approx({1: 2 / 3, 2: 1.0, 3: 1.0})
    assert [one.number for one in report.chosen] == [3]


async def test_no_sample_begins_that_the_budget_has_no_room_for(suites):
    suites.stage.builders.cost = lambda task: 0 if task.agent == VERIFY else 300_000
    text = SUITE + "[limits]\nbudget_usd = 1.0\nsample_budget_usd = 0.5\n"
    result, report = await suites.run(text)

    assert [one.outcome for one in report.samples].count("not_run") == 2
    assert {task.budget.max_cost_microusd for task in suites.agents()} == {500_000}
    assert (report.paid_microusd, report.cap_microusd) == (600_000, 1_000_000)
    assert result.errors[0].code is ErrorCode.BUDGET and exit_code_of(result) == 3
    assert report.variants[0].cost_per_accepted_microusd == 300_000


async def test_a_sample_has_no_title_and_a_goal_of_its_own_may_have_one(suites):
    await suites.run()

    assert {task.input.params.get("untitled") for task in suites.agents()} == {True}


async def test_a_sample_that_could_ask_nobody_was_not_run_and_says_nothing_of_its_variant(suites):
    def edit(task, files):
        if task.model == "bad":
            raise suites.stage.builders.fails("$0.0000 of the trace's $0.0100 are spent")
        suites.edit(task, files)

    suites.stage.builders.edit = edit
    suites.stage.builders.code = lambda _: ErrorCode.BUDGET

    result, report = await suites.run()

    assert [one.outcome for one in report.samples] == ["accepted", "not_run"] * 2
    assert report.variants[1].pass_at == {}
    assert [(error.code, error.message) for error in result.errors] == [
        (ErrorCode.BUDGET, f"2 of 4 samples were not run: {NO_CALL}")
    ]


async def test_the_most_that_a_suite_costs_is_what_its_samples_may_spend(suites):
    plan = await suites.plan(SUITE + "[limits]\nbudget_usd = 25.0\nsample_budget_usd = 0.5\n")
    found = suites.stage.muster.evals.preview(plan)

    assert (found.max_cost_microusd, found.cap_microusd, found.sample_microusd) == (2_000_000, 25_000_000, 500_000)
    small = suites.stage.muster.evals.preview(
        await suites.plan(SUITE + "[limits]\nbudget_usd = 1.0\nsample_budget_usd = 0.5\n")
    )
    assert (small.max_cost_microusd, small.cap_microusd) == (1_000_000, 1_000_000)


async def test_the_same_suite_again_does_only_what_is_missing(suites):
    suites.stage.builders.cost = lambda task: 0 if task.agent == VERIFY else 300_000
    limits = "[limits]\nbudget_usd = {}\nsample_budget_usd = 0.5\n"
    await suites.run(SUITE + limits.format("1.0"))
    before = len(suites.agents())

    _, report = await suites.run(SUITE + limits.format("3.0"))

    assert (before, len(suites.agents())) == (2, 4)
    assert (report.reused, report.paid_microusd) == (2, 600_000)
    assert "not_run" not in report.counts
    assert sum(one.cost_microusd for one in report.samples) == 1_200_000  # what a try costs is not what was paid now


async def test_samples_of_an_agent_that_has_changed_are_not_taken_again(suites):
    await suites.run(made_of={"build": ("one", "m")})

    _, same = await suites.run(made_of={"build": ("one", "another default")})  # each variant names its model
    _, changed = await suites.run(made_of={"build": ("two", "m")})

    assert (same.reused, changed.reused) == (4, 0)


async def test_what_says_nothing_of_a_variant_counts_in_no_rate_and_is_done_again(suites):
    def lose(task, files):
        if task.model == "bad":
            raise suites.stage.builders.fails("the sandbox is gone")
        suites.edit(task, files)

    suites.stage.builders.edit = lose
    suites.stage.builders.code = lambda _: ErrorCode.SETUP_FAILED
    result, report = await suites.run()

    assert report.variants[1].counts == {"failed": 2} and report.variants[1].pass_at == {}
    assert result.errors[0].code is ErrorCode.PARTIAL and exit_code_of(result) == 8

    suites.stage.builders.edit = suites.edit
    again, report = await suites.run()

    assert again.status is State.COMPLETED
    assert (report.reused, report.counts) == (2, {"accepted": 2, "rejected": 2})


async def test_an_orchestrator_that_is_lost_is_followed_by_one_that_finds_what_there_is(suites):
    halted, go_on = asyncio.Event(), asyncio.Event()
    stage = suites.stage

    async def halt(task):
        if len(suites.agents()) == 3:
            halted.set()
            await go_on.wait()

    stage.builders.before_start = halt
    handle = await stage.muster.submit(await suites.request(SUITE + "[limits]\nconcurrency = 1\n"))
    async with stage.workers():
        async with stage.orchestrator():
            async with asyncio.timeout(30):
                await halted.wait()
        go_on.set()
        async with stage.orchestrator():
            [result] = await stage.muster.gather([handle])

    report = report_of(result)
    assert report is not None and report.counts == {"accepted": 2, "rejected": 2}
    assert len(suites.agents()) == 4  # none twice
    assert report.reused == 0


async def test_a_sample_that_never_ends_is_over_at_its_deadline_and_took_its_time(suites):
    async def hang(task):
        await asyncio.Event().wait()

    suites.stage.builders.before_start = hang
    text = SUITE.replace('["good", "bad"]', '["good"]').replace('[[cases]]\nname = "two"\nprompt = "Do two"\n', "")
    result, report = await suites.run(text + "[limits]\nsample_deadline_s = 2\n")

    [sample] = report.samples
    assert (sample.outcome, sample.wall_ms > 0, result.status) == ("deadline", True, State.COMPLETED)
    assert report.variants[0].pass_at == {1: 0.0}


async def test_what_the_suites_end_cuts_short_says_nothing_of_its_variant_and_is_done_by_the_next_run(suites):
    """There is money for one at once: the second waits for it until the suite's time is over."""

    async def hang(task):
        await asyncio.Event().wait()

    suites.stage.builders.before_start = hang
    limits = "[limits]\nbudget_usd = 0.5\nsample_budget_usd = 0.5\n"
    text = ONE + SECOND + limits
    result, report = await suites.run(f"{text}deadline_s = 15\n")  # of which ten are for its conclusion

    assert len(submitted(suites.agents())) == 1
    assert {(one.outcome, one.detail) for one in report.samples} == {("not_run", "the suite's time was over")}
    assert exit_code_of(result) == 4

    suites.stage.builders.before_start = None
    _, report = await suites.run(text)

    assert (report.counts, report.reused) == ({"accepted": 2}, 0)


async def test_a_sample_that_is_lost_is_tried_again_in_what_is_left_of_the_suites_time(suites):
    def lose_the_first(task, files):
        if task.task_id == suites.agents()[0].task_id:
            raise suites.stage.builders.fails("the sandbox is gone")
        suites.edit(task, files)

    builders = suites.stage.builders
    builders.edit, builders.code = lose_the_first, lambda _: ErrorCode.SANDBOX
    builders.cost = lambda task: 0 if task.agent == VERIFY else 300_000
    _, report = await suites.run(ONE + "[limits]\ndeadline_s = 600\nbudget_usd = 1.0\nsample_budget_usd = 0.5\n")

    tried = {task.task_id: task.deadline_ms for task in suites.agents()}
    first, second = tried.values()
    assert second < first < 600_000
    assert (report.counts, report.paid_microusd) == ({"accepted": 1}, 600_000)


async def test_a_sample_whose_money_is_spent_had_its_try(suites):
    def spend(task, files):
        raise suites.stage.builders.fails("its budget is spent")

    suites.stage.builders.edit, suites.stage.builders.code = spend, lambda _: ErrorCode.BUDGET
    suites.stage.builders.cost = lambda task: 0 if task.agent == VERIFY else 1_000
    _, report = await suites.run(ONE)

    assert (report.counts, len(submitted(suites.agents()))) == ({"budget": 1}, 1)


async def test_a_model_that_is_refused_in_two_cases_is_not_tried_in_others(suites):
    def refuse(task, files):
        if task.model == "bad":
            raise suites.stage.builders.fails("the price of bad is not known")
        suites.edit(task, files)

    suites.stage.builders.edit, suites.stage.builders.code = refuse, lambda _: ErrorCode.BAD_INPUT
    result, report = await suites.run(SUITE.replace("matrix", "samples = 2\nmatrix") + "[limits]\nconcurrency = 1\n")

    assert [one.counts for one in report.variants] == [{"accepted": 4}, {"failed": 4}]
    assert [task.model for task in suites.agents()].count("bad") == 2
    assert [error.message for error in result.errors] == ["4 of 8 samples failed: the price of bad is not known"]


async def test_what_an_attempt_before_has_begun_is_found_again_whatever_it_was_refused(suites):
    """The last of four is under way when the others have been refused, and the orchestrator is lost."""
    stage, begun, go_on = suites.stage, asyncio.Event(), asyncio.Event()

    def place(task) -> tuple[str, int]:
        """Its prompt, and how many with the same were begun before it."""
        alike = (one.task_id for one in suites.agents() if one.input.prompt == task.input.prompt)
        return task.input.prompt, list(dict.fromkeys(alike)).index(task.task_id)

    async def hold(task):
        if task.agent != VERIFY and place(task) == ("Do two", 0):
            await begun.wait()
        elif task.agent != VERIFY and place(task) == ("Do two", 1):
            begun.set()
            await go_on.wait()

    def refuse(task, files):
        if place(task) != ("Do two", 1):
            raise stage.builders.fails("the price of good is not known")
        suites.edit(task, files)

    stage.builders.before_start, stage.builders.edit = hold, refuse
    stage.builders.code = lambda _: ErrorCode.BAD_INPUT
    text = ONE.replace("matrix", "samples = 2\nmatrix") + SECOND + "[limits]\nconcurrency = 2\n"
    handle = await stage.muster.submit(await suites.request(text))
    async with stage.workers():
        async with stage.orchestrator(), asyncio.timeout(30):
            await ended_children(stage, handle.trace_id, count=3)
        async with stage.orchestrator():
            go_on.set()
            [result] = await stage.muster.gather([handle])

    report = report_of(result)
    assert report is not None
    assert [one.outcome for one in report.samples] == ["failed", "failed", "failed", "accepted"]
    assert len(submitted(suites.agents())) == 4


async def test_what_was_done_after_another_suites_failure_and_a_lost_try_is_not_done_again(suites):
    """The first suite fails; the second loses its own first try. The third finds the second's second."""
    limits = "[limits]\nbudget_usd = {}\nsample_budget_usd = 0.5\n"
    failing = {1: ErrorCode.SETUP_FAILED, 2: ErrorCode.SANDBOX}  # by the number of the agent's task

    def fail_twice(task, files):
        if len(submitted(suites.agents())) in failing:
            raise suites.stage.builders.fails("it is gone")
        suites.edit(task, files)

    suites.stage.builders.edit = fail_twice
    suites.stage.builders.code = lambda _: failing[len(submitted(suites.agents()))]
    _, first = await suites.run(ONE + limits.format("1.0"))
    _, second = await suites.run(ONE + limits.format("1.0"))
    _, third = await suites.run(ONE + limits.format("2.0"))

    assert [one.counts for one in (first, second, third)] == [{"failed": 1}, {"accepted": 1}, {"accepted": 1}]
    assert (len(submitted(suites.agents())), third.reused) == (3, 1)


class Halt:
    """Where work is held until a test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()


def submitted(started: list[TaskRequest]) -> set[str]:
    """Each once, also one that was started again because its lease was lost on a busy machine."""
    return {task.task_id for task in started}


async def ended_children(stage, trace_id: str, *, count: int) -> None:
    """Wait until so many tasks of the trace's driver have ended, as it tells."""
    async with aclosing(stage.transport.follow(trace_id)) as entries:
        async for entry in entries:
            count -= sum(event.kind == "child_ended" for event in getattr(entry.message, "events", ()))
            if count <= 0:
                return


def lasting(report: EvalReport) -> dict[str, Any]:
    """What is the same however often the same was done: no ids (which hints name, too), no times."""
    whole = report.model_dump(mode="json")
    passing = {"task_id", "trace_id", "hint", "wall_ms", "wall_ms_median", "wall_ms_p95"}
    rows = ("samples", "variants", "chosen")
    return whole | {key: [{k: v for k, v in row.items() if k not in passing} for row in whole[key]] for key in rows}


@pytest.mark.chaos
async def test_orchestrators_that_are_killed_leave_the_report_of_an_undisturbed_one(served_stage, redis_stage):
    """By SIGKILL, so that nothing is given back: at the first agent, and at a gate of the third sample."""
    text = SUITE + "[limits]\nbudget_usd = 1.2\nconcurrency = 1\n"  # there is just enough: what is paid twice is missed
    undisturbed, suites = Suites(redis_stage), Suites(served_stage)
    for one in (undisturbed, suites):
        one.stage.builders.cost = lambda task: 0 if task.agent == VERIFY else 300_000
    _, expected = await undisturbed.run(text)
    stage, halts = served_stage, {(1, False): Halt(), (3, True): Halt()}

    def agents_started() -> int:
        return len(submitted(suites.agents()))

    async def hold(task):
        if (halt := halts.get((agents_started(), task.agent == VERIFY))) is not None:
            halt.reached.set()
            await halt.go_on.wait()

    stage.builders.before_start = hold
    async with stage.workers():
        handle = await stage.muster.submit(await suites.request(text))
        for halt in halts.values():
            async with stage.process() as process:
                await halt.reached.wait()
                process.kill()
                await process.wait()
            halt.go_on.set()
        async with stage.process():
            [result] = await stage.muster.gather([handle])

    report = report_of(result)
    assert report is not None and (result.status, result.attempt >= 3) == (State.COMPLETED, True)
    assert lasting(report) == lasting(expected)
    assert (report.paid_microusd, report.reused, agents_started()) == (1_200_000, 0, 4)
    gates_too = [submitted(one.stage.builders.started) for one in (suites, undisturbed)]
    assert len(gates_too[0]) == len(gates_too[1])


async def test_what_is_required_and_not_reached_ends_with_exit_code_1(suites):
    result, report = await suites.run(SUITE + '[require]\nmin_pass_at_1 = 0.9\nvariant = "bad"\n')

    assert report.unmet == ("pass@1 of bad is 0.0%, and 90.0% is required",)
    assert exit_code_of(result) == 1


async def test_a_repository_of_git_is_tried_at_its_commit_with_hidden_tests_from_beside_it(suites):
    given = await suites.stage.repository({"a.py": "old\n", "t.py": "assert\n"}, name="git")
    [folder] = [path for path in suites.stage.folder.glob("git-*") if path.is_dir()]
    _, report = await suites.run(SUITE.replace('folder = "project"', f'path = "{folder}"'))

    assert report.counts == {"accepted": 2, "rejected": 2}
    assert {task.workspace.base for task in suites.agents()} == {given.base}


async def test_hidden_tests_that_the_repository_shows_are_refused(suites):
    suites.write({"project/hidden/test_one.py": "assert\n"})
    with pytest.raises(BadBatchFile, match=r"hidden tests of 'one' are in its repository, as hidden/test_one\.py"):
        await suites.plan(SUITE.replace("hidden/one", "project/hidden"))


async def test_a_folder_that_is_not_there_is_said(suites):
    with pytest.raises(BadBatchFile, match="no folder with files at"):
        await suites.plan(SUITE.replace("hidden/one", "hidden/none"))


async def test_the_budget_of_a_suite_is_not_raised_while_it_runs(suites):
    result, _ = await suites.run()
    with pytest.raises(BadInput, match="stands in its file"):
        await suites.stage.muster.raise_budget(result.trace_id, 9_000_000)


async def test_a_report_is_asked_of_a_suite_alone(suites):
    with pytest.raises(NotFound):
        await suites.stage.muster.evals.report("019a0000-0000-7000-8000-000000000000")


async def test_what_lost_attempts_have_paid_is_the_suites(redis_stage):
    """As of a worker that was drained: its result knows the last attempt alone, the trace's ledger all."""
    stage, handle, traces = redis_stage, redis_stage.builders.handle, set[str]()

    async def handled(delivery):
        if delivery.request.agent == VERIFY:
            return await handle(delivery)
        lease = delivery.claim.lease
        traces.add(lease.trace_id)
        charge = 400_000 if lease.attempt == 1 else 100_000
        told = TaskProgress(
            trace_id=lease.trace_id,
            task_id=lease.task_id,
            attempt=lease.attempt,
            seq=0,
            at_ms=1,
            status=State.RUNNING,
            events=(WarningRaised(message="at work"),),
        )
        await stage.transport.emit(lease, told, charge_microusd=charge)
        return Again(ErrorCode.SANDBOX, "drained") if lease.attempt == 1 else await handle(delivery)

    stage.builders.handle = handled
    stage.builders.cost = lambda task: 0 if task.agent == VERIFY else 100_000
    limits = "[limits]\nbudget_usd = 1.0\nsample_budget_usd = 0.5\nconcurrency = 1\n"
    await Suites(stage).run(f"{SUITE}{limits}")
    paid = [(await stage.transport.ledger(trace)).spent_microusd for trace in traces]

    assert sum(paid) == 1_000_000
