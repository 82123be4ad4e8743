"""Control tests: the platform's own, which must fail. They show whether the runner tells what it saw. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envelope.gate import GateObjection
from envelope.recipe import MADE, CodeDigest, RecipeStep

from .names import is_test_file
from .text import listed

WRITTEN = ": written as the tests ran"


@dataclass(frozen=True, slots=True)
class BaseRun:
    """What the base's run did, as its process told. `tests`: files that are tests or are read by them, whatever they
    are called. `collected`: those of them that tests stand in. `libraries`: modules that were loaded, and are none of
    the project's files. `plugins`: those of the project's files that were plugins of the runner."""

    tests: Collection[str] = ()
    collected: Collection[str] = ()
    libraries: Collection[str] = ()
    plugins: Collection[str] = ()

    @classmethod
    def of(cls, steps: Sequence[RecipeStep]) -> BaseRun:
        digests = [step.digest for step in steps if step.digest]
        return cls(
            tests=frozenset(path for one in digests for path in one.files),
            collected=frozenset(name.partition("::")[0] for one in digests for name in one.tests),
            libraries=frozenset(name for one in digests for name in one.libraries),
            plugins=frozenset(path for one in digests for path in one.plugin_files),
        )


def fooled_objection(
    before: Sequence[RecipeStep], after: Sequence[RecipeStep], touched: Collection[str]
) -> GateObjection | None:
    """Whatever tells that a runner's word counts for nothing. `touched`: files that the change edits."""
    return control_objection(before, after) or digest_objection(before, after, touched)


def control_objection(before: Sequence[RecipeStep], after: Sequence[RecipeStep]) -> GateObjection | None:
    """Of the first command whose runner called a test passed that must fail, or lost those that it had on the base."""
    for old, new in zip(before, after, strict=False):
        if new.control == "fooled":
            message = (
                f"tests that must fail pass in `{new.command}`, so nothing that it says counts: {listed(new.fooled)}"
            )
            if old.control == "fooled":
                message += " (as on the base)"
            return _fooled(message, new.fooled)
        if old.control == "held" and (new.control == "none" or new.held < old.held):
            sessions = f", in {new.held} of {old.held} sessions" if new.held else ""
            message = f"the tests that must fail are not told of by `{new.command}`{sessions}; on the base they were"
            return _fooled(message)
    return None


def digest_objection(
    before: Sequence[RecipeStep], after: Sequence[RecipeStep], touched: Collection[str]
) -> GateObjection | None:
    """Of the first command in whose process tests, assertions or the runner became others than on the base, beside what
    stands in the files that the change has `touched`."""
    for old, new in zip(before, after, strict=False):
        if old.digest is None:
            continue
        if new.digest is None:
            message = f"what became of the tests is not told by the process of `{new.command}`; on the base it was"
            return _fooled(message)
        told = new.tests.failed + new.tests.errors if new.tests else 0
        if new.digest.failed > told:
            message = f"{new.digest.failed} tests failed in `{new.command}`, and its report has {told} of them"
            return _fooled(message)
        passed, passed_before = new.digest.passed or 0, old.digest.passed or 0
        # sessions that no process told of have passed more on the base as well
        untold = max(0, old.tests.passed - passed_before) if old.tests else 0
        if new.counted_by == "junit" and new.tests and new.tests.passed - untold > passed < passed_before:
            message = f"{passed} tests passed in `{new.command}`, and its report has {new.tests.passed} of them"
            return _fooled(message)
        if others := list(_others(old.digest, new.digest, touched)):
            message = (
                f"code that the change does not edit is other than on the base when `{new.command}` ends:"
                f" {listed(others)}"
            )
            return _fooled(message, others)
    return None


def _fooled(message: str, names: Sequence[str] = ()) -> GateObjection:
    look = "look for code that changes pytest, unittest or assertions while it is imported or run"
    hint = f"{look}; if it is meant: --gate-rule 'control=off' (batch: control = \"off\")"
    return GateObjection.of("runner_fooled", message, hint, names)


def _others(old: CodeDigest, new: CodeDigest, touched: Collection[str]) -> Iterator[str]:
    """Tests first, then what asserts, then the runner."""
    if old.is_by_file != new.is_by_file:
        old, new = old.by_file(), new.by_file()
    yield from (name for name in _differing(old.tests, new.tests) if _path(name) not in touched)
    for path, names in old.code.items():
        if path not in touched:
            there = new.code.get(path, {})
            # in a class, what was not there stands before what is inherited
            new_there = (key for key in there.keys() - names.keys() if there[key] != MADE)
            added = sorted(key for key in new_there if "." in key and ".test" not in key)
            yield from (f"{path}: {name}" for name in (*_differing(names, there), *added))
    for said in sorted(set(new.changed) - set(old.changed)):
        path = _file_of(said, new)
        # what no test looked at on the base may be made anew
        was_there = not said.endswith(WRITTEN) or any((one + "/").startswith(path + "/") for one in old.files)
        if path not in touched and was_there:
            yield said
    for plugin in sorted(set(new.plugins) - set(old.plugins)):
        kind, _, path = plugin.partition(" ")  # others begin with a hook's name and a colon
        # tests that a change edits are granted, or it has to do without them
        if not (kind == "plugin" and path in touched and is_test_file(path)):
            yield plugin
    for name in sorted(set(old.libraries).intersection(new.modules).difference(new.libraries)):
        yield f"the module {name}"
    yield from _differing(old.runner, new.runner)


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return sorted(name for name, digest in old.items() if new.get(name, digest) != digest)


def _path(name: str) -> str:
    return name.partition("::")[0]


def _file_of(said: str, digest: CodeDigest) -> str:
    """Which file it is about, if any: a file can bear the name of anything else. Of an old worker's words only those
    are taken to name one that begin like nothing else: a path without a blank, and a colon."""
    if digest.changed_in is not None:
        return digest.changed_in.get(said, "")
    path, colon, _ = said.partition(":")
    return path if colon and " " not in path else ""


def control_notes(steps: Sequence[RecipeStep]) -> list[str]:
    """Which commands' counts rest on the runner's word alone, and whose tests could have become others."""
    counted = [step for step in steps if step.tests is not None]
    without = [f"`{step.command}`" for step in counted if step.control == "none"]
    untold = [f"`{step.command}`" for step in counted if step.control == "held" and step.digest is None]
    found = [f"nothing controls the runner of {listed(without)}: code under test could speak for it"] if without else []
    said = f"what became of the tests is not told by the process of {listed(untold)}: code under test could change them"
    reports = [step for step in counted if step.counted_by.startswith("junit")]
    nameless = [f"`{step.command}`" for step in reports if step.names is not None and not step.names.complete]
    many = f"{listed(nameless)} has too many tests for their names to be kept: they are compared by number"
    return [*found, *([said] if untold else []), *([many] if nameless else [])]
