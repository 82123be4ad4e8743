"""Recipe tasks from the queue to the result: real Redis, real Docker, real git."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from envelope.errors import ErrorCode
from envelope.events import CallState, ToolCallChanged
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress, Workspace
from envelope.redaction import register_secret
from orchestrator.read_only import as_read_only

pytestmark = [pytest.mark.redis, pytest.mark.docker]

CODEMOD = "sed -i \"s/'Hello %s' % name/f'Hello {name}'/\" src/greet.py"


async def test_a_codemod_changes_a_file_and_the_patch_comes_back(hands, workspace: Workspace):
    result = await hands.result(hands.recipe(CODEMOD, workspace=workspace, auth_scope=("edit:src/**", "bash:sed *")))

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert [(file.path, file.status) for file in result.patch.files] == [("src/greet.py", "M")]
    assert (result.patch.added, result.patch.removed, result.patch.base) == (1, 1, workspace.base)
    assert "+    return f'Hello {name}'" in await hands.diff(result)
    assert [(call.tool, call.is_error) for call in result.tool_calls] == [("bash", False)]
    assert result.metrics.latency_ms > 0


async def test_a_recipe_that_changes_nothing_returns_no_patch(hands, workspace: Workspace):
    result = await hands.result(hands.recipe("true", workspace=workspace))

    assert (result.status, result.patch) == (State.COMPLETED, None)


async def test_an_edit_outside_the_grants_ends_the_task_and_is_kept_apart(hands, workspace: Workspace):
    commands = (CODEMOD, "echo 'X = 2' > src/other.py")
    scope = ("edit:src/greet.py", "bash:**")

    result = await hands.result(hands.recipe(*commands, workspace=workspace, auth_scope=scope))

    assert result.status is State.ERROR
    assert result.errors[0].code is ErrorCode.OUT_OF_SCOPE
    assert "src/other.py" in result.errors[0].message
    assert [file.path for file in result.patch.files] == ["src/greet.py"]
    refused = (await hands.transport.blobs.get(result.attachments[0].blob)).decode()
    assert "+X = 2" in refused


@pytest.mark.parametrize("agent", ["recipe", "verify"])
async def test_what_a_stranger_sent_cannot_change_the_workspace(hands, workspace: Workspace, agent: str):
    """A gate, which has no grant to edit either, can: tests write files."""
    changes = "echo 'X = 2' > src/other.py; cat src/other.py; touch new || echo refused"
    gate = hands.recipe(changes, agent="verify", workspace=workspace, auth_scope=("bash:**", "read:**"))
    asked = hands.recipe(changes, agent=agent, workspace=workspace, auth_scope=("bash:**", "read:**", "edit:**"))

    of_gate, result = await hands.result(gate), await hands.result(as_read_only(asked))

    assert of_gate.output.structured["steps"][0]["output_tail"] == "X = 2\n"
    [step] = result.output.structured["steps"]
    assert step["output_tail"].count("Read-only file system") == 2
    assert step["output_tail"].splitlines()[-1] == "refused" and "X = 1" in step["output_tail"]
    assert (result.status, result.patch) == (State.COMPLETED, None)


async def test_a_command_outside_the_scope_is_refused_before_anything_runs(hands, workspace: Workspace):
    result = await hands.result(
        hands.recipe("touch a", "rm -rf src", workspace=workspace, auth_scope=("edit:**", "bash:touch *"))
    )

    assert result.errors[0].code is ErrorCode.OUT_OF_SCOPE
    assert "rm -rf src" in result.errors[0].message
    assert result.patch is None


async def test_a_failing_command_stops_the_recipe_and_says_what_it_printed(hands, workspace: Workspace):
    result = await hands.result(hands.recipe("echo broken >&2; exit 3", "touch never", workspace=workspace))

    assert result.status is State.ERROR
    assert result.errors[0].code is ErrorCode.RECIPE_FAILED
    assert "ended with 3" in result.errors[0].message
    assert "broken" in result.errors[0].message
    assert len(result.output.structured["steps"]) == 1


async def test_an_exit_code_that_was_announced_is_a_success(hands, workspace: Workspace):
    request = hands.request(
        workspace=workspace, input=TaskInput(params={"commands": ["exit 1"], "ok_exit_codes": [0, 1]})
    )

    assert (await hands.result(request)).status is State.COMPLETED


async def test_verify_counts_the_tests_and_names_the_tree_it_tested(hands, workspace: Workspace):
    commands = ("python -m pytest -q", "python -m pytest -q -k nothing_like_this", "false")
    result = await hands.result(hands.recipe(*commands, agent="verify", workspace=workspace))

    assert result.status is State.COMPLETED
    assert result.patch is None
    steps = result.output.structured["steps"]
    assert steps[0]["tests"] == {"passed": 2, "failed": 0, "errors": 0, "skipped": 0, "total": 2}
    assert (steps[0]["exit_code"], steps[2]["exit_code"]) == (0, 1)
    assert steps[1]["tests"]["total"] == 0
    assert len(result.output.structured["tree"]) == 40


async def test_verify_reads_the_reports_that_its_commands_write_and_none_that_lay_there(hands, workspace: Workspace):
    case = "<testsuite><testcase classname='t' name='{}'/></testsuite>"
    fake = await hands.result(
        hands.recipe(f'mkdir out && echo "{case.format("fake")}" > out/fake.xml', workspace=workspace)
    )
    changed = workspace.model_copy(update={"changes": fake.patch.diff})
    one = "echo \"<testsuite><testcase name='$name'/></testsuite>\" > out/$name.xml"
    write = f"mkdir -p out; for name in a b; do {one}; done"
    commands = [write, "python -m pytest -q", "ls out"]
    request = hands.request(
        agent="verify", workspace=changed, input=TaskInput(params={"commands": commands, "junit": "out/*.xml"})
    )

    steps = (await hands.result(request)).output.structured["steps"]

    assert (steps[0]["counted_by"], steps[0]["names"]["passed"]) == ("junit at out/*.xml", ["a", "b"])
    assert (steps[1]["counted_by"], steps[1]["names"]["passed"]) == (
        "junit",
        ["tests.test_greet::test_again", "tests.test_greet::test_greet"],
    )
    assert (steps[2]["counted_by"], steps[2]["tests"]) == ("", None)


async def test_verify_sees_the_changes_that_come_with_the_request(hands, workspace: Workspace):
    made = await hands.result(hands.recipe("echo 'assert False' >> tests/test_greet.py", workspace=workspace))
    changed = workspace.model_copy(update={"changes": made.patch.diff})

    result = await hands.result(hands.recipe("python -m pytest -q", agent="verify", workspace=changed))

    assert result.output.structured["steps"][0]["tests"]["errors"] == 1
    assert result.output.structured["tree"] == made.patch.tree


async def test_a_gates_command_that_never_ends_is_killed_with_all_that_it_started(hands, workspace: Workspace):
    """Also what left its session; the next command runs all the same."""
    child = 'echo $$ > /tmp/$0; echo $0 started; trap "" TERM HUP INT; sleep 600; sleep 600'
    hang = f"sh -c '{child}' plain & setsid sh -c '{child}' apart & wait"
    look = "for name in plain apart; do kill -0 $(cat /tmp/$name) 2>/dev/null && echo $name lives; done; cat /tmp/plain"
    request = hands.request(
        agent="verify", workspace=workspace, input=TaskInput(params={"commands": [hang, look], "timeout_s": 4})
    )

    result = await hands.result(request)

    slow, after = result.output.structured["steps"]
    assert (result.status, slow["timed_out"], slow["tests"]) == (State.COMPLETED, True, None)
    assert slow["exit_code"] != 0 and "plain started" in slow["output_tail"] and "apart started" in slow["output_tail"]
    assert after["exit_code"] == 0 and "lives" not in after["output_tail"] and after["output_tail"].strip()


async def test_compiled_code_that_a_change_brings_along_is_not_run_for_its_source(hands, workspace: Workspace):
    stale = "import py_compile as c; c.compile('lib.py', invalidation_mode=c.PycInvalidationMode.UNCHECKED_HASH)"
    commands = ("echo 'RIGHT = 1' > lib.py", f'python -c "{stale}"', "echo 'RIGHT = 0' > lib.py")
    made = await hands.result(hands.recipe(*commands, workspace=workspace))
    changed = workspace.model_copy(update={"changes": made.patch.diff})
    look = 'ls __pycache__ && python -c "import lib; assert lib.RIGHT == 0"'
    by_another_way = "python -c \"import sys; sys.path[0] = '/proc/self/cwd'; import lib; assert lib.RIGHT == 0\""

    result = await hands.result(hands.recipe(look, by_another_way, agent="verify", workspace=changed))

    first, second = result.output.structured["steps"]
    assert (first["exit_code"], "lib." in first["output_tail"], second["exit_code"]) == (0, True, 0), (first, second)


async def test_libraries_are_not_compiled_anew_for_each_command_of_a_gate(hands, workspace: Workspace):
    look = 'python -c "import decimal, os; print(os.path.isfile(decimal.__cached__), decimal.__cached__)"'

    [step] = (await hands.result(hands.recipe(look, agent="verify", workspace=workspace))).output.structured["steps"]

    assert step["output_tail"].startswith("True /usr/lib/python3"), step["output_tail"]


async def test_each_command_is_seen_as_it_starts_and_ends(hands, workspace: Workspace):
    request = hands.recipe("echo one", "echo two", workspace=workspace)
    await hands.result(request)

    seen = [
        (event.title, event.state)
        async for entry in hands.transport.follow(request.trace_id)
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
        if isinstance(event, ToolCallChanged)
    ]
    both = (CallState.RUNNING, CallState.COMPLETED)
    assert seen == [(title, state) for title in ("echo one", "echo two") for state in both]


async def test_a_cancelled_task_ends_and_its_sandbox_is_gone(hands, workspace: Workspace, driver):
    request = hands.recipe("echo started; sleep 600", workspace=workspace)
    await hands.transport.submit([request])
    async with asyncio.timeout(60):
        async for entry in hands.transport.follow(request.trace_id):
            if isinstance(entry.message, TaskProgress) and any(e.kind == "tool_call" for e in entry.message.events):
                break
    await hands.transport.cancel(request.task_id, by="test", reason="enough")

    result = await hands.ended(request.task_id)

    assert result.status is State.CANCELLED
    assert "enough" in result.errors[0].message
    assert hands.metrics.registry.get_sample_value("muster_sandbox_active") == 0


async def test_a_task_past_its_deadline_expires(hands, workspace: Workspace):
    result = await hands.result(hands.recipe("sleep 600", workspace=workspace, deadline_ms=1500))

    assert result.status is State.EXPIRED


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"agent": "nobody"}, ErrorCode.BAD_INPUT, "no agent 'nobody'"),
        ({"input": TaskInput(params={"comands": ["true"]})}, ErrorCode.BAD_INPUT, "comands"),
        ({"workspace": Workspace(path="/etc", base="0" * 40)}, ErrorCode.BAD_INPUT, "/etc"),
        ({"workspace": Workspace(bundle="sha256:" + "0" * 64, base="0" * 40)}, ErrorCode.BAD_INPUT, "sha256"),
        ({"workspace": Workspace(url="https://localhost:1/x.git", base="0" * 40)}, ErrorCode.REPOSITORY, "fetched"),
        ({"agent": "build"}, ErrorCode.MODEL_UNKNOWN, "no model"),
    ],
)
async def test_bad_input_is_told_with_its_code(hands, fields, code, words):
    fields = {"input": TaskInput(params={"commands": ["true"]}), **fields}

    result = await hands.result(hands.request(**fields))

    assert (result.status, result.errors[0].code) == (State.ERROR, code)
    assert words in result.errors[0].message


async def test_a_setup_that_fails_says_which_command_and_what_it_printed(hands, workspace: Workspace):
    broken = workspace.model_copy(update={"setup": ("echo no such thing; exit 4",)})

    result = await hands.result(hands.recipe("true", workspace=broken))

    assert result.errors[0].code is ErrorCode.SETUP_FAILED
    assert "no such thing" in result.errors[0].message


async def test_a_setup_that_goes_beyond_its_bound_says_so_and_who_can_raise_it(start_hands, workspace: Workspace):
    hands = await start_hands(setup_max_gib=8 / 1024)
    large = workspace.model_copy(update={"setup": ("head -c 20000000 /dev/zero > /opt/venv/large",)})

    [error] = (await hands.result(hands.recipe("true", workspace=large))).errors

    assert error.code is ErrorCode.SETUP_FAILED
    assert "left no room in" in error.message and "a setup may write 8.0 MiB and 390 files" in error.message
    assert "`setup_max_gib`" in error.hint


@pytest.fixture
async def set_up(hands, pack):
    """`await set_up(setup, change, …commands)`: what a gate tells, with that setup and a change that this makes."""
    workspace = await pack({".gitignore": "dist/\nnode_modules/\n", "requirements.txt": "pytest\n"})

    async def run(setup: str, change: str, *commands: str):
        made = await hands.result(hands.recipe(change, workspace=workspace))
        fields = {"changes": made.patch.diff, "setup": (setup,)}
        params = {"commands": list(commands), "repeats_setup": True}
        changed = workspace.model_copy(update=fields)
        result = await hands.result(hands.request(agent="verify", workspace=changed, input=TaskInput(params=params)))
        assert (result.status, result.errors) == (State.COMPLETED, ())
        assert result.output.structured["tree"] == made.patch.tree
        return result.output.structured

    return run


async def test_what_setup_made_of_the_project_is_made_again_of_the_change(set_up):
    setup = (
        "mkdir -p dist node_modules; cp src/*.py dist/; [ -e node_modules/x ] || echo first > node_modules/x;"
        " echo 'Y = 2' >> src/greet.py; touch new; mkdir ~/.shut; echo no > ~/.shut/left; chmod 311 ~/.shut"
    )
    look = "ls dist; cat node_modules/x dist/greet.py; tail -1 src/greet.py; ls -d new ~/.shut 2>&1 | grep -c 'No such'"

    told = await set_up(setup, f"{CODEMOD}; git mv src/other.py src/another.py", look)

    assert [step["command"] for step in told["steps"]] == [look]
    assert told["steps"][0]["output_tail"].split("\n") == [
        "another.py", "greet.py", "first", "def greet(name):", "    return f'Hello {name}'",
        "    return f'Hello {name}'", "2", "",
    ]  # fmt: skip


@pytest.mark.parametrize("takes", ["touch /opt/venv/mine", "env | grep -q https_proxy"])
async def test_a_change_sets_up_without_a_network_and_writes_nothing_of_the_image(set_up, takes: str):
    told = await set_up(takes, CODEMOD, "true")

    assert told["steps"] == []
    assert told["setup_failure"].startswith(f"the command `{takes}` ended with 1")


async def test_a_change_of_what_setup_goes_by_is_told(set_up):
    told = await set_up("pip install -r requirements.txt", f"{CODEMOD}; echo six >> requirements.txt", "true")

    assert (told["setup_read"], told["steps"][0]["exit_code"]) == (["requirements.txt"], 0)


async def test_a_host_path_is_read_when_the_operator_allows_it(start_hands, repository: Path, workspace: Workspace):
    hands = await start_hands(allowed_roots=(repository.parent,))
    local = Workspace(path=str(repository), base=workspace.base)

    result = await hands.result(hands.recipe(CODEMOD, workspace=local))

    assert result.status is State.COMPLETED, result.errors


async def test_nothing_of_the_workers_environment_enters_the_sandbox(hands, monkeypatch):
    monkeypatch.setenv("MUSTER_MODEL_API_KEY", "canary-7f3a91")

    result = await hands.result(hands.recipe("env; cat /proc/1/environ | tr '\\0' '\\n'"))

    assert "canary-7f3a91" not in result.output.text
    assert "PATH=" in result.output.text


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"context_refs": ({"type": "file", "id": "src/greet.py"},)}, "context_refs"),
        ({"output_schema": {"type": "object"}}, "output_schema"),
    ],
)
async def test_what_would_be_ignored_is_refused_with_its_name(hands, fields, name):
    result = await hands.result(hands.recipe("true", **fields))

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.BAD_INPUT)
    assert name in result.errors[0].message and name in result.errors[0].hint


async def test_a_recipe_runs_in_the_subfolder(hands, workspace: Workspace):
    inside = workspace.model_copy(update={"subpath": "src"})

    recipe = await hands.result(hands.recipe("ls", workspace=inside))

    assert "greet.py" in recipe.output.text


async def test_a_result_that_cannot_travel_ends_with_a_clear_error_and_keeps_the_patch(hands, workspace: Workspace):
    many = f"mkdir many; cd many; seq -f {'x' * 200}%g 1 5000 | xargs touch"

    result = await hands.result(hands.recipe(many, workspace=workspace))

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.BAD_INPUT)
    assert "over the limit" in result.errors[0].message and "split the task" in result.errors[0].hint
    [attachment] = result.attachments
    diff = await hands.transport.blobs.get(attachment.blob)
    assert attachment.name == "patch.diff" and diff.count(b"new file mode") == 5000


async def test_a_secret_that_a_cut_would_halve_is_not_shown(hands):
    secret = "canary-secret-at-the-edge"
    register_secret(secret)
    request = hands.recipe(f"printf '%s' {secret}; head -c 390 /dev/zero | tr '\\0' x")
    result = await hands.result(request)

    events = [
        event
        async for entry in hands.transport.follow(request.trace_id)
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
    ]
    assert "edge" not in repr(events) + repr(result)


async def test_finished_tasks_are_counted_by_outcome_and_reason(hands, workspace: Workspace):
    await hands.result(hands.recipe("true", workspace=workspace))
    await hands.result(hands.recipe("false", workspace=workspace))
    await hands.stop()  # a worker counts a task just after its result can be read

    def value(outcome: str, reason: str) -> float | None:
        labels = {"pool": "build", "outcome": outcome, "reason": reason}
        return hands.metrics.registry.get_sample_value("muster_tasks_finished_total", labels)

    assert (value("completed", "none"), value("error", "recipe_failed")) == (1, 1)
    assert hands.metrics.registry.get_sample_value("muster_sandbox_created_total") == 2
