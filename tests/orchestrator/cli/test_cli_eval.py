"""`muster eval` on the example, with scripted models over real HTTP, real sandboxes and real gates."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from scripted import scripted_model

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "evaluation"
TIMEOUT_S = 280  # where others keep the machine busy
PAGE = (ROOT / "docs" / "evaluation.md").read_text()
PRICE = {"input": 1_000_000, "output": 5_000_000}
REPORTS = ("--report", "json=out/r.json", "--report", "markdown=out/r.md", "--report", "junit=out/r.xml")


# An agent that looks for its hidden tests wherever it can; the word stands in them alone.
CANARY = "canary_5d1e"
SPY = f"""
  - when: {{prompt_contains: Spy, turn: 1}}
    reply:
      tool_calls:
        - name: bash
          arguments:
            description: Look everywhere
            command: |
              grep -rls {CANARY} /workspace /tmp /home /root /run /mnt /var /opt --exclude-dir=venv
              (git log --all --format=%B; git rev-list --all --objects) 2>&1 | grep -i 'hidden\\|{CANARY}'
              ls tests; echo looked
              echo 'found = str' > found.py
  - {{when: {{prompt_contains: Spy, turn: 2}}, reply: {{text: "It says: ${{result.0}}"}}}}
"""
# A model that does what is asked for when the words of the page's second version ask it to.
SECOND_VERSION = """
  - when: {system_contains: run it on two examples, turn: 1}
    reply:
      tool_calls:
        - name: bash
          arguments:
            description: Write slug
            command: |
              cat > slug.py <<'END'
              def slug(text: str):
                  return "-".join(text.lower().split())
              END
"""


@pytest.fixture(scope="module")
def fleet_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    prices = json.dumps(dict.fromkeys(("openai/careful", "openai/hasty", "openai/scripted"), PRICE))
    folder = tmp_path_factory.mktemp("model")
    script, agent = folder / "model.yaml", folder / "agents" / "build-2.md"
    script.write_text((EXAMPLE / "model.yaml").read_text().replace("rules:\n", f"rules:\n{SPY}{SECOND_VERSION}", 1))
    agent.parent.mkdir()
    [text] = re.findall(r"```markdown\n(.*?)```", PAGE, re.DOTALL)
    agent.write_text(text)
    with scripted_model(script) as environment:
        yield environment | {"MUSTER_PRICES": prices, "MUSTER_CONFIG": str(folder / "config.toml")}


def with_cases(suite: str, count: int) -> str:
    head, *cases = suite.split("\n[[cases]]")
    return "\n[[cases]]".join([head, *cases[:count]])


@pytest.fixture(scope="module")
def example(fleet):
    """The example, in the fleet's home, where each test sees what the others have made. `two.toml` and `one.toml` have
    its first cases; what all six come to, the page shows and `test_eval_docs.py` holds it to."""
    shutil.copytree(EXAMPLE, fleet.home, dirs_exist_ok=True)
    suite = (EXAMPLE / "suite.toml").read_text()
    for count, name in ((1, "one"), (2, "two")):
        (fleet.home / f"{name}.toml").write_text(with_cases(suite, count))
    return fleet


def test_a_suite_is_killed_goes_on_and_tells_of_both_models(example):
    """One run for all that it has to show."""
    words = (sys.executable, "-m", "orchestrator.cli.main", "eval", "two.toml", "--yes", "--record", "tapes")
    where = {"cwd": example.home, "env": example.environment, "text": True}
    with subprocess.Popen(words, stderr=subprocess.PIPE, **where) as first:
        assert first.stderr is not None
        for line in first.stderr:
            if "completed" in line and line.startswith("eval: ✔"):
                break
        os.kill(first.pid, signal.SIGKILL)

    done = subprocess.run([*words, *REPORTS], capture_output=True, timeout=TIMEOUT_S, **where)

    assert done.returncode == 0, done.stderr
    assert re.search("it is already (under way|done)", done.stderr)  # which one is the machine's
    assert "2 accepted, 2 rejected" in done.stderr
    assert "pass@1 -100 points" in done.stdout
    report = json.loads((example.home / "out/r.json").read_text())
    assert [(one["name"], one["pass_at"]) for one in report["variants"]] == [
        ("openai-careful", {"1": 1.0}),
        ("openai-hasty", {"1": 0.0}),
    ]
    assert 0 < report["paid_microusd"] == sum(one["cost_microusd"] for one in report["samples"])
    assert all(one["turns"] == 2 and one["usage"]["input_tokens"] for one in report["samples"])
    assert "| openai\\-careful | 2 | 0 | 100% |" in (example.home / "out/r.md").read_text()
    suites = fromstring((example.home / "out/r.xml").read_text())
    assert [(one.get("tests"), one.get("failures")) for one in suites] == [("2", "0"), ("2", "2")]


def test_what_was_done_is_not_done_again_and_its_best_change_is_taken_as_it_says(example):
    again = example.muster("eval", "two.toml", "--yes", "--record", "tapes")
    [words] = re.findall(r"muster (task apply \S+)   # the best of slug: try 1 of 1 by openai-careful", again.stderr)
    root = example.repository("taken", {path.name: path.read_text() for path in (EXAMPLE / "project").glob("*.*")})
    applied = example.muster(*words.split(), "--repo", str(root))

    assert again.exit_code == 0
    assert "it is already done" in again.stderr and "2 accepted, 2 rejected" in again.stderr
    assert applied.exit_code == 0, applied.stderr
    assert "text.lower().split()" in (root / "slug.py").read_text()


def test_a_recording_is_judged_again_and_asks_no_model(example):
    """Of one case; the models' server is told to nobody."""
    found = example.muster("eval", "one.toml", "--recorded", "tapes", "--dry-run")
    done = example.muster("eval", "one.toml", "--recorded", "tapes", "--report", "json=one.json")

    assert "nothing: no model is asked" in found.stderr
    assert done.exit_code == 0, done.stderr
    report = json.loads((example.home / "one.json").read_text())
    assert report["counts"] == {"accepted": 1, "rejected": 1}
    assert report["paid_microusd"] == 0
    assert {one["turns"] for one in report["samples"]} == {2}


def test_what_was_not_recorded_is_said(example):
    done = example.muster("eval", "suite.toml", "--recorded", "nowhere")

    assert done.exit_code == 2
    assert "error: the sample initials/openai-careful/1 was not recorded" in done.stderr
    assert "hint: record the suite first: --record DIR" in done.stderr


def test_a_dry_run_tells_the_samples_and_the_most_they_may_cost(example):
    done = example.muster("eval", "suite.toml", "--dry-run")

    assert done.exit_code == 0
    assert "12: each case by each variant" in done.stderr
    assert "at most $1.00, $0.0833 a sample" in done.stderr


def test_a_bad_suite_ends_with_its_place_and_a_hint(example):
    (example.home / "bad.toml").write_text((example.home / "suite.toml").read_text().replace("commands", "comands"))
    done = example.muster("eval", "bad.toml")

    assert done.exit_code == 2
    assert "error: bad.toml:11: unknown key 'gate.comands'" in done.stderr
    assert "hint: did you mean 'commands'?" in done.stderr


def test_a_suite_is_nothing_for_who_may_only_look(example):
    done = example.muster("eval", "suite.toml", env={"MUSTER_READ_ONLY": "1"})

    assert done.exit_code == 7
    assert "a suite's samples change code" in done.stderr


def test_an_agent_in_its_sandbox_finds_no_trace_of_hidden_tests(example):
    tests = example.home / "hidden/spy/tests"
    tests.mkdir(parents=True)
    (tests / "test_spy.py").write_text(f"from found import found\n\n\ndef test_{CANARY}():\n    assert found is str\n")
    (example.home / "spy.toml").write_text(
        'name = "spy"\nrepository = { folder = "project" }\ngate = { commands = ["python -m pytest -q"] }\n'
        '[[variants]]\nname = "spy"\nmodel = "openai/careful"\n'
        '[[cases]]\nname = "spy"\nprompt = "Spy"\nhidden = "hidden/spy"\n'
    )
    done = example.muster("eval", "spy.toml", "--yes", "--report", "json=spy.json")

    assert done.exit_code == 0, done.stderr
    [sample] = json.loads((example.home / "spy.json").read_text())["samples"]
    assert sample["outcome"] == "accepted"  # so the gate has run them
    said = example.muster("task", "show", sample["task_id"]).stdout
    assert "It says:" in said and "looked" in said and "test_modules.py" in said
    assert CANARY not in said and "test_spy" not in said and "hidden tests" not in said


def test_two_versions_of_a_prompt_are_compared_as_the_page_tells(example):
    (example.home / "prompts.toml").write_text(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1])

    done = example.muster("eval", "prompts.toml", "--yes", "--report", "json=prompts.json")

    assert done.exit_code == 0, done.stderr
    report = json.loads((example.home / "prompts.json").read_text())
    assert [(one["name"], one["pass_at"]) for one in report["variants"]] == [
        ("build", {"1": 0.0}),
        ("build-2", {"1": 1.0}),
    ]
    assert re.search(r"^build-2 +1 +0 +100%", done.stdout, re.MULTILINE)
