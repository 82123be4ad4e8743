"""A run of the gate's commands, and which tests of one run another has no more. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from envelope.events import GateVerdict
from envelope.gate import MAX_NAMES
from envelope.recipe import RecipeOutput, RecipeStep, TestCounts

from .lost_tests import LostTests, NumbersLost, function_of
from .obstacle import Obstacle, obstacle_in

DETAIL_CHARS = 2_000  # the tail of a failing command: where test runners put their summary

SETUP_HINT = (
    "install the project with `pip install -e`, or have the gate's own commands build what its tests run on, and say"
    ' so: --gate-rule setup=once (in a batch file, [gate] setup = "once"; docs/gate.md)'
)

Phase = Literal["before", "after"]
Outcome = Literal["passed", "failed", "skipped"]
RAN: tuple[Outcome, ...] = ("passed", "failed")


class Named(NamedTuple):
    """A test, or a function of tests, of the gate's command with this number: others may have one of the same name."""

    command: int
    name: str

    @property
    def function(self) -> Named:
        return Named(self.command, function_of(self.name))


class Run(RecipeOutput):
    """The structured output of the `verify` task `task_id`. `tree` is git's id of what was tested."""

    task_id: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.steps) and all(map(has_passed, self.steps))

    @property
    def tests(self) -> int | None:
        """How many tests ran; None when no command's could be counted."""
        counted = [step.tests.ran for step in self.steps if step.tests is not None]
        return sum(counted) if counted else None

    @property
    def failed(self) -> int:
        return sum(step.tests.failed + step.tests.errors for step in self.steps if step.tests is not None)

    @property
    def skipped(self) -> int:
        return sum(step.tests.skipped for step in self.steps if step.tests is not None)

    @property
    def failing(self) -> frozenset[str] | None:
        """Names of the tests that failed; None when some are not known, and nobody can say which are new."""
        return None if self.failures is None else frozenset(one.name for one in self.failures)

    @property
    def failures(self) -> Counter[Named] | None:
        """The same, and how often: tests of one name cannot be told apart, but their number can."""
        counted = [step for step in self.steps if step.tests is not None]
        if any(step.names is None and step.tests and step.tests.failed + step.tests.errors for step in counted):
            return None
        return self.named("failed")

    def obstacle(self, min_tests: int) -> Obstacle | None:
        """What kept it from running its tests, so that it proves nothing."""
        if self.setup_failure:
            return Obstacle(f"setup cannot be done again without a network: {self.setup_failure}", SETUP_HINT)
        return obstacle_in(self.steps, min_tests)

    @property
    def passed_tests(self) -> int:
        return sum(step.tests.passed for step in self.steps if step.tests is not None)

    @property
    def fails_by_tests_alone(self) -> bool:
        """Is every command that failed one whose tests failed? Then it is known what is wrong."""
        bad = [step for step in self.steps if not has_passed(step)]
        return bool(bad) and all(
            step.tests is not None and step.tests.failed + step.tests.errors > 0 and not step.timed_out for step in bad
        )

    def named(self, *outcomes: Outcome, of: Collection[int] | None = None) -> Counter[Named]:
        """How often each test had one of these outcomes, as far as it is known. `of`: in these commands alone."""
        return Counter(
            Named(number, name)
            for number, step in enumerate(self.steps)
            for kind in outcomes
            if step.tests is not None and step.names is not None and (of is None or number in of)
            for name in getattr(step.names, kind)
        )

    @property
    def counted_by(self) -> tuple[str, ...]:
        return tuple(step.counted_by for step in self.steps)

    @property
    def coverage_percent(self) -> float | None:
        """The lowest that a command told."""
        told = [step.coverage_percent for step in self.steps if step.coverage_percent is not None]
        return min(told, default=None)

    @property
    def detail(self) -> str:
        """The first command that failed, with the end of what it said."""
        if self.setup_failure:
            return f"setup: {self.setup_failure}"
        step = next((step for step in self.steps if not has_passed(step)), None)
        if step is None:
            return ""
        how = "timed out" if step.timed_out else f"exit code {step.exit_code}"
        return f"`{step.command}`: {how}\n{step.output_tail[-DETAIL_CHARS:]}".rstrip()

    def verdict(self, phase: Phase, about: str = "") -> GateVerdict:
        """As it travels in events and results; of its steps only how the first that failed ended."""
        return GateVerdict(
            phase=phase,
            passed=self.passed,
            tests=self.tests,
            failed=self.failed,
            skipped=self.skipped,
            detail=self.detail,
            about=about,
            failing=tuple(sorted(self.failing or ())[:MAX_NAMES]),
            counted_by=", ".join(dict.fromkeys(filter(None, self.counted_by))),
            coverage_percent=self.coverage_percent,
            task_id=self.task_id,
        )


def has_passed(step: RecipeStep) -> bool:
    """A runner whose failure is hidden (`pytest || true`) has failed all the same."""
    return step.exit_code == 0 and not step.timed_out and not (step.tests and step.tests.failed + step.tests.errors)


def lost_tests(before: Run, after: Run) -> LostTests:
    """The tests of the base that do not run any more, or are skipped, as far as names are known."""
    fewer = (before.tests or 0) - (after.tests or 0)
    more_skipped = after.skipped - before.skipped if before.passed else 0
    of = _known_by_name(before, after)
    counted = {number for run in (before, after) for number, step in enumerate(run.steps) if step.tests is not None}
    passed, ran, known = before.named("passed", of=of), before.named(*RAN, of=of), before.named("skipped", of=of)
    now, skipped = after.named(*RAN, of=of), after.named("skipped", of=of)
    counts, counts_now, still = _by_function(ran), _by_function(now), _by_function(now + skipped)
    gone = {one.function for one in passed if not still[one.function]}
    # of several that bear one name nobody can say which is gone
    gone |= {one.function for one in passed if now[one] + skipped[one] < ran[one] + known[one] != 1}
    # Who gives its cases other names has skipped a test where none of them runs any more.
    new_skips = {
        one.name
        for one in skipped - known
        if now[one] < ran[one] or (not known[one] and counts[one.function] and not counts_now[one.function])
    }
    cases: Counter[str] = Counter()
    for function, count in (counts - counts_now).items():
        cases[function.name] += count
    return LostTests(
        gone=tuple(sorted({one.name for one in gone})),
        cases=dict(sorted(cases.items())),
        skipped=tuple(sorted(new_skips)),
        fewer=fewer,
        more_skipped=more_skipped,
        is_named=bool(counted) and counted == of,
        numbers=tuple(_numbers_lost(before, after, of)),
    )


def _known_by_name(before: Run, after: Run) -> set[int]:
    """The commands all of whose tests have names, as far as they have any."""

    def known(run: Run) -> set[int]:
        steps = enumerate(run.steps)
        return {number for number, step in steps if step.tests is None or (step.names and step.names.complete)}

    counted = {number for run in (before, after) for number, step in enumerate(run.steps) if step.tests is not None}
    return counted & known(before) & known(after)


def _numbers_lost(before: Run, after: Run, of: Collection[int]) -> Iterator[NumbersLost]:
    """What one command, or one of several accounts of it, tells less, and nobody else says so: neither names (`of`
    these commands) nor the sum of all."""
    fewer, more_skipped = (before.tests or 0) - (after.tests or 0), after.skipped - before.skipped
    for number, (old, new) in enumerate(zip(before.steps, after.steps, strict=False)):
        if old.tests is None or new.tests is None:
            continue
        if number not in of:
            yield from _less_told(old, old.counted_by, old.tests, new.tests, fewer, more_skipped)
        own = old.tests.ran - new.tests.ran, new.tests.skipped - old.tests.skipped
        for teller, told in old.beside.items():
            yield from _less_told(old, teller, told, new.beside.get(teller, TestCounts()), *own)


def _less_told(
    step: RecipeStep, teller: str, told: TestCounts, now: TestCounts, fewer: int, more_skipped: int
) -> Iterator[NumbersLost]:
    """`fewer`, `more_skipped`: so many are looked at elsewhere."""
    ran = now.ran if told.ran - now.ran > max(0, fewer) else told.ran
    skipped = now.skipped - told.skipped
    skipped = skipped if skipped > max(0, more_skipped) else 0
    if ran < told.ran or skipped:
        yield NumbersLost(f"`{step.command}`{f', as {teller} counts,' if teller else ''}", ran, told.ran, skipped)


def _by_function(tests: Counter[Named]) -> Counter[Named]:
    found: Counter[Named] = Counter()
    for one, count in tests.items():
        found[one.function] += count
    return found
