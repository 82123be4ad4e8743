"""Which shards' edits of tests a person has asked for: by the paths that they wrote, not by what a glob meets."""

from __future__ import annotations

import pytest

from orchestrator.batch.asked import asked_for
from orchestrator.batch.shards import Shard
from orchestrator.batch.spec import Shards

FILES = {"src/a.py": "old\n", "tests/test_a.py": "assert\nold\n"}


@pytest.mark.parametrize(
    ("way", "is_named"),
    [
        ({"glob": "**/*.py"}, False),
        ({"glob": "**"}, False),
        ({"match": "old"}, False),
        ({"command": "list-them"}, False),
        ({"directories": "*"}, False),
        ({"glob": "tests/**/*.py"}, True),
        ({"glob": "**/test_*.py"}, True),
        ({"glob": "checks/*.py"}, True),
        ({"match": "old", "glob": "tests/**"}, True),
        ({"directories": "tests"}, True),
        ({"directories": "*/tests/"}, True),
        ({"files": ("src/a.py", "tests/test_a.py")}, True),
    ],
)
def test_tests_are_granted_where_the_person_wrote_of_tests(way, is_named):
    made = [Shard("src/a.py"), Shard("tests/test_a.py")]

    scope = asked_for(Shards(**way, also_edit=("NEWS",)), made, tests=("checks/**",))

    assert scope == (*(["edit:src/a.py", "edit:tests/test_a.py"] if is_named else []), "edit:NEWS")


@pytest.mark.parametrize(
    ("way", "objections"),
    [('glob = "**/*.py"', ["tests_edited"]), ('files = ["src/a.py", "tests/test_a.py"]', [])],
    ids=["a broad glob", "by name"],
)
async def test_tests_that_only_a_broad_glob_met_do_not_excuse_what_fails_with_the_old_ones(
    stage, batch_text, way, objections
):
    def agree(files):
        """The test passes where it was changed together with the code."""
        agrees = ("old" in files["src/a.py"]) == ("old" in files["tests/test_a.py"])
        return {"passed": 1, "failed": int(not agrees), "errors": 0, "skipped": 0}

    stage.builders.tests = agree
    text = batch_text.replace('glob = "src/*.py"', way) + '[merge]\ngate = "end"\n'

    _, report = await stage.batch(await stage.repository(FILES), text=text)

    [repository] = report.repositories
    assert [objection.code for objection in repository.evidence.objections] == objections
    assert repository.verified is not bool(objections)
