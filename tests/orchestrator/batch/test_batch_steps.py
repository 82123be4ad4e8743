"""Steps in order: what each one starts from, and when it is done at all."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.recipe import CodeDigest
from orchestrator.batch.failures import CLASS_OF, FailureClass
from orchestrator.batch.file import parse_batch
from orchestrator.batch.stages import stages_of
from orchestrator.errors import BadBatchFile
from orchestrator.repositories import MAX_LISTED_FILES

FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "src/c.py": "fine c\n", "tests/t.py": "assert\nassert\n"}
AGENT = '[[steps]]\nagent = "build"\nprompt = "Finish {path} of {repository}."\nwhen = '


def with_agent(text: str, when: str) -> str:
    """The batch of the other tests, with a second step."""
    return text.replace("[gate]", f'{AGENT}"{when}"\n[gate]')


def finishing(stage, *, breaking: str = "", failing: str = ""):
    """The recipe modernises (and breaks, or fails on, one file); the agent signs what it is given, and mends it."""

    def edit(task, files):
        if task.agent == "build":
            path = task.input.prompt.split()[1]
            files[path] = files[path].replace("fail\n", "") + "by hand\n"
            return
        stage.builders.modernise(task, files)
        path = task.input.params["commands"][0].removeprefix("fix ")
        if path == failing:
            raise stage.builders.fails("no way")
        if path == breaking:
            files[path] += "fail\n"

    stage.builders.edit = edit


def prompts(stage) -> list[str]:
    return sorted(task.input.prompt for task in stage.builders.shards_started() if task.agent == "build")


async def test_a_step_starts_from_what_the_one_before_has_changed(stage, batch_text):
    finishing(stage)

    result, report = await stage.batch(await stage.repository(FILES), text=with_agent(batch_text, "changed"))

    assert prompts(stage) == ["Finish src/a.py of demo.", "Finish src/b.py of demo."]
    assert result.errors == ()
    diff = await stage.muster.diff(result.task_id)
    assert b"-old a\n+new a\n+by hand\n" in diff
    assert [(shard.key, shard.outcome, shard.added) for shard in report.repositories[0].shards] == [
        ("src/a.py", "applied", 2),
        ("src/b.py", "applied", 2),
        ("src/c.py", "empty", 0),
    ]


@pytest.mark.parametrize(
    ("when", "asked"),
    [
        ("always", ["src/a.py", "src/c.py"]),
        ("unchanged", ["src/c.py"]),
        ("failed", ["src/b.py"]),
        ("gate failed", ["src/a.py"]),
    ],
)
async def test_a_step_is_done_where_its_condition_holds(stage, batch_text, when, asked):
    finishing(stage, breaking="src/a.py", failing="src/b.py")

    result, report = await stage.batch(await stage.repository(FILES), text=with_agent(batch_text, when))

    assert prompts(stage) == [f"Finish {path} of demo." for path in asked]
    failed = [shard.key for shard in report.repositories[0].shards if shard.outcome == "failed"]
    assert failed == ([] if when == "failed" else ["src/b.py"])
    assert (b"by hand" in await stage.muster.diff(result.task_id)) is True


async def test_where_the_gate_failed_an_agent_mends_it_and_the_whole_is_verified(stage, batch_text):
    finishing(stage, breaking="src/b.py")
    given = await stage.repository(FILES)

    result, report = await stage.batch(given, text=with_agent(batch_text, "gate failed"))

    assert (result.status, report.verified) == (State.COMPLETED, True)
    assert prompts(stage) == ["Finish src/b.py of demo."]
    assert b"+new b\n+by hand\n" in await stage.muster.diff(result.task_id)
    [agent] = [task for task in stage.builders.shards_started() if task.agent == "build"]
    assert agent.workspace.changes is not None  # it started from the recipe's change


async def test_a_gate_that_a_grant_satisfies_has_not_failed(stage, batch_text):
    """A test less; nobody is paid to mend what a person has allowed."""
    finishing(stage)
    modernise = stage.builders.edit

    def edit(task, files):
        modernise(task, files)
        files["tests/t.py"] = "assert\n"

    stage.builders.edit = edit
    text = batch_text.replace('glob = "src/*.py"', 'glob = "src/a.py"\nalso_edit = ["tests/**"]')

    _, report = await stage.batch(await stage.repository(FILES), text=with_agent(text, "gate failed"))

    assert (prompts(stage), report.verified) == ([], True)


async def test_a_gate_whose_runner_was_fooled_has_failed(stage, batch_text):
    """All tests pass; but they are not those that the files hold."""
    finishing(stage, breaking="src/b.py")
    stage.builders.tests = lambda _: {"passed": 2, "failed": 0, "errors": 0, "skipped": 0}
    stage.builders.digest = lambda files: CodeDigest(tests={"tests/t.py::t": str("fail" in files["src/b.py"])})

    _, report = await stage.batch(await stage.repository(FILES), text=with_agent(batch_text, "gate failed"))

    assert (prompts(stage), report.verified) == (["Finish src/b.py of demo."], True)


async def test_an_agents_step_that_is_new_reuses_what_the_recipe_did(stage, batch_text):
    finishing(stage)
    given = await stage.repository(FILES)
    await stage.batch(given)

    _, report = await stage.batch(given, text=with_agent(batch_text, "changed"))

    recipes = [task for task in stage.builders.shards_started() if task.agent != "build"]
    assert (len(recipes), len(prompts(stage))) == (3, 2)
    assert report.repositories[0].count("applied") == 2


async def test_more_files_than_a_report_lists_go_through_several_steps(stage, batch_text):
    count = MAX_LISTED_FILES + 1

    def edit(task, files):
        made = ["last.py"] if task.agent == "build" else [f"gen/f{n}.py" for n in range(count)]
        files.update(dict.fromkeys(made, "new\n"))

    stage.builders.edit = edit
    text = with_agent(batch_text.replace('glob = "src/*.py"', "whole = true"), "changed")

    _, report = await stage.batch(await stage.repository({"gen/f.py": "old\n", "tests/t.py": "assert\n"}), text=text)

    [repository] = report.repositories
    assert [(shard.outcome, shard.files) for shard in repository.shards] == [("applied", count + 1)]
    assert len(repository.patch.files) == MAX_LISTED_FILES


async def test_a_prompt_that_is_too_large_for_so_many_shards_is_never_submitted(stage, batch_text):
    files = {**{f"src/f{number}.py": "old\n" for number in range(60)}, "tests/t.py": "assert\n"}
    prompt = f"Renew {{path}}. {'x' * 600_000}"
    text = batch_text.replace('recipe = ["fix {path}"]', f'agent = "build"\nprompt = "{prompt}"')

    result = await stage.run(stage.batch_request(await stage.repository(files), text=text))

    [error] = result.errors
    assert (error.code, "32 MiB" in error.message, "name files" in error.hint) == (ErrorCode.BAD_INPUT, True, True)
    assert stage.builders.shards_started() == []


async def test_infrastructure_is_tried_once_more_and_nothing_else_is(stage, batch_text):
    tries: list[str] = []

    def edit(task, files):
        path = task.input.params["commands"][0].removeprefix("fix ")
        tries.append(path)
        if path == "src/a.py" and tries.count(path) == 1:
            raise stage.builders.fails("the sandbox went away")
        if path == "src/b.py":
            raise stage.builders.fails("no way")
        stage.builders.modernise(task, files)

    stage.builders.edit = edit
    stage.builders.code = lambda error: ErrorCode.SANDBOX if "sandbox" in str(error) else ErrorCode.RECIPE_FAILED

    _, report = await stage.batch(await stage.repository(FILES))

    assert (tries.count("src/a.py"), tries.count("src/b.py")) == (2, 1)
    assert [shard.outcome for shard in report.repositories[0].shards] == ["applied", "failed", "empty"]


def test_every_code_has_a_class():
    assert CLASS_OF["out_of_scope"] is FailureClass.POLICY
    assert {CLASS_OF.get(code, FailureClass.TASK) for code in ErrorCode} == set(FailureClass)


STEPS = """
name = "b"
repositories = [{ path = "." }]
shards = { whole = true }
steps = [%s]
"""


def steps_of(text: str):
    return parse_batch(STEPS % text, name="b.toml").steps


def test_recipes_in_a_row_are_one_task_and_agents_stand_alone():
    steps = steps_of(
        '{recipe=["a"]}, {recipe=["b"]}, {ruff="UP"}, {agent="build", prompt="x"}, {recipe=["c"]},'
        ' {recipe=["d"], when="changed"}, {recipe=["e"]}'
    )

    names = [[step.agent or step.title for step in stage.steps] for stage in stages_of(steps)]
    assert names == [["a", "b"], ["ruff UP"], ["build"], ["c"], ["[if changed] d", "e"]]


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ('{ruff="UP,B"}', "ruff check --isolated --quiet --fix --select UP,B --target-version {target_version} {path}"),
        ('{libcst="rename.RenameCommand --old_name a.b --new_name a.c"}', "--old_name a.b --new_name a.c {path}"),
        (
            '{ast_grep={pattern="f($A)", rewrite="g($A)", lang="python"}}',
            "ast-grep run -p 'f($A)' -r 'g($A)' -l python --update-all {path}",
        ),
    ],
)
def test_a_shorthand_is_a_command(step, command):
    [step] = steps_of(step)

    assert step.commands[0].endswith(command)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{recipe=["a"], agent="build", prompt="x"}', "say one of `recipe`, `ruff`, `libcst`, `ast_grep`, `agent`"),
        ('{agent="verify", prompt="x"}', "'verify' takes commands and no prompt: say these as `recipe`, or as"),
        ('{agent="recipe", prompt="x"}', "'recipe' takes commands and no prompt"),
        ('{agent="build"}', "`agent` and `prompt` come together"),
        ('{recipe=["a"], when="changed"}', "nothing comes before the first step"),
        ('{recipe=["a"]}, {agent="build", prompt="x", when="gate failed"}', "there is no [gate]"),
        ('{recipe=["a"]}, {agent="build", prompt="x", when="sometimes"}', "Input should be 'always', 'changed'"),
        ('{agent="build", prompt="mend {failure}"}', "which only shards by failures_of have"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(text, message):
    with pytest.raises(BadBatchFile) as caught:
        steps_of(text)

    assert message in str(caught.value)
