"""Failures of jest and vitest that are those of a hook (`beforeEach`, …): both call them failures of the tests around.

Only the trace tells: its outermost frame in the project stands in the hook, or in a function that a hook is given.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from sandbox.base import Sandbox
from sandbox.errors import PathError

MAX_FILES = 100
MAX_FILE_BYTES = 1024 * 1024
# Whoever wrote output and files is not trusted, and others wait meanwhile: what is beyond is in no hook.
MAX_BRACKETS = 1_000_000  # that are looked at in all; a failure counts as LOOK of them
LOOK = 2_000
MAX_DEPTH = 30  # of those around a place
HOOKS = frozenset({"beforeAll", "beforeEach", "afterAll", "afterEach"})
TESTS = frozenset({"test", "it", "fit", "xit", "xtest"})
# runner → a failure: one or several names of tests, and what is said of them
FAILURES: Mapping[str, str] = {
    "jest": r"(?P<names>^  ● .+\n)(?P<said>(?:(?!  ● |Test Suites: |Summary of all failing).*\n)*)",
    "vitest": r"(?P<names>(?:^ FAIL  (?=.+ > ).+\n)+)(?P<said>(?:(?! FAIL  |⎯).*\n)*)",
}
TIMED_OUT = re.compile(r"Exceeded timeout of \d+ ms for a hook|^Error: Hook timed out in \d+ms", re.MULTILINE)
FRAME = re.compile(r"^ +(?:at |❯ )(?:.* )?\(?(?P<path>[^\s():]+):(?P<line>\d+):(?P<column>\d+)\)?$", re.MULTILINE)
# What brackets in it open nothing. A literal regular expression with a quote is not known; then nothing is told.
TEXT = re.compile(
    r"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|(?P<open>'(?:\\.|[^'\\\n])*+|\"(?:\\.|[^\"\\\n])*+|`(?:\\.|[^`\\])*+)"
    r"(?P<close>['\"`])?",
    re.DOTALL,
)
CALLED = re.compile(r"(?<!\w)(?P<name>\w++)(?:\.\w++)*+\s*$")
DEFINED = re.compile(r"(?:function\s*\*?\s*(\w+)\s*\([^()]*\)|\b(\w+)\s*=\s*(?:async\s*)?(?:\([^()]*\)|\w+)\s*=>)\s*$")
GIVEN = re.compile(rf"\b(?:{'|'.join(sorted(HOOKS))})\s*\(\s*(\w+)\s*[,)]")


async def failed_in_hooks(sandbox: Sandbox, cwd: str, runner: str, output: str) -> int:
    """How many tests failed in a hook, as far as the traces tell where; 0 for other runners."""
    sources: dict[str, Source] = {}
    brackets_left = MAX_BRACKETS
    failed: set[str] = set()
    for failure in re.finditer(FAILURES.get(runner, r"(?!)"), output, re.MULTILINE):
        names, said = failure["names"].splitlines(), failure["said"]
        frame = next((one for one in reversed(list(FRAME.finditer(said))) if "node_modules/" not in one["path"]), None)
        if frame and not TIMED_OUT.search(said):
            path = posixpath.join(cwd, frame["path"])
            if path not in sources and len(sources) < MAX_FILES:
                sources[path] = Source(await _source(sandbox, path))
            source = sources.get(path)
            brackets_left -= LOOK + (len(source.brackets) if source else 0)
            if not source or brackets_left < 0 or not source.has_in_hook(int(frame["line"]), int(frame["column"])):
                continue
        elif not TIMED_OUT.search(said):
            continue
        failed.update(names)
    return len(failed)


async def _source(sandbox: Sandbox, path: str) -> str:
    try:
        return (await sandbox.read(path, max_bytes=MAX_FILE_BYTES)).decode("utf-8", "replace")
    except PathError:
        return ""


class Source:
    """A file of tests, taken apart once for all failures in it.

    >>> Source("beforeEach(() => { connect(); });").has_in_hook(1, 20)
    True
    >>> Source("it('a', () => { connect(); });").has_in_hook(1, 17)
    False
    """

    def __init__(self, source: str) -> None:
        self._text = TEXT.sub(_blank, source)
        self._starts = [0, *(found.end() for found in re.finditer("\n", self._text))]
        self._given = frozenset(GIVEN.findall(self._text))
        self.brackets = [(found.start(), found[0]) for found in re.finditer(r"[(){}]", self._text)]

    def has_in_hook(self, line: int, column: int) -> bool:
        """Of what stands around the place (both numbers from 1) the innermost hook or test decides."""
        if not 0 < line <= len(self._starts):
            return False
        for at in reversed(self._open_before(self._starts[line - 1] + column - 1)[-MAX_DEPTH:]):
            head = self._text[max(0, at - 300) : at]
            if self._text[at] == "(" and (called := CALLED.search(head)):
                if called["name"] in HOOKS | TESTS:
                    return called["name"] in HOOKS
            elif defined := DEFINED.search(head):
                return (defined[1] or defined[2]) in self._given
        return False

    def _open_before(self, place: int) -> list[int]:
        found: list[int] = []
        for at, sign in self.brackets:
            if at >= place:
                break
            if sign in "({":
                found.append(at)
            elif found:
                found.pop()
        return found


def _blank(text: re.Match[str]) -> str:
    """As long, and with the same lines. A quote without an end opens nothing: `don't`."""
    is_text = text["open"] is None or (text["close"] is not None and text["close"] == text["open"][0])
    return re.sub(r"[^\n]", " ", text[0]) if is_text else text[0]
