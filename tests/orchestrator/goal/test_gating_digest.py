"""What the digests of two runs say against a change: a table."""

from __future__ import annotations

import pytest

from envelope.recipe import CodeDigest, RecipeStep, TestCounts, TestNames
from orchestrator.gating.control import control_notes, digest_objection

BASE = CodeDigest(
    tests={"t.py::test_a": "1", "t.py::test_b": "2", "u.py::test_c": "3"},
    code={"t.py": {"helper": "4", "TestIt.setUp": "5"}},
    runner={"unittest.case": "6"},
    changed=("warnings._showwarnmsg_impl", "t.py: COUNT"),
    plugins=("pyfunc_call: _pytest.python.pytest_pyfunc_call", "plugin conftest.py"),
    libraries=("numpy", "shop"),
    modules=("calc", "shop"),
)  # fmt: skip

# What differs, and is no file; a change may well add a file that is called so.
NAMED_LIKE = (
    *("json.loads", "the module json", "the code of unittest.case.TestCase.run", "unittest.case.TestCase.assertEqual"),
    *("a tracer", "the working folder", "the module json is of a kind X"),
)
TOUCHED = {"touched.py", "tests/hooks.py", "calc/core.py", "setup: tests/x.py", *NAMED_LIKE}


def step(digest: CodeDigest | None, failed: int = 0) -> RecipeStep:
    return RecipeStep(command="pytest", exit_code=0, tests=TestCounts(passed=3, failed=failed), digest=digest)


@pytest.mark.parametrize(
    ("less_or_more", "names"),
    [
        ({}, None),
        ({"tests": {**BASE.tests, "t.py::test_a": "other"}}, ("t.py::test_a",)),
        ({"tests": {**BASE.tests, "touched.py::test_d": "new"}}, None),
        ({"tests": {"t.py::test_b": "2"}}, None),  # what is gone is looked at by name
        ({"code": {"t.py": {"helper": "other", "TestIt.setUp": "5"}}}, ("t.py: helper",)),
        ({"code": {"t.py": {"helper": "4"}}}, None),
        ({"code": {"t.py": {**BASE.code["t.py"], "TestIt.assertEqual": "elsewhere"}}}, ("t.py: TestIt.assertEqual",)),
        ({"code": {"t.py": {**BASE.code["t.py"], "TestIt.test_made": "x", "imported": "y"}}}, None),
        ({"code": {**BASE.code, "new.py": {"assert_it": "7"}}}, None),
        ({"runner": {"unittest.case": "other"}}, ("unittest.case",)),
        ({"runner": {"unittest.case": "6", "unittest.mock": "8"}}, None),
        ({"changed": ()}, None),
        ({"changed": (*BASE.changed, "t.py: EXPECTED")}, ("t.py: EXPECTED",)),
        ({"changed": (*BASE.changed, "touched.py: EXPECTED")}, None),
        ({"code": {"t.py": {**BASE.code["t.py"], "Point.__eq__": "made"}}}, None),
        ({"plugins": (*BASE.plugins, "plugin calc/core.py")}, ("plugin calc/core.py",)),
        ({"plugins": (*BASE.plugins, "plugin tests/hooks.py")}, None),
        ({"plugins": (*BASE.plugins, "plugin tests/others.py")}, ("plugin tests/others.py",)),
        ({"plugins": (*BASE.plugins, "setup: tests/x.py")}, ("setup: tests/x.py",)),
        ({"libraries": ("shop",), "modules": ("calc", "numpy", "shop")}, ("the module numpy",)),
        ({"libraries": ("numpy",), "modules": ("calc", "shop", "more")}, ("the module shop",)),
        ({"libraries": (), "modules": ("calc", "more")}, None),
        ({"modules": ("calc", "more", "numpy")}, None),
    ],
)
def test_what_differs_in_files_that_the_change_leaves_alone_is_named(less_or_more, names):
    objection = digest_objection([step(BASE)], [step(BASE.model_copy(update=less_or_more))], TOUCHED)

    assert (objection and (objection.code, objection.names)) == (names and ("runner_fooled", names))


@pytest.mark.parametrize("named", NAMED_LIKE)
@pytest.mark.parametrize("about", [{}, None], ids=["told", "by an old worker"])
def test_a_file_that_is_called_like_something_else_excuses_nothing(named: str, about: dict[str, str] | None):
    words = (named, f"{named}: Y.Z")
    new = BASE.model_copy(update={"changed": (*BASE.changed, *words), "changed_in": about})

    objection = digest_objection([step(BASE)], [step(new)], {named})

    # an old worker tells of names without a blank no more than the name
    expected = words[:1] if about is None and " " not in named else words
    assert objection is not None and set(objection.names) == set(expected)


def test_words_about_a_file_are_excused_by_its_edit_alone():
    said = {"touched.py: EXPECTED": "touched.py", "t.py: EXPECTED": "t.py"}
    new = BASE.model_copy(update={"changed": (*BASE.changed, *said), "changed_in": said})

    objection = digest_objection([step(BASE)], [step(new)], TOUCHED)

    assert objection is not None and objection.names == ("t.py: EXPECTED",)


def test_what_a_change_edits_may_differ():
    other = BASE.model_copy(update={"tests": {**BASE.tests, "t.py::test_a": "x"}, "code": {"t.py": {"helper": "y"}}})

    assert digest_objection([step(BASE)], [step(other)], {"t.py"}) is None


def test_a_digest_that_is_missing_speaks_where_the_base_had_one():
    objection = digest_objection([step(BASE)], [step(None)], ())

    assert objection and objection.code == "runner_fooled"
    assert digest_objection([step(None)], [step(None)], ()) is None
    assert digest_objection([step(None)], [step(BASE)], ()) is None


def test_that_no_digest_is_told_on_either_side_is_a_note():
    told, untold = (step(digest).model_copy(update={"control": "held"}) for digest in (BASE, None))

    assert control_notes([told]) == []
    [note] = control_notes([told, untold])
    assert "is not told by the process of `pytest`" in note


def test_that_names_are_too_many_to_be_kept_is_a_note():
    told = step(BASE).model_copy(update={"control": "held", "counted_by": "junit", "names": TestNames(failed=("a",))})

    [note] = control_notes([told])
    assert "`pytest` has too many tests for their names to be kept" in note


def test_a_report_with_fewer_failures_than_the_process_heard_of_was_changed():
    heard = BASE.model_copy(update={"failed": 2})

    assert "2 tests failed" in str(digest_objection([step(BASE)], [step(heard, failed=1)], ()))
    assert digest_objection([step(BASE)], [step(heard, failed=2)], ()) is None


def test_what_is_made_in_classes_of_tests_does_not_count_file_by_file():
    more = BASE.model_copy(update={"code": {"t.py": {**BASE.code["t.py"], "Point.__eq__": "made"}}})

    assert digest_objection([step(BASE.by_file())], [step(more.by_file())], ()) is None


def test_one_that_had_to_be_put_together_is_compared_file_by_file():
    other = BASE.model_copy(update={"tests": {**BASE.tests, "u.py::test_c": "x"}})

    objection = digest_objection([step(BASE)], [step(other.by_file())], ())

    assert objection and objection.names == ("u.py",)
    assert digest_objection([step(BASE)], [step(BASE.by_file())], ()) is None
