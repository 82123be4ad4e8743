"""A batch as a person meets it: command, fleet, sandboxes, gate, branch; and what an interrupt leaves."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

FILES = {
    "shapes/box.py": "class Box(object):\n    pass\n",
    "shapes/ball.py": "class Ball(object):\n    pass\n",
    "test_shapes.py": "from shapes.box import Box\n\n\ndef test_box():\n    assert Box()\n",
}
BATCH = """\
name = "modernise"
[[repositories]]
path = "project"
[shards]
glob = "shapes/*.py"
[[steps]]
recipe = [{command!r}]
ok_exit_codes = [0, 1]
[gate]
commands = ["python -m pytest -q"]
[publish]
branch = "muster/modernise"
"""
CODEMOD = "ruff check --isolated --quiet --fix --select UP --target-version py38 {path}"


@pytest.fixture
def desk(fleet_desk):
    return fleet_desk


@pytest.fixture
def project(desk) -> Path:
    (desk.home / "batch.toml").write_text(BATCH.format(command=CODEMOD))
    return desk.repository("project", FILES)


def _branches(desk, project: Path) -> list[str]:
    return desk.git("for-each-ref", "--format=%(refname:short)", "refs/heads", repository=project).split()


def test_a_batch_ends_in_a_verified_branch_and_its_repetition_in_the_same_one(desk, project):
    first = desk.muster("batch", "run", "batch.toml")
    assert first.exit_code == 0, first.stderr
    assert "✔ done and verified" in first.stderr
    assert "gate      before: passed, 1 test" in first.stderr
    assert "gate      after: passed, 1 test" in first.stderr
    assert "changed   2 files, +2 −2" in first.stderr
    commit = desk.git("rev-parse", "muster/modernise", repository=project)
    assert f"muster/modernise at {commit[:12]}" in first.stderr
    assert desk.git("show", "muster/modernise:shapes/box.py", repository=project).startswith("class Box:")
    assert desk.git("status", "--porcelain", repository=project) == ""

    desk.git("worktree", "add", "-q", "../review", "muster/modernise", repository=project)
    again = desk.muster("batch", "run", "batch.toml")
    assert again.exit_code == 0, again.stderr
    assert "is already done as" in again.stderr
    assert "✔ done and verified" in again.stderr and "started" not in again.stderr
    assert desk.git("rev-parse", "muster/modernise", repository=project) == commit
    text = (desk.home / "batch.toml").read_text()
    (desk.home / "batch.toml").write_text(text.replace("pytest -q", "pytest -qq"))
    other = desk.muster("batch", "run", "batch.toml")  # whose shards are done, and whose proof is not
    assert (other.exit_code, "muster/modernise is checked out" in other.stderr) == (2, True), other.stderr

    _take_the_change_along(
        desk, project, json.loads(desk.muster("batch", "list", "--json").stdout.splitlines()[0])["task_id"]
    )


def test_a_branch_that_must_not_be_set_hides_nothing_of_what_was_done(desk, project):
    named = (desk.home / "batch.toml").read_text()
    (desk.home / "batch.toml").write_text(named.replace("muster/modernise", "main"))
    before = desk.git("rev-parse", "main", repository=project)
    early = [desk.muster("batch", command, "batch.toml") for command in ("run", "check")]
    shown = desk.muster("batch", "preview", "batch.toml")
    (desk.home / "batch.toml").write_text(named)
    task_id = desk.muster("batch", "run", "batch.toml", "--detach").stdout.strip()
    desk.git("checkout", "-q", "-b", "muster/modernise", repository=project)  # meanwhile
    done = desk.muster("batch", "attach", task_id)
    elsewhere = desk.muster("publish", task_id, "--branch", "mine", "--repo", "project")

    for refused in early:
        assert refused.exit_code == 2 and "starting the fleet" not in refused.stderr
        assert refused.stderr.splitlines()[-2:] == [
            "error: project: The branch main is checked out",
            "hint: publish to another branch, then merge it",
        ]
    assert "it cannot be published: project: The branch main is checked out" in shown.stderr
    assert done.exit_code == 2, done.stderr
    assert "✔ done and verified" in done.stderr and f"muster task diff {task_id}" in done.stderr
    assert done.stderr.splitlines()[-2:] == [
        "error: project: The branch muster/modernise is checked out",
        "hint: publish to another branch, then merge it; all of its repositories under another name:"
        f" muster publish {task_id} --branch NAME",
    ]
    assert elsewhere.exit_code == 0, elsewhere.stderr
    at = [desk.git("rev-parse", name, repository=project) for name in ("main", "muster/modernise")]
    assert (at, _branches(desk, project)) == ([before, before], ["main", "mine", "muster/modernise"])


def test_a_batch_is_looked_at_before_anything_is_done(desk, project):
    shown = desk.muster("batch", "preview", "batch.toml")
    as_json = json.loads(desk.muster("batch", "preview", "batch.toml", "--json").stdout)
    checked = desk.muster("batch", "check", "batch.toml")
    (project / "shapes" / "box.py").write_text("changed\n")
    dirty = desk.muster("batch", "check", "batch.toml")
    made = desk.muster("batch", "init", "mine.toml", "--repo", "project")
    again = desk.muster("batch", "init", "mine.toml")
    mine = desk.muster("batch", "preview", "mine.toml")

    assert shown.exit_code == 0, shown.stderr
    assert "2 shards of project at" in shown.stderr
    assert "cost      nothing: no model is asked" in shown.stderr
    assert as_json["repositories"][0]["shards"] == ["shapes/ball.py", "shapes/box.py"]
    assert (checked.exit_code, "can be run: 2 shards in 1 repository" in checked.stderr) == (0, True)
    assert (dirty.exit_code, "not committed: shapes/box.py" in dirty.stderr) == (2, True)
    assert (made.exit_code, again.exit_code, mine.exit_code) == (0, 2, 0)
    assert "mine.toml is there already" in again.stderr


def test_what_failed_is_tried_again_and_what_was_done_is_not(desk, project):
    command = f"case {{path}} in */box.py) exit 3;; esac; {CODEMOD}"
    (desk.home / "batch.toml").write_text(BATCH.format(command=command))
    first = desk.muster("batch", "run", "batch.toml")
    task_id = _latest_batch(desk)["task_id"]
    shown = desk.muster("batch", "diff", "batch.toml")
    looked = desk.muster("batch", "preview", "batch.toml")
    again = desk.muster("batch", "retry", "--failed", task_id)
    report = json.loads(desk.muster("batch", "show", _latest_batch(desk)["task_id"], "--json").stdout)
    counted = desk.muster("batch", "status", task_id).stderr
    wrong = desk.muster("batch", "retry", report["repositories"][0]["shards"][0]["task_id"])

    assert (first.exit_code, again.exit_code) == (8, 8), again.stderr  # partly done
    assert "not done  1 × recipe_failed: " in first.stderr
    assert f"muster batch retry {task_id}" in first.stderr
    told = " ".join(shown.stderr.split())
    assert "shards 0 new, 0 changed, 1 repeated, 1 same, 0 gone repeated project:shapes/box.py: " in told
    assert "1 shard of the last run as before, 1 to do" in looked.stderr
    assert "0 new, 0 changed, 1 repeated, 1 same, 0 gone" in again.stderr
    assert "1 merged, 1 not done (1 as before)" in again.stderr
    assert "shards    1 failed, 1 merged" in counted
    assert (wrong.exit_code, "is no batch" in wrong.stderr) == (2, True)


def _latest_batch(desk) -> dict[str, str]:
    return json.loads(desk.muster("batch", "list", "--json").stdout.splitlines()[0])


def _take_the_change_along(desk, project: Path, task_id: str) -> None:
    """The commands that the summary names do what it says."""
    assert desk.muster("task", "diff", task_id).stdout.count("\n+class ") == 2
    applied = desk.muster("task", "apply", task_id, "--repo", "project")
    assert applied.exit_code == 0, applied.stderr
    assert (project / "shapes/box.py").read_text().startswith("class Box:")
    twice = desk.muster("task", "apply", task_id, "--repo", "project")
    assert twice.exit_code == 2
    assert "does not fit" in twice.stderr
    assert "batch modernise" not in desk.muster("task", "logs", task_id).stderr
    assert "gate after: passed, 1 test" in desk.muster("task", "logs", task_id[-8:]).stdout
    whole = json.loads(desk.muster("batch", "show", task_id, "--json").stdout)
    assert [shard["outcome"] for shard in whole["repositories"][0]["shards"]] == ["applied", "applied"]
    assert "gate      after: passed, 1 test" in desk.muster("batch", "show", task_id).stderr
    assert desk.muster("batch", "report", task_id[-8:]).stdout.startswith("### modernise: verified\n")
    assert 'name="gate"' in desk.muster("batch", "report", task_id, "--format", "junit").stdout
    wrong = desk.muster("batch", "report", task_id, "--format", "junt")
    assert (wrong.exit_code, "did you mean 'junit'?" in wrong.stderr) == (2, True)
    shown = json.loads(desk.muster("task", "show", task_id[-8:], "--json").stdout)
    assert shown["result"]["output"]["structured"]["repositories"][0]["verified"] is True
    attached = desk.muster("batch", "attach", task_id[-8:], "--json")
    assert attached.exit_code == 0, attached.stderr
    entries = [json.loads(line) for line in attached.stdout.splitlines()]
    assert entries[-1]["kind"] == "result"
    assert entries[-1]["task_id"] == task_id


def _containers_of(home: Path) -> set[str]:
    """Sandboxes mount the tool server from their fleet's state folder."""
    words = ("docker", "ps", "-a", "--no-trunc", "--filter", "label=muster.owner", "--format", "{{.Names}} {{.Mounts}}")
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines() if str(home) in line}


def _at_a_terminal(desk, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "orchestrator.cli.main", *words]
    environment = {**desk.environment, "TERM": "xterm"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=desk.home, env=environment, start_new_session=True
    )
    os.close(theirs)
    return process, ours


def _read_until(terminal: int, text: str) -> str:
    seen = ""
    while text not in seen:
        try:
            seen += os.read(terminal, 4096).decode("utf-8", "replace")
        except OSError:
            raise AssertionError(f"the command ended before it said {text!r}:\n{seen}") from None
    return seen


@pytest.mark.parametrize(("answer", "ended", "word"), [(b"\n", True, "cancelling"), (b"d\n", False, "it goes on")])
def test_an_interrupt_asks_and_leaves_nothing_half_done(fleet, desk, project, answer, ended, word):
    (desk.home / "batch.toml").write_text(BATCH.format(command="sleep 60"))
    earlier = _containers_of(fleet.home)  # which wait for more shards of batches of other tests, for a while
    command, terminal = _at_a_terminal(desk, "batch", "run", "batch.toml")
    _read_until(terminal, "bash sleep 60")
    os.kill(command.pid, signal.SIGINT)
    _read_until(terminal, "[d/C]")
    os.write(terminal, answer)
    _read_until(terminal, word)
    _drain(terminal)
    assert command.wait(60) == 130
    assert _branches(desk, project) == ["main"]
    os.close(terminal)
    batch = _latest_batch(desk)
    assert (batch["state"] == "cancelled") is ended
    if not ended:
        assert desk.muster("batch", "cancel", batch["task_id"]).exit_code == 0
        desk.muster("task", "watch", batch["task_id"])
    assert _containers_of(fleet.home) <= earlier


def _drain(terminal: int) -> None:
    """Read to the end, so that the command never waits for its terminal."""
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        return  # Linux's way to say that the other side is closed


def test_a_second_run_does_what_changed_and_says_so_first(desk, project):
    first = desk.muster("batch", "run", "batch.toml")
    (project / "shapes" / "box.py").write_text("class Box(object):\n    sides = 6\n")
    desk.git("commit", "-aqm", "more", repository=project)
    (desk.home / "batch.toml").write_text(BATCH.format(command=CODEMOD) + "[limits]\nshard_deadline_s = 600\n")

    shown = desk.muster("batch", "diff", "batch.toml")
    again = desk.muster("batch", "run", "batch.toml")
    status = json.loads(desk.muster("batch", "status", _latest_batch(desk)["task_id"], "--json").stdout)

    assert first.exit_code == 0, first.stderr
    told = " ".join(shown.stderr.split())
    assert "shards 0 new, 1 changed, 0 repeated, 1 same, 0 gone changed project:shapes/box.py" in told
    assert '+    "shard_deadline_s": 600' in shown.stdout
    assert again.exit_code == 0, again.stderr
    assert "since the last run of batch.toml: 0 new, 1 changed, 0 repeated, 1 same, 0 gone" in again.stderr
    assert "2 merged (1 as before)" in again.stderr
    assert "sides = 6" in desk.git("show", "muster/modernise:shapes/box.py", repository=project)
    assert (status["state"], status["tasks"]) == ("completed", {"done": 4})


def test_shards_by_a_command_go_through_steps_in_real_sandboxes(desk):
    """Whatever the project's own rules keep out of patches."""
    project = desk.repository("project", {".gitignore": "*\n!*/\n!*.py\n!.gitignore\n"} | FILES)
    shards = "command = 'grep -l object shapes/*.py'"
    steps = """\
libcst = "rename.RenameCommand --old_name shapes.box.Box --new_name shapes.box.Crate"
[[steps]]
recipe = ["sed -i 's/(object)//' {path}", "test {name} != ball"]
[[steps]]
recipe = ["echo '# {repository}' >> {path}"]
when = "failed"
"""
    text = BATCH.replace('glob = "shapes/*.py"', shards).replace(
        "recipe = [{command!r}]\nok_exit_codes = [0, 1]\n", steps
    )
    (desk.home / "batch.toml").write_text(text)

    looked = desk.muster("batch", "preview", "batch.toml")
    done = desk.muster("batch", "run", "batch.toml")

    assert "as many shards as its command prints of project" in looked.stderr
    assert done.exit_code == 0, done.stderr
    assert "2 merged" in done.stderr
    # what the failed step had changed is not kept; what is done where it failed starts from before it
    ball = desk.git("show", "muster/modernise:shapes/ball.py", repository=project)
    assert ball == "class Ball(object):\n    pass\n# project"
    assert desk.git("show", "muster/modernise:shapes/box.py", repository=project) == "class Box:\n    pass"
    files = desk.git("ls-tree", "-r", "--name-only", "muster/modernise", repository=project)
    assert files.split() == sorted([".gitignore", *FILES])


def test_a_thousand_shards_too_many_are_asked_about(desk):
    files = {f"src/f{number}.py": "x\n" for number in range(1_001)}
    desk.repository("project", files)
    (desk.home / "batch.toml").write_text(BATCH.format(command=CODEMOD).replace("shapes", "src"))

    done = desk.muster("batch", "run", "batch.toml", "--detach")
    looked = desk.muster("batch", "preview", "batch.toml")

    assert (looked.exit_code, "1001 shards of project at" in looked.stderr) == (0, True), looked.stderr
    assert "more than 1000 shards: `muster batch run` asks first" in " ".join(looked.stderr.split())
    assert done.exit_code == 2
    assert "error: batch.toml makes 1001 shards, more than 1000" in done.stderr
    assert "run it with --yes" in done.stderr
