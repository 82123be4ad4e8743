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
HOOKS = frozenset({"beforeAll", "beforeEach", "afterAll", "afterEach"})
TESTS = frozenset({"test", "it", "fit", "xit", "xtest"})
# runner → a failure: one or several names of tests, and what is said of them
FAILURES: Mapping[str, str] = {
    "jest": r"(?P<names>^  ● .+\n)(?P<said>(?:(?!  ● |Test Suites: |Summary of all failing).*\n)*)",
    "vitest": r"(?P<names>(?:^ FAIL  .+ > .+\n)+)(?P<said>(?:(?! FAIL  |⎯).*\n)*)",
}
TIMED_OUT = re.compile(r"Exceeded timeout of \d+ ms for a hook|^Error: Hook timed out in \d+ms", re.MULTILINE)
FRAME = re.compile(r"^ +(?:at |❯ )(?:.* )?\(?(?P<path>[^\s():]+):(?P<line>\d+):(?P<column>\d+)\)?$", re.MULTILINE)
# What brackets in it open nothing. A literal regular expression with a quote is not known; then nothing is told.
TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`", re.DOTALL)
CALLED = re.compile(r"(?P<name>\w+)(?:\.\w+)*\s*$")
DEFINED = re.compile(r"(?:function\s*\*?\s*(\w+)\s*\([^()]*\)|\b(\w+)\s*=\s*(?:async\s*)?(?:\([^()]*\)|\w+)\s*=>)\s*$")
GIVEN = re.compile(rf"\b(?:{'|'.join(sorted(HOOKS))})\s*\(\s*(\w+)\s*[,)]")


async def failed_in_hooks(sandbox: Sandbox, cwd: str, runner: str, output: str) -> int:
    """How many tests failed in a hook, as far as the traces tell where; 0 for other runners."""
    sources: dict[str, str] = {}
    failed: set[str] = set()
    for failure in re.finditer(FAILURES.get(runner, r"(?!)"), output, re.MULTILINE):
        names, said = failure["names"].splitlines(), failure["said"]
        frame = next((one for one in reversed(list(FRAME.finditer(said))) if "node_modules/" not in one["path"]), None)
        if frame and not TIMED_OUT.search(said):
            path = posixpath.join(cwd, frame["path"])
            if path not in sources and len(sources) < MAX_FILES:
                sources[path] = await _source(sandbox, path)
            if not is_in_hook(sources.get(path, ""), int(frame["line"]), int(frame["column"])):
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


def is_in_hook(source: str, line: int, column: int) -> bool:
    """Of what stands around the place (both numbers from 1) the innermost hook or test decides.

    >>> is_in_hook("beforeEach(() => { connect(); });", 1, 20), is_in_hook("it('a', () => { connect(); });", 1, 17)
    (True, False)
    """
    lines = TEXT.sub(_blank, source).splitlines(keepends=True)
    before = "".join(lines[: line - 1]) + "".join(lines[line - 1 : line])[: column - 1]
    given = set(GIVEN.findall("".join(lines)))
    for bracket in reversed(_open_brackets(before)):
        head = before[max(0, bracket - 300) : bracket]
        if before[bracket] == "(" and (called := CALLED.search(head)):
            if called["name"] in HOOKS | TESTS:
                return called["name"] in HOOKS
        elif defined := DEFINED.search(head):
            return (defined[1] or defined[2]) in given
    return False


def _blank(text: re.Match[str]) -> str:
    """As long, and with the same lines."""
    return re.sub(r"[^\n]", " ", text[0])


def _open_brackets(text: str) -> list[int]:
    found: list[int] = []
    for match in re.finditer(r"[(){}]", text):
        if match[0] in "({":
            found.append(match.start())
        elif found:
            found.pop()
    return found
