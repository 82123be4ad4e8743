"""Reports where a CI system looks for them, and a batch that another process, on another machine, picks up."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from orchestrator.cli.leaving import GOES_AWAY, require_lasting
from orchestrator.cli.report_forms import FORMS
from orchestrator.errors import BadInput
from orchestrator.settings import Settings

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

FILES = {
    "src/box.py": "class Box(object):\n    pass\n",
    "test_box.py": "from src.box import Box\n\n\ndef test_box():\n    assert Box()\n",
}
BATCH = """\
name = "modernise"
[[repositories]]
path = "project"
[shards]
glob = "src/*.py"
[[steps]]
recipe = ["sed -i s/object// {path}"]
[gate]
commands = ["python -m pytest -q"]
[publish]
branch = "muster/modernise"
"""
BROKEN = BATCH.replace("s/object//", "s/Box/Bag/").replace("modernise", "broken") + '[merge]\ngate = "end"\n'


@pytest.fixture
def desk(fleet_desk):
    fleet_desk.repository("project", FILES)
    (fleet_desk.home / "batch.toml").write_text(BATCH)
    (fleet_desk.home / "broken.toml").write_text(BROKEN)
    return fleet_desk


@pytest.fixture
def elsewhere(fleet, tmp_path):
    """Another machine: the same Redis and keys, and nothing else of the first one's."""
    state = fleet.environment["MUSTER_STATE_DIR"]
    [socket] = fleet.home.glob("run/**/redis.sock")
    own = {
        "MUSTER_REDIS_URL": f"unix://{socket}",
        "MUSTER_KEYRING": f"{state}/keyring.json",
        "MUSTER_STATE_DIR": str(tmp_path / "state"),
    }
    return replace(fleet, home=tmp_path, environment=fleet.environment | own)


def reports(folder) -> list[str]:
    return [word for form in FORMS for word in ("--report", f"{form}={folder}/{form}")]


def branches(desk) -> list[str]:
    return desk.git("for-each-ref", "--format=%(refname:short)", "refs/heads", repository=desk.home / "project").split()


def test_what_cannot_be_reported_changes_no_exit_code_and_what_is_verified_waits_for_whoever_may_publish(desk):
    full = ("--report", "junit=/dev/full", "--report", "sarif=/proc/none/sarif.json")
    done = desk.muster("batch", "run", "batch.toml", "--no-publish", *full, "--report", "outputs=new/outputs")
    told = dict(line.split("=", 1) for line in (desk.home / "new" / "outputs").read_text().splitlines())
    before = branches(desk)
    set_now = desk.muster("publish", told["task"])

    assert (done.exit_code, set_now.exit_code) == (0, 0), done.stderr + set_now.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("warning: ")] == [
        "warning: the report junit was not written to /dev/full: No space left on device",
        "warning: the report sarif was not written to /proc/none/sarif.json: No such file or directory",
    ]
    assert (told["status"], told["exit_code"], told["verified"]) == ("completed", "0", "true")
    assert f"what is verified can be: muster publish {told['task']}" in done.stderr
    assert (before, branches(desk)) == (["main"], ["main", "muster/modernise"])
    assert told["commit"] == desk.git("rev-parse", "muster/modernise", repository=desk.home / "project")


def test_a_later_job_on_another_machine_picks_up_a_batch_with_its_exit_code_and_report(desk, elsewhere):
    left = desk.muster("batch", "run", "broken.toml", "--detach")
    task = left.stdout.strip()
    assert (left.exit_code, left.stdout) == (0, f"{task}\n"), left.stderr
    assert f"pick it up with: muster batch attach {task}" in left.stderr
    assert f"on this machine alone, in {desk.environment['MUSTER_STATE_DIR']}" in left.stderr

    picked = elsewhere.muster("batch", "attach", task, *reports("out"))
    again = elsewhere.muster("batch", "attach", task, *reports("again"))
    here = desk.muster("batch", "attach", task, "--no-publish")

    assert [done.exit_code for done in (picked, again, here)] == [1, 1, 1], picked.stderr
    assert "it was not started here, so that its branch is not set" in picked.stderr
    first, second = ({form: (elsewhere.home / out / form).read_text() for form in FORMS} for out in ("out", "again"))
    assert first == second
    failure = ElementTree.fromstring(first["junit"]).find("testsuite/testcase[@name='gate']/failure")
    assert failure is not None and "before: passed, 1 test" in (failure.text or "")
    assert "ImportError" in (failure.text or "") and "ImportError" in first["markdown"]
    assert first["github"].startswith("::error title=project%3A gate_")
    assert json.loads(first["codequality"])[0]["check_name"].startswith("gate_")
    assert branches(desk) == ["main"]


@pytest.mark.parametrize("marks", GOES_AWAY)
def test_nothing_is_left_on_a_machine_that_goes_away(marks, monkeypatch, tmp_path):
    for name, value in marks.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadInput, match="this machine goes away with its job"):
        require_lasting(Settings(state_dir=tmp_path))

    require_lasting(Settings(state_dir=tmp_path, redis_url="redis://fleet.example.com"))


def test_a_goal_is_picked_up_with_its_exit_code_and_report(desk, elsewhere):
    """Nobody can do it here: without a model it ends as an error, which is the same for whoever asks."""
    left = desk.muster("run", "tidy up", "--repo", "project", "--detach", "--model", "none/none")
    task = left.stdout.strip()
    picked = [elsewhere.muster("attach", task, "--report", f"junit=j{n}.xml") for n in range(2)]

    assert left.exit_code == 0, left.stderr
    assert {done.exit_code for done in picked} == {picked[0].exit_code}
    assert picked[0].exit_code in (2, 6)
    assert (elsewhere.home / "j0.xml").read_text() == (elsewhere.home / "j1.xml").read_text()
    failure = ElementTree.parse(elsewhere.home / "j1.xml").find("testsuite/testcase/failure")
    assert failure is not None and failure.get("type") == "gate"
