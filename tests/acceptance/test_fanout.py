"""docs/fanout.md as somebody follows it: one question to two files, the answers as one text and as JSON Lines."""

from __future__ import annotations

import json
import re

import pytest
from scripted import scripted_model
from shell import ROOT, User

pytestmark = [pytest.mark.acceptance, pytest.mark.docker, pytest.mark.redis]

PAGE = (ROOT / "docs" / "fanout.md").read_text()


def test_one_question_to_many_files(user: User):
    [prompt] = re.findall(r'muster fanout explore "([^"]+)" --over', PAGE)
    words = ("fanout", "explore", prompt, "--over", "more_itertools/[mr]*.py", "--repo", "more-itertools", "--no-input")
    with scripted_model(ROOT / "examples" / "fanout" / "model.yaml") as user.environment:
        asked = user.muster(*words)
        again = user.muster(*words, "--format", "jsonl")
        user.muster("down")

    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.strip() == re.findall(r"```markdown\n(.*?)\n```", PAGE, re.DOTALL)[0]
    assert "items     2 completed" in asked.stderr
    assert again.returncode == 0, again.stderr
    assert "nothing is submitted again" in again.stderr
    lines = [json.loads(line) for line in again.stdout.splitlines()]
    assert [line["item"]["path"] for line in lines] == ["more_itertools/more.py", "more_itertools/recipes.py"]
    assert {line["state"] for line in lines} == {"completed"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("explore", "look", "--over", "*.py"), "the prompt would be the same for every item"),
        (("explore", "look at {item}", "--over", "*.nothing"), "has no items"),
        (("explore", "look at {item}", "--over", "*.py", "--gather", "quorum"), "a quorum is at least 1"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_submits_nothing(user: User, words, error):
    refused = user.muster("fanout", *words, "--repo", "more-itertools")

    assert refused.returncode == 2
    assert refused.stderr.count("error:") == 1 and "hint:" in refused.stderr
    assert error in refused.stderr
    assert not (user.state / "redis").exists()
