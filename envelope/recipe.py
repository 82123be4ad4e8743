"""What a recipe task is given in `input.params`, and what it gives back in `output.structured`.

Recipes run fixed commands in a sandbox, without a model; the gate's `verify` is one that counts tests.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal, cast
from zlib import compress, decompressobj
from zlib import error as ZlibError

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from .messages import MAX_DEADLINE_MS
from .wire import Wire

Command = Annotated[str, Field(min_length=1)]
Clock = Annotated[str, Field(pattern=r"^(\+[1-9][0-9]{0,4}[hdy])?$")]  # as libfaketime reads it: +90d
# A result has at most 1 MiB, and twenty commands may have some: a suite of about 2,000 tests travels as it is, one of
# about 20,000 packed.
MAX_PLAIN_NAMES_CHARS = 192 * 1024
MAX_PACKED_NAMES_CHARS = 192 * 1024
MAX_NAMES_BYTES = 8 * 1024 * 1024
ControlState = Literal["", "none", "held", "fooled"]


class RecipeParams(Wire):
    """A command succeeds when its exit code is among `ok_exit_codes`. Unknown keys are refused: people write these."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    commands: Annotated[tuple[Command, ...], Field(min_length=1)]
    ok_exit_codes: tuple[int, ...] = (0,)
    # of each command; by default enough for the whole test-suite of a large project
    timeout_s: Annotated[float, Field(gt=0, le=MAX_DEADLINE_MS / 1000)] = 1800.0
    # where the commands write JUnit XML (a path in the workspace, or a glob); pytest is asked for one by itself
    junit: str = ""
    # of a gate: tests of the platform's own that must fail, in pytest's and unittest's process (docs/gate.md)
    control: bool = True
    # how far the commands' clock is moved forward, by libfaketime; a step tells whether the image has it
    clock: Clock = ""
    # of a gate: is what setup may have made of the project made again, of the files that the commands run on?
    repeats_setup: bool = False


class TestCounts(Wire):
    """What a test runner said of itself; `total` are all tests that were selected.

    `failed` are tests whose own body failed. `errors` is all else that went wrong: what could not be collected or
    imported, and what failed in the preparations for a test.
    """

    __test__: ClassVar[bool] = False  # no test class, whatever pytest makes of its name

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    total: int = 0

    @property
    def ran(self) -> int:
        """What was skipped proves nothing, nor does what failed before its body began: neither counts."""
        return self.passed + self.failed


class TestNames(Wire):
    """Which tests those were, as their runner calls them, each as often as it ran. Unless it is `complete`, only what
    failed is named.

    Many travel packed. An older reader knows then what failed, and numbers.
    """

    __test__: ClassVar[bool] = False

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    complete: bool = False

    @model_serializer(mode="wrap")
    def _packed(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        told: dict[str, Any] = handler(self)
        if not self.complete or sum(map(len, (*self.passed, *self.failed, *self.skipped))) <= MAX_PLAIN_NAMES_CHARS:
            return told
        names = json.dumps([self.passed, self.skipped]).encode()
        packed = b64encode(compress(names, 9)).decode()
        whole = {"packed": packed} if len(packed) <= MAX_PACKED_NAMES_CHARS and len(names) <= MAX_NAMES_BYTES else {}
        return {"failed": told["failed"], **whole} if "failed" in told else whole

    @model_validator(mode="before")
    @classmethod
    def _unpacked(cls, told: object) -> object:
        """A sender may have packed anything: what is too long, or no names, is as good as missing."""
        if not isinstance(told, dict) or "packed" not in told:
            return cast("object", told)
        fields = cast("dict[str, Any]", told)
        rest = {"failed": fields.get("failed", ())}
        try:
            reader = decompressobj()
            text = reader.decompress(b64decode(fields["packed"]), MAX_NAMES_BYTES)
            passed, skipped = json.loads(text) if not reader.unconsumed_tail else (None, None)
        except (ValueError, TypeError, RecursionError, ZlibError):
            return rest
        return {**rest, "passed": passed, "skipped": skipped, "complete": True} if passed is not None else rest


def _together(digests: Mapping[str, str]) -> str:
    return sha256(repr(sorted(digests.items())).encode()).hexdigest()[:12]


MADE = "made"  # in a class that has no tests, by code of another file; what is made there may be more after a change


class CodeDigest(Wire):
    """What a runner's process held when its session ended (docs/decisions/0029): digests, by what they are of.

    `tests`: by `path::Class::name`. `code`: by path and name, of other code in files of tests, and of helpers that
    assert. `runner`: by module. `changed`: what became another while tests ran, in words; `changed_in`: those of these
    words that are about a file, and which one (None: the worker is too old to say). `plugins`: who has a part in
    deciding. `files`: which of the workspace's files make up the tests, `plugin_files` which are the runner's plugins.
    `libraries`: modules that were loaded from elsewhere and are none of Python's own, each by the shortest name that
    has a place of its own; `modules`: those from the workspace, but for tests. `failed` and `passed`: how many did, as
    heard there; of unittest no more than how many failed.
    """

    tests: Mapping[str, str] = {}
    code: Mapping[str, Mapping[str, str]] = {}
    runner: Mapping[str, str] = {}
    changed: tuple[str, ...] = ()
    changed_in: Mapping[str, str] | None = None
    plugins: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    plugin_files: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    failed: int = 0
    passed: int | None = None

    @property
    def is_by_file(self) -> bool:
        return "" in self.tests

    def by_file(self) -> CodeDigest:
        """Less to carry: of each file one digest of its tests and one of its other code. An empty name says so."""
        if self.is_by_file:
            return self
        files: dict[str, dict[str, str]] = {}
        for name, found in self.tests.items():
            files.setdefault(name.partition("::")[0], {})[name] = found
        tests = {"": ""} | {path: _together(found) for path, found in files.items()}
        kept = {path: {key: one for key, one in found.items() if one != MADE} for path, found in self.code.items()}
        code = {path: {"": _together(found)} for path, found in kept.items()}
        return self.model_copy(update={"tests": tests, "code": code})


class RecipeStep(Wire):
    """One command that was run. `exit_code` is None when it was killed; `tests` when none could be counted.

    `counted_by` tells where the counts are from: `junit`, or the runner whose summary was understood. `beside`: what
    others told, by who did; of the same tests or of more. `unread`: why nothing is known of the tests.
    `coverage_percent` is the lowest of the totals in `coverage`. `fails_beside`: what may have failed beside tests, if
    the command says so. `control`: did the platform's own tests fail as they
    must (empty: nobody looked)? `fooled` are those that did not, `held` in how many sessions of runners they did.
    `digest`: what the tests and their runner were; None where no process told of it to its end. `clock`: of one that
    was to be moved, whether it was; where it was not, the command did not run.
    """

    command: str
    exit_code: int | None = None
    timed_out: bool = False
    duration_ms: int = 0
    output_tail: str = ""
    tests: TestCounts | None = None
    counted_by: str = ""
    names: TestNames | None = None
    beside: Mapping[str, TestCounts] = {}
    unread: str = ""
    coverage_percent: float | None = None
    coverage: Mapping[str, float] = {}
    fails_beside: str = ""
    control: ControlState = ""
    fooled: tuple[str, ...] = ()
    held: int = 0
    digest: CodeDigest | None = None
    clock: Literal["", "moved", "missing"] = ""


class RecipeOutput(Wire):
    """`tree` is git's id of the files that the commands were run on (of a `verify` task only).

    `setup_failure`: why the setup could not be repeated; then no command ran. `setup_read`: files that setup goes by,
    and the change edits: what is installed is as the base has them.
    """

    steps: tuple[RecipeStep, ...]
    tree: str = ""
    setup_failure: str = ""
    setup_read: tuple[str, ...] = ()
