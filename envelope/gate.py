"""A gate's rules, which people write, and its evidence, which programs read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from .events import GateVerdict
from .messages import MAX_DEADLINE_MS
from .pattern import MAX_PATTERN_CHARS
from .recipe import Clock
from .wire import Wire

Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARS)]
Policy = Literal["allow", "reject"]
Switch = Literal["on", "off"]
Proved = Literal["done", "verified", "rejected"]

MAX_NAMES = 50  # of an objection; the diff has them all

# What a rejection can be for; programs tell them apart by these words.
ObjectionCode = Literal[
    "wrong_tree", "failed", "no_tests", "fewer_tests", "removed_tests", "new_skips", "counted_otherwise", "coverage",
    "gate_edited", "tests_edited", "runner_reached", "runner_fooled", "flaky", "broken_base",
]  # fmt: skip


class GateRules(Wire):
    """What a gate asks for beside its commands. Patterns are those of grants (`tests/**`).

    `junit`: where the commands write JUnit XML (a path in the repository, or a glob; pytest needs none). `tests`: test
    files beside those that usual names tell. `protect`: files that belong to the gate beside those that it finds
    itself. `may_edit`: files of the gate that a change may edit all the same. `min_coverage`: per cent, or "base" for
    no less than before. `reruns`: how often a new failure is looked at again, each time in a fresh sandbox.
    `known_failures`: may tests fail that fail on the base, too? `broken_base`: may work begin where the gate cannot run
    on the base? It is never verified then. `control`: are tests of the platform's own, which must fail, put among those
    of pytest and unittest? `timeout_s`: of each command; without it, half an hour. `repeat`: how many runs after the
    change have to pass. `clock`: how far it is moved forward for a further run, such as "+90d". `setup`: "once" says
    that it takes nothing of the project, whatever its commands look like, and need not be done again on a change.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    junit: str = ""
    tests: tuple[Pattern, ...] = ()
    protect: tuple[Pattern, ...] = ()
    may_edit: tuple[Pattern, ...] = ()
    min_coverage: Annotated[float, Field(ge=0, le=100)] | Literal["base"] | None = None
    reruns: Annotated[int, Field(ge=0, le=10)] = 1
    flaky: Policy = "allow"
    known_failures: Policy = "allow"
    broken_base: Policy = "reject"
    control: Switch = "on"
    timeout_s: Annotated[float, Field(gt=0, le=MAX_DEADLINE_MS / 1000)] | None = None
    repeat: Annotated[int, Field(ge=1, le=20)] = 1
    clock: Clock = ""
    setup: Literal["again", "once"] = "again"


class GateObjection(Wire):
    """One reason to reject a change. `names` are paths or tests, `MAX_NAMES` at most."""

    code: ObjectionCode
    message: str
    hint: str = ""
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, code: ObjectionCode, message: str, hint: str = "", names: Sequence[str] = ()) -> GateObjection:
        return cls(code=code, message=message, hint=hint, names=tuple(names[:MAX_NAMES]))

    def about(self, what: str) -> GateObjection:
        """The same, of one of several runs or bases."""
        return self.model_copy(update={"message": f"{what}: {self.message}"})


class TestFileChange(Wire):
    """A test file that the change edits; `status` is git's letter."""

    __test__: ClassVar[bool] = False  # no test class, whatever pytest makes of its name

    path: str
    status: str
    added: int = 0
    removed: int = 0


class GateEvidence(Wire):
    """All that the platform saw, and what follows. No word in it is an agent's.

    `verified` means: the commands passed on exactly this tree, with the tests and the settings of the base intact.
    `restored` are files outside of the edit scope that were put back. `runs` are all of the gate's runs, in order.
    """

    result: Proved = "done"
    objections: tuple[GateObjection, ...] = ()
    notes: tuple[str, ...] = ()
    test_files: tuple[TestFileChange, ...] = ()
    restored: tuple[str, ...] = ()
    new_failures: tuple[str, ...] = ()
    known_failures: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    runs: tuple[GateVerdict, ...] = ()
