"""What the outcome of the gate's commands means. Pure.

*Done* and *verified* are different words: verified means that the gate passed on exactly this tree, that it ran
tests, and no fewer of them than on the base.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from envelope.errors import ErrorCode
from envelope.gate import GateObjection, GateRules
from envelope.messages import ErrorInfo, TaskResult
from envelope.recipe import RecipeStep, TestCounts

from .errors import TaskFailed
from .gating.control import fooled_objection
from .gating.known_ends import WRITE_APART
from .gating.lost_tests import NOTHING_LIFTED, Lifted, function_of, grant_hint
from .gating.obstacle import ALL_THE_SAME, Obstacle, obstacle_in
from .gating.run import Run, has_passed, lost_tests
from .gating.text import listed

Unclear = Mapping[str, str]  # commands of which more may fail than their tests, each with the reason
NONE_UNCLEAR: Unclear = {}
LOOK_FOR = "look for tests that were removed, renamed or skipped"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a change is verified; if not, one sentence why and what to try. Of one that is, what is excused."""

    verified: bool
    reason: str = ""
    hint: str = ""


def read_run(result: TaskResult) -> Run:
    """What a `verify` task saw. Failing commands are an answer; `TaskFailed` when they could not be run at all."""
    try:
        return Run.model_validate(result.output.structured).model_copy(update={"task_id": result.task_id})
    except ValidationError as e:
        lost = ErrorInfo.of(ErrorCode.INTERNAL, "the gate's task gave no account of its steps")
        raise TaskFailed(result.errors[0] if result.errors else lost) from e


def judge(before: Run, after: Run, *, tree: str, min_tests: int, rules: GateRules = GateRules()) -> Judgement:
    """Is the change whose tree is `tree` verified by the two runs? The first objection counts."""
    first = next(iter(objections(before, after, tree=tree, min_tests=min_tests, rules=rules)), None)
    return Judgement(True) if first is None else Judgement(False, first.message, first.hint)


def objections(
    before: Run,
    after: Run,
    *,
    tree: str,
    min_tests: int,
    rules: GateRules = GateRules(),
    lifted: Lifted = NOTHING_LIFTED,
    needs_base: bool = True,
    touched: Collection[str] = (),
    unclear: Unclear = NONE_UNCLEAR,
) -> list[GateObjection]:
    """All that speaks against the change, the gravest first. An empty `tree` is one that nobody could know.

    `touched`: the files that it edits, whose code may be other than on the base. `lifted`: tests that may be gone or
    skipped. Unless it `needs_base`, a change may be verified although the gate cannot run on the base. Then the tests
    must be out of reach of whoever made the change.
    """
    if tree and after.tree != tree:
        message = f"the gate tested the tree {after.tree[:12] or 'none'}, not {tree[:12]}, the merged one"
        return [GateObjection.of("wrong_tree", message)]
    if needs_base and (obstacle := before.obstacle(min_tests)):
        if rules.broken_base == "reject":
            return [broken_base(obstacle)]
        if after.passed or after.obstacle(min_tests):  # nothing is compared, for nothing is proved
            return [found] if (found := fooled_objection(before.steps, after.steps, touched)) else []
    if after.setup_failure:
        message = f"setup fails with the change: {after.setup_failure}"
        return [GateObjection.of("failed", message, f"see its output: muster task logs {after.task_id}")]
    if not is_acceptable(before, after, rules, unclear):
        return [_failed(before, after, rules, unclear)]
    found = [
        _too_few(before, after, min_tests, lifted),
        _counted_otherwise(before, after) or fooled_objection(before.steps, after.steps, touched),
        _failed_beside(before, after),
        _removed(before, after, lifted),
        _skips(before, after, lifted),
        _by_numbers(before, after, lifted),
        _coverage(before, after, rules),
    ]
    return [objection for objection in found if objection is not None]


def broken_base(obstacle: Obstacle) -> GateObjection:
    """What ends a goal, or a repository of a batch, before anybody is paid."""
    message = f"the gate cannot run on the base: {obstacle.message}"
    return GateObjection.of("broken_base", message, f"{obstacle.hint}; {ALL_THE_SAME}")


def with_old_tests(
    before: Run,
    after: Run,
    old_tests: Run,
    *,
    tree: str,
    rules: GateRules,
    edited: Sequence[str],
    lifted: Lifted = NOTHING_LIFTED,
    touched: Collection[str] = (),
    unclear: Unclear = NONE_UNCLEAR,
) -> list[GateObjection]:
    """What speaks against a change whose edited tests pass, once its code met the tests of the base (`old_tests`)."""
    if tree and old_tests.tree != tree:
        message = f"the gate tested the tree {old_tests.tree[:12] or 'none'}, not {tree[:12]}"
        return [GateObjection.of("wrong_tree", message)]
    if not is_acceptable(after, old_tests, rules, unclear):
        failing = sorted(new_failures(after, old_tests) or ())
        message = f"the change edits {listed(edited)}, and fails with the tests as they were{_such_as(failing)}"
        hint = grant_hint(edited, rules)
        return [GateObjection.of("tests_edited", message, hint, failing)]
    found = (
        _too_few(before, old_tests, 0, lifted),
        _counted_otherwise(before, old_tests)
        or fooled_objection(before.steps, old_tests.steps, set(touched) - set(edited)),
        # a test of the base that does not run any more is not satisfied
        _failed_beside(before, old_tests),
        _removed(before, old_tests, lifted),
        _skips(before, old_tests, lifted),
        _by_numbers(before, old_tests, lifted),
    )
    return [objection for objection in found if objection is not None]


def does_not_fit(edited: Sequence[str], rules: GateRules) -> GateObjection:
    """The change cannot be made beside the tests of the base."""
    message = f"the change edits {listed(edited)}, and what else it does cannot be done to the tests as they were"
    return GateObjection.of("tests_edited", message, grant_hint(edited, rules), edited)


def is_acceptable(before: Run, after: Run, rules: GateRules, unclear: Unclear = NONE_UNCLEAR) -> bool:
    """It passed; or what fails are tests that are known by name, whose own bodies failed on the base as well, and a
    person has no objection. `unclear`: commands that may have failed by something else."""
    return after.passed or (
        rules.known_failures == "allow"
        and _fails_as_before(before, after)
        and not any(_what_else(step, unclear) for step in after.steps)
    )


def _fails_as_before(before: Run, after: Run) -> bool:
    return bool(
        after.fails_by_tests_alone
        and not (obstacle_in(before.steps, 0) or obstacle_in(after.steps, 0))
        and new_failures(before, after) == frozenset()
        and len(before.steps) == len(after.steps)
        and all(_ends_as_before(*pair) for pair in zip(before.steps, after.steps, strict=True))
    )


def _ends_as_before(old: RecipeStep, new: RecipeStep) -> bool:
    """mocha ends with the number of tests that failed."""
    return has_passed(new) or old.exit_code == new.exit_code or (old.counted_by == new.counted_by == "mocha")


def _what_else(step: RecipeStep, unclear: Unclear) -> str:
    """Why a command may have failed that ends as if its tests alone had."""
    if step.exit_code and (reason := step.fails_beside or unclear.get(step.command)):
        what = reason if reason == f"`{step.command}`" else f"`{step.command}` ({reason})"
        return f"what else fails in {what} cannot be told"
    return ""


def new_failures(before: Run, after: Run) -> frozenset[str] | None:
    """None where names are missing. Of two runs that failed at all; a run that passed has no failures.

    A failure is known in its own command, and as often as it was there: another test may bear the name.
    """
    if before.failures is None or after.failures is None:
        return None
    return frozenset(one.name for one in after.failures - before.failures)


def _too_few(before: Run, after: Run, min_tests: int, lifted: Lifted = NOTHING_LIFTED) -> GateObjection | None:
    if after.passed_tests < min_tests:
        hint = "use commands that run tests; in a batch file, [gate] min_tests = 0 trusts exit codes alone"
        passed = f", {after.passed_tests} passed" if after.tests else ""
        message = f"the gate ran {_tests(after.tests)}{passed}, at least {min_tests} {_must(min_tests)} pass"
        return GateObjection.of("no_tests", message, hint)
    lost = lost_tests(before, after)
    if lost.fewer > lifted.count_of(lost):
        gone = [name for name in lost.gone if name not in lifted.names] or sorted(set(lost.cases) - lifted.names)
        message = f"the gate ran {_tests(after.tests)}, fewer than the {before.tests} before{_such_as(gone)}"
        hint = lifted.hint or LOOK_FOR
        return GateObjection.of("fewer_tests", message, hint, gone)
    return None


def _counted_otherwise(before: Run, after: Run) -> GateObjection | None:
    """The same commands, but somebody else tells of their tests: a runner was replaced, or its report was."""
    pairs = zip(before.steps, after.steps, strict=False)
    for old, new in pairs:
        if old.tests is not None and old.counted_by != new.counted_by:
            now = f"by {new.counted_by}" if new.counted_by else new.unread or "not at all"
            message = f"the tests of `{new.command}` were counted by {old.counted_by} before, and now {now}"
            hint = "look for what ends the runner early, or prints a summary in its place"
            return GateObjection.of("counted_otherwise", message, hint)
    return None


def _by_numbers(before: Run, after: Run, lifted: Lifted) -> GateObjection | None:
    """Several sessions of runners in a command, or several commands: none makes up for another."""
    lost = next(iter(lost_tests(before, after).numbers), None)
    if lost is None or lifted.any_number:
        return None
    hint = lifted.hint or LOOK_FOR
    if lost.fewer:
        return GateObjection.of("fewer_tests", f"{lost.said} ran {lost.ran} tests, {lost.ran_before} before", hint)
    return GateObjection.of("new_skips", f"{lost.said} skipped {lost.more_skipped} tests more than before", hint)


def _failed_beside(before: Run, after: Run) -> GateObjection | None:
    """A session of a runner's whose failures are not among those that are counted."""
    for old, new in zip(before.steps, after.steps, strict=False):
        counted = _failures(new.tests) - _failures(old.tests)
        for teller, told in new.beside.items():
            more = _failures(told) - _failures(old.beside.get(teller))
            if more > max(0, counted):
                message = f"the gate fails: in `{new.command}` {more} tests more failed than before, as {teller} counts"
                return GateObjection.of("failed", message, f"see the gate's output: muster task logs {after.task_id}")
    return None


def _failures(counts: TestCounts | None) -> int:
    return counts.failed + counts.errors if counts else 0


def _removed(before: Run, after: Run, lifted: Lifted) -> GateObjection | None:
    """As many as before, but others: a test was taken out, and a new one makes up the number."""
    lost = lost_tests(before, after)
    gone = [name for name in lost.gone if name not in lifted.names]
    if not gone or lost.fewer > lifted.count_of(lost):
        return None
    message = f"tests that passed before are gone: {listed(gone)}"
    hint = lifted.hint or LOOK_FOR
    return GateObjection.of("removed_tests", message, hint, gone)


def _skips(before: Run, after: Run, lifted: Lifted) -> GateObjection | None:
    lost = lost_tests(before, after)
    new = [name for name in lost.skipped if function_of(name) not in lifted.names]
    count = len(new)
    if not lost.is_named and not lifted.any_number:
        count = max(count, lost.more_skipped - (len(lost.skipped) - count))
    if count <= 0:
        return None
    message = f"{count} test{'s' if count > 1 else ''} {'are' if count > 1 else 'is'} newly skipped{_such_as(new)}"
    hint = lifted.hint or "a test that is skipped, or expected to fail, proves nothing"
    return GateObjection.of("new_skips", message, hint, new)


def _coverage(before: Run, after: Run, rules: GateRules) -> GateObjection | None:
    wanted = before.coverage_percent if rules.min_coverage == "base" else rules.min_coverage
    if rules.min_coverage is None:
        return None
    if wanted is None or after.coverage_percent is None:
        hint = "have a command print it: pytest --cov, coverage report, go test -cover, jest --coverage"
        return GateObjection.of("coverage", "no command of the gate told the coverage", hint)
    if after.coverage_percent >= wanted:
        return _less_covered(before, after) if rules.min_coverage == "base" else None
    message = f"the tests cover {after.coverage_percent:g} %, and {wanted:g} % are needed"
    return GateObjection.of("coverage", message, "test what was added, or look for tests that were cut")


def _less_covered(before: Run, after: Run) -> GateObjection | None:
    """One total must not hide that another fell. A package may go; a total without a name is of nobody knows what."""
    for old, new in zip(before.steps, after.steps, strict=False):
        for name, wanted in old.coverage.items():
            percent = new.coverage.get(name)
            if percent is None and not name.startswith("total "):
                continue
            if percent is None or percent < wanted:
                now = "is not told" if percent is None else f"is {percent:g} %"
                message = f"of `{new.command}` the coverage of {name} {now}, and was {wanted:g} %"
                return GateObjection.of("coverage", message, "test what was added, or look for tests that were cut")
    return None


def _failed(before: Run, after: Run, rules: GateRules, unclear: Unclear) -> GateObjection:
    names = sorted(new_failures(before, after) or ())
    logs = f"see the gate's output: muster task logs {after.task_id}"
    on_base, hint = "the gate fails on the base already", "mend the base, or choose gate commands that pass on it"
    counts = f"{before.failed} failed before, {after.failed} after"
    also = (_what_else(step, unclear) for step in after.steps)
    if before.passed:
        message, hint = f"the gate fails: {_first_line(after)}{_such_as(names)}", logs
    elif rules.known_failures == "reject":  # how the base fares excuses nothing, and tells nothing
        names = sorted(after.failing or ())
        message, hint = f"the gate fails: {_first_line(after)}{_such_as(names)}", f"all tests have to pass; {logs}"
    elif not (before.tests or after.tests):  # nothing was counted on either side
        message, names = f"{on_base}: {_first_line(before)}", []
    elif _fails_as_before(before, after) and (what := next(filter(None, also), "")):
        message = f"{on_base}, and {what}"
        hint = WRITE_APART
    elif names:
        message = f"{on_base}, and now in more: {listed(names)} ({counts})"
    elif after.tests and after.tests >= (before.tests or 0) and after.failed <= before.failed:
        message = f"{on_base} and no worse now ({counts}): not verified"
    else:
        message = f"{on_base}, and now it fails more ({counts})"
    return GateObjection.of("failed", message, hint, names)


def _such_as(names: Sequence[str]) -> str:
    return f" ({listed(names)})" if names else ""


def _tests(count: int | None) -> str:
    return "no test that could be counted" if count is None else f"{count} tests"


def _must(count: int) -> str:
    return "has to" if count == 1 else "have to"


def _first_line(run: Run) -> str:
    return run.detail.partition("\n")[0]
