"""Every way to assert that pytest and unittest have, each as a failure with a word in it.

A test of the platform's own uses all those that the project's tests around it use: who makes one of them say nothing
makes it pass. Runs in one namespace with `digest.py`.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

import sys
import types
from typing import Any

# name of TestCase's method → arguments with which it must fail
EQUALS: dict[str, tuple[Any, ...]] = {
    "assertAlmostEqual": (1, 2), "assertCountEqual": ([1], [2]), "assertDictEqual": ({1: 1}, {}),
    "assertEndsWith": ("a", "b"), "assertEqual": (1, 2), "assertFalse": (1,), "assertGreater": (1, 2),
    "assertGreaterEqual": (1, 2), "assertHasAttr": (1, "no_such_name"), "assertIn": (1, ()), "assertIs": (1, None),
    "assertIsInstance": (1, str), "assertIsNone": (1,), "assertIsNot": (None, None), "assertIsNotNone": (None,),
    "assertIsSubclass": (int, str), "assertLess": (2, 1), "assertLessEqual": (2, 1), "assertListEqual": ([1], [2]),
    "assertMultiLineEqual": ("a", "b"), "assertNotAlmostEqual": (1, 1), "assertNotEndsWith": ("a", "a"),
    "assertNotEqual": (1, 1), "assertNotHasAttr": (1, "real"), "assertNotIn": (1, (1,)),
    "assertNotIsInstance": (1, int), "assertNotIsSubclass": (int, int), "assertNotRegex": ("a", "a"),
    "assertNotStartsWith": ("a", "a"), "assertRegex": ("a", "b"), "assertSequenceEqual": ([1], [2]),
    "assertSetEqual": ({1}, {2}), "assertStartsWith": ("a", "b"), "assertTrue": (0,), "assertTupleEqual": ((1,), (2,)),
    # until Python 3.12
    "assertAlmostEquals": (1, 2), "assertEquals": (1, 2), "assertNotAlmostEquals": (1, 1), "assertNotEquals": (1, 1),
    "assertNotRegexpMatches": ("a", "a"), "assertRegexpMatches": ("a", "b"), "assert_": (0,),
}  # fmt: skip
CONTEXTS = ("assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex", "assertLogs", "assertNoLogs")
PYTESTS = ("approx", "raises", "warns", "fail")
PLAIN_FORM = "assert"
__unittest = True  # so that unittest and pytest leave the frames of this out of what they print


def hear(asserted: Any) -> None:
    """Have every assertion of pytest and unittest that is about to fail call this first."""
    cases: Any = sys.modules["unittest"].TestCase
    message = cases._formatMessage

    def fail(self: Any, msg: Any = None) -> None:
        """Fail immediately, with the given message."""
        asserted()
        raise self.failureException(msg)

    def with_message(self: Any, msg: Any, standard: Any) -> Any:
        asserted()
        return message(self, msg, standard)

    cases.fail, cases._formatMessage = fail, with_message
    rewrite: Any = sys.modules.get("_pytest.assertion.rewrite")
    explain = getattr(rewrite, "_format_explanation", None)

    def explained(explanation: str) -> Any:
        asserted()
        return explain(explanation) if explain else explanation

    if explain:
        rewrite._format_explanation = explained


def forms_in(module: Any) -> list[str]:
    """Those that a module's code uses; where it uses none, the plain one."""
    names: set[str] = set()
    waiting = [
        function.__code__
        for _, value in members(module)  # type: ignore[name-defined]  # noqa: F821
        for function in functions_in(value)  # type: ignore[name-defined]  # noqa: F821
    ]
    while waiting:
        code = waiting.pop()
        if code.co_filename == getattr(module, "__file__", None):
            names.update(code.co_names)
            waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    cases: Any = sys.modules["unittest"].TestCase
    known = [name for name in (*EQUALS, *CONTEXTS) if hasattr(cases, name)]
    found = [name for name in known if name in names]
    found += [name for name in PYTESTS if name in names and "pytest" in sys.modules]
    return [PLAIN_FORM, *found]


def must_fail(word: str, forms: list[str], number: int, case: Any, plain: Any) -> None:
    """By one of the forms, `number` says which, once all others have failed: one that says nothing makes it pass."""
    turn = number % len(forms)
    *others, last = forms[turn:] + forms[:turn]
    if not any(_says_nothing(form, word, case, plain) for form in others):
        fail_by(last, word, case, plain)


def _says_nothing(form: str, word: str, case: Any, plain: Any) -> bool:
    try:
        fail_by(form, word, case, plain)
    except BaseException as failure:  # pytest's own are no `Exception`
        return isinstance(failure, KeyboardInterrupt)
    return True


def fail_by(form: str, word: str, case: Any, plain: Any) -> None:
    if form in EQUALS:
        getattr(case, form)(*EQUALS[form], msg=word)
    elif form in CONTEXTS:
        _in_context(form, word, case)
    elif form == PLAIN_FORM:
        plain(word)
    else:
        _by_pytest(form, word)


def _in_context(form: str, word: str, case: Any) -> None:
    kind: Any = type(word, (UserWarning,), {})
    if form == "assertNoLogs":
        import logging

        with case.assertNoLogs(word):
            logging.getLogger(word).error(word)
        return
    given = (word,) if form == "assertLogs" else (kind, word) if form.endswith("Regex") else (kind,)
    with getattr(case, form)(*given):
        pass


def _by_pytest(form: str, word: str) -> None:
    import pytest

    kind: Any = type(word, (UserWarning,), {})
    if form == "fail":
        pytest.fail(word)
    elif form == "approx":
        assert pytest.approx(2.0) == 1.0, word
    else:
        with getattr(pytest, form)(kind):
            pass
