"""A control of a gate's runner: tests of the platform's own that must fail, in the process that runs the project's.

Code under test that makes its runner say that all is well makes it say so of these as well, by whatever means. pytest
and `python -m unittest` have one; what is laid into the sandbox for it is found by no other program.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envelope.recipe import ControlState
from sandbox.base import WORKSPACE, Sandbox
from sandbox.errors import PathError

from .counting import RAN, summary
from .digest import Listener
from .junit import ControlCase

INSIDE = Path(__file__).parent / "inside"
PARTS = ("code", "runner", "names", "files", "digest", "forms")  # of one namespace, in this order
MAX_SAID_BYTES = 64 * 1024
# Two lines of a file of its own are all that a measure of coverage finds of it. Of what Python gives to everybody it
# has a copy, so that who puts something else there does not reach it.
BEGIN = """import builtins
__builtins__ = dict(vars(builtins))
inside = {{'__name__': 'digest', '__builtins__': __builtins__}}
for text in {texts!r}:
    exec(compile(text, '<control>', 'exec'), inside)
inside['hear'](lambda: TELL('asserted'))
TEST, PLAIN, FORMS, MUST_FAIL = map(inside.get, ('Test', 'plain', 'forms_in', 'must_fail'))
TELL = inside['watch']({pipe!r}, {root!r})
del inside, builtins, text
"""
PYTEST_LOADER = "exec(compile({code!r}, '<control>', 'exec'), globals())\nTOKEN = {token!r}\nREPORT = {report!r}\n"
# Read by pytest as it reads the project's: who makes assertions say nothing there does it here.
TEST_FILE = "def must_fail(word):\n    assert word == word[::-1] + '?', word\n"
AT_START = """import sys
if sys.version_info >= (3, 8):
    inside = {{'__name__': 'control'}}
    exec(compile({code!r}, '<control>', 'exec'), inside)
    inside['start']({root!r}, {folder!r}, {unittest!r}, {report!r}, {begin!r})
    del inside
"""


@dataclass(frozen=True, slots=True)
class Control:
    """Of one command. `token` marks its tests in a report, `said` is what unittest's runner wrote of them."""

    folder: str
    token: str
    listener: Listener | None = None

    @property
    def said(self) -> str:
        return f"{self.folder}/said"

    def around(self, command: str) -> str:
        """The command, with the control in its reach: Python looks into `folder` before its own libraries."""
        return f'export PYTHONPATH="{self.folder}${{PYTHONPATH:+:$PYTHONPATH}}"\n{command}'


async def lay_control(sandbox: Sandbox, report: str) -> Control:
    """At a place and under names that nobody could know beforehand. `report`: where pytest is asked for one."""
    name = f"lib{secrets.token_hex(8)}"
    control = Control(f"/tmp/{secrets.token_hex(16)}", secrets.token_hex(8))  # noqa: S108 - inside the sandbox
    begin = BEGIN.format(
        texts=[(INSIDE / f"{part}.py").read_text() for part in PARTS],
        pipe=f"{control.folder}/pipe",
        root=WORKSPACE,
    )
    code = f"{(INSIDE / 'in_pytest.py').read_text()}\n{begin}"
    plugin = PYTEST_LOADER.format(code=code, token=control.token, report=report)
    files = {
        f"{name}.py": plugin,
        f"test_{name}.py": TEST_FILE,
        f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{name}-1.dist-info/entry_points.txt": f"[pytest11]\n{name} = {name}\n",
        "sitecustomize.py": AT_START.format(
            code=(INSIDE / "at_start.py").read_text(),
            root=WORKSPACE + "/",
            unittest=(INSIDE / "in_unittest.py").read_text(),
            report=control.said,
            folder=control.folder,
            begin=begin,
        ),
    }
    for path, text in files.items():
        await sandbox.write(f"{control.folder}/{path}", text.encode())
    return replace(control, listener=await Listener.open(sandbox, f"{control.folder}/pipe"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the control of a command ended: `held` in so many of its sessions; `fooled` are tests that did not fail
    although they had to."""

    held: int = 0
    fooled: tuple[str, ...] = ()

    @property
    def state(self) -> ControlState:
        return "fooled" if self.fooled else "held" if self.held else "none"


async def outcome(sandbox: Sandbox, control: Control, cases: Sequence[ControlCase]) -> Outcome:
    sessions: dict[int, list[ControlCase]] = {}
    for case in cases:
        sessions.setdefault(case.session, []).append(case)
    found = [*map(_of_cases, sessions.values()), await _of_unittest(sandbox, control)]
    fooled = sorted({name for one in found for name in one.fooled})
    return Outcome(sum(one.held for one in found), tuple(fooled))


async def _of_unittest(sandbox: Sandbox, control: Control) -> Outcome:
    try:
        said = (await sandbox.read(control.said, max_bytes=MAX_SAID_BYTES)).decode("utf-8", "replace")
    except PathError:
        return Outcome()
    counts = summary(said)
    if counts is None or not counts.total:
        return Outcome()
    passing = counts.total - counts.failed
    return Outcome(fooled=(f"{passing} of unittest",)) if passing else Outcome(len(RAN.findall(said)))


def _of_cases(cases: Sequence[ControlCase]) -> Outcome:
    """A test that was skipped, or met an error before it began, tells nothing; one that is missing spoils the rest."""
    failed = {case.word for case in cases if case.outcome == "failed" and case.is_ours}
    passed = {case.name for case in cases if case.outcome == "passed" and case.word not in failed}
    is_whole = len({case.word for case in cases}) == max(case.of for case in cases)
    return Outcome(int(is_whole and bool(failed)), tuple(passed))
