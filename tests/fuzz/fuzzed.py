"""Whatever is parsed in a process that holds keys, given what no honest program writes.

Each target says what it may raise; anything else, more than `MAX_CPU_S`, or the end of the process is a fault. Inputs
are made from examples by joining, repeating, nesting and spoiling; those that lead to a new end join the examples.

    python tests/fuzz/fuzzed.py SECONDS [TARGET…]     # MUSTER_CHAOS_SEED repeats a run

What it finds is kept in `found/TARGET`, which the tests try again; `found/TARGET/last` is what a process died of.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType
from zlib import crc32

from envelope.codec import decode
from envelope.errors import DecodeError
from envelope.skills import BadLock, read_lock
from orchestrator.batch.document import read_document
from orchestrator.errors import MusterError
from orchestrator.gating.build_files import BUILD_FILES
from orchestrator.gating.cmake_files import Uses
from orchestrator.gating.commands import roots_in, without_files_read
from orchestrator.gating.diff import FilePatch, parts_of
from orchestrator.gating.followed import led_by
from orchestrator.gating.makefiles import what_goals_reach
from orchestrator.gating.named_files import literals
from orchestrator.gating.runner_access import runner_access, runs_its_texts
from orchestrator.gating.scripts import programs_in
from orchestrator.gating.settings_of import READERS as SETTINGS
from orchestrator.gating.settings_of import has_other_settings
from orchestrator.planner.files import plan_in
from orchestrator.project.file import parsed as project_file
from orchestrator.project.files import ProjectFiles
from orchestrator.project.guess import guess
from orchestrator.project.python_version import oldest_python
from repo import entities
from repo.data_keys import FORMS, contradict
from repo.entities import unite
from repo.errors import PatchRefused as DiffRefused
from repo.merge_words import may_meet, names_gone, reaches, things_gone, words_of
from repo.syntaxes import SYNTAXES
from sandbox.channel import decode as decode_frames
from sandbox.elsewhere.changes import decoded as decode_changes
from sandbox.errors import SandboxLost
from sandbox.tools import _entries
from workers.acp.asked import READERS as QUESTIONS
from workers.acp.asked import BadQuestion, read_question
from workers.acp.lines import MAX_VALUES, _parsed
from workers.after_write.protocol import BadMessage, take_messages
from workers.agents.registry import problems
from workers.commands.files import parse_command
from workers.commands.template import expand, mentions, shell_commands
from workers.duck import is_light
from workers.errors import BadSettings
from workers.llm.arguments import parsed, repaired
from workers.llm.sse import EventParser, TooLong
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS
from workers.permissions.shell import Unparsable, commands, read
from workers.project.skills import BadSkill, parse_skill
from workers.recipes.counting import seen_in, with_unbuilt
from workers.recipes.coverage import coverage_totals
from workers.recipes.digest import digest_in
from workers.recipes.js_hooks import Source
from workers.recipes.junit import cases_of
from workers.references.grammars import GRAMMARS
from workers.references.symbols import lines_of
from workers.tools.bash import Bash
from workers.tools.edit import apply_edit
from workers.tools.patch import PatchRefused, apply_patch
from workers.tools.replace import EditRefused
from workers.web.markdown import to_markdown, to_text

FOUND = Path(__file__).parent / "found"
MAX_CPU_S = 5.0
MAX_POOL = 200
MAX_MEMORY_BYTES = 4 * 1024**3
JUDGED = Guard(("bash:ls *", "bash:git *"), DEFAULTS)


class Slow(BaseException):
    """It took more than `MAX_CPU_S` for one input."""


class Died(BaseException):
    """The process that parses for us did not survive the input."""


@dataclass(frozen=True, slots=True)
class Target:
    """`max_bytes`: what its callers let through at most. `pieces` is what inputs are made of, beside the examples."""

    call: Callable[[bytes], object]
    may_raise: tuple[type[BaseException], ...]
    examples: tuple[bytes, ...]
    pieces: tuple[bytes, ...]
    max_bytes: int = 64 * 1024


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _shell(data: bytes) -> None:
    text = _text(data)
    for reads in (read, commands):
        try:
            reads(text)
        except Unparsable as e:
            if "within bounds" in str(e):
                raise Died from e
    JUDGED.judge(Bash().targets({"command": text}))


def _arguments(data: bytes) -> None:
    parsed(_text(data))
    repaired(_text(data))


def _hooks(data: bytes) -> None:
    source = Source(_text(data))
    for place in (1, len(data) // 2, len(data)):
        source.has_in_hook(1, place)


def _lines(data: bytes) -> None:
    if is_light(data, MAX_VALUES):
        _parsed(data)


def _counted(data: bytes) -> None:
    text = _text(data)
    if seen := seen_in(text):
        with_unbuilt(seen.counts, text)
    coverage_totals(text)


def _parts(data: bytes) -> None:
    for part in parts_of(data):
        part.lines(b"+"), part.numbered(b"-"), part.starts_from


def _project(data: bytes) -> None:
    text = _text(data)
    for name in ("pyproject.toml", "setup.cfg", "tox.ini", "package.json", "Cargo.toml", "Makefile", "setup.py"):
        guess(ProjectFiles({name: text}, frozenset({name})))
        oldest_python({name: text})


@dataclass(frozen=True)
class _Asked:
    goals = entries = environments = frozenset({"test"})
    texts, targets = ("unit",), Uses(("unit",))

    def runs(self, program: str) -> bool:
        return True


def _settings(data: bytes) -> None:
    for name in (*SETTINGS, *(name.replace("*", "x") for one in BUILD_FILES for name in one.names)):
        has_other_settings(name, data, b"-", _Asked())
    for name in ("jest.config.js", ".mocharc.yml", "bunfig.toml", ".rspec"):
        literals(name, _text(data))
    what_goals_reach(_text(data), ["test"])
    programs_in([_text(data)])
    for is_shell in (True, False):
        led_by(_text(data), is_shell=is_shell)
    roots_in([_text(data)], "a/b")
    without_files_read(_text(data))


def _accesses(data: bytes) -> None:
    """`max_bytes` is far less than what a change may have: it is taken as each of a Python file's sides, too."""
    lines = data.replace(b"\n", b"\n+")
    part = FilePatch("a.py", "M", None, b"diff\n@@ -1 +1 @@\n-a\n+" + lines + b"\n")
    runner_access(part), runner_access(part, "", _text(data)), runs_its_texts([part])


def _words(data: bytes) -> None:
    for path in ("a.txt", "a/b.py", "a.ts", "a.go", "a.java", "a.rs", "a.proto", "Makefile", "package.json"):
        for sign in (b"+", b"-"):
            lines = data.replace(b"\n", b"\n" + sign)
            head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n".encode()
            words = words_of(head + sign + lines + b"\n", ())
            list(may_meet(words, words)), names_gone(words, words), things_gone(words, words)
        reaches(data, "a/c.py", path)


def _agents(data: bytes) -> None:
    for name in ("a", ".claude/agents/a", "opencode/a"):
        problems(name, _text(data))


def _templates(data: bytes) -> None:
    text = _text(data)
    expand(text, "a 'b c' d"), mentions(text), shell_commands(text)
    expand("$1 $2 $ARGUMENTS", text)


def _edits(data: bytes) -> None:
    old, _, rest = _text(data).partition("\0")
    new, _, content = rest.partition("\0")
    apply_edit(content, old, new)


def _events(data: bytes) -> None:
    parser = EventParser()
    for start in range(0, len(data), 7):
        parser.feed(data[start : start + 7])
    parser.end()


# These three run in processes that bound their own time (`repo.bounds`): only what they raise counts, and their deaths.
def _entities(data: bytes) -> None:
    for kept in (entities._parsed, entities._read):
        kept.cache_clear()  # of 250 texts: gigabytes
    with _allowed(Slow):
        unite(data, data + b"\nx\n", b"y\n" + data, language=_one_of(SYNTAXES, data))


def _symbols(data: bytes) -> None:
    with _allowed(Slow):
        lines_of(data, "a.b", _one_of(GRAMMARS, data))


def _data(data: bytes) -> None:
    with _allowed(Slow):
        contradict(data, data + b"\na", b"b\n" + data, data, _one_of(FORMS, data))


def _one_of(names: Iterable[str], data: bytes) -> str:
    known = sorted(names)
    return known[crc32(data) % len(known)]


def _questions(data: bytes) -> None:
    for path in QUESTIONS:
        with _allowed(BadQuestion):
            read_question(path, _text(data))


def _documents(data: bytes) -> None:
    for language in ("TOML", "YAML", "JSON"):
        with _allowed(MusterError):
            asyncio.run(read_document(data, language))


def _plans(data: bytes) -> None:
    for suffix in (".json", ".toml"):
        with _allowed(MusterError):
            plan_in("a", _text(data), suffix)


@contextmanager
def _allowed(*kinds: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except kinds:
        return


JSON = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"a":',
    b'"',
    b",",
    b"1",
    b"null",
    b"9" * 5000,
    b"1e999",
    b"-",
    b"NaN",
    b"\\ud800",
    b"\\",
)
TOML = (
    b"[",
    b"]",
    b"[[",
    b"]]",
    b"a.",
    b"=",
    b'"""',
    b"'''",
    b"{",
    b"}",
    b"9" * 5000,
    b"a=1\n",
    b"1979-99-99",
    b"inf",
    b"\na = ",
    b"\n[options]\n",
)
YAML = (
    b"- ",
    b"? ",
    b": ",
    b"&a ",
    b"*a ",
    b"!!python/object:os.system ",
    b"|\n",
    b">",
    b"---\n",
    b"{",
    b"[",
    b"<<: *a\n",
)
CODE = (
    b"def a():\n",
    b"class a:\n",
    b"(",
    b")",
    b"{",
    b"}",
    b"[",
    b"]",
    b";",
    b"\n",
    b'"',
    b"'",
    b"a",
    b"=",
    b"#",
    b"//",
    b"<",
)
RUNNERS = (
    b"find . -exec sudo -n env A=1 rm {} \\; -ok sed '1q;s/a/b/' x +",
    b"xargs -I a git -C x -c a=b log; timeout 5 nice sh -c 'make a=b; tar -a x {a,b}'",
    b"prlimit --nofile=1 -c setarch x86_64 -R cmake -E env A=1 make CC=x V=1; git x; awk -f - x; cmake -DX=1 -- y=z",
)
SHELL = (
    *(
        b"|",
        b"&&",
        b";",
        b"(",
        b")",
        b"((",
        b"))",
        b"$(",
        b"${",
        b"}",
        b"`",
        b'"',
        b"'",
        b"<<E\n",
        b"\nE\n",
        b"[[ ",
        b" ]]",
    ),
    *(
        b"sh -c ",
        b"sudo ",
        b"env ",
        b"cd ..",
        b"\\",
        b"\n",
        b"case a in ",
        b"esac",
        b"for x in ",
        b"do ",
        b"done",
        b"x=",
        b"$x",
    ),
)
MARKS = (
    b"*** Begin Patch\n",
    b"*** End Patch\n",
    b"*** Update File: a\n",
    b"@@ a\n",
    b"@@ -1,9 +1 @@\n",
    b"+",
    b"-",
    b" a\n",
)
PROJECT = (
    b'[project]\nrequires-python = ">=3.8"\n[project.optional-dependencies]\ntest = ["pytest"]\n'
    b"[tool.pytest.ini_options]\na = 1\n"
)
FRONT = b"---\ndescription: Use when\ntools: {write: false}\npermission:\n  bash: {'*': ask}\n---\nBody $1 @a `!ls`\n"
FRAME = b"\x00\x00\x00\x1b\x00\x00\x00\x02" + b'{"type": "chunk", "id": 1} ' + b"ok"
REPORT = b'<testsuite><testcase classname="a" name="b"><failure message="m">t</failure></testcase></testsuite>'
DIFF = b"diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n"
PATCH = (
    b"*** Begin Patch\n*** Update File: a\n@@ def f\n one\n-two\n+2\n"
    b"*** Add File: b\n+x\n*** Delete File: c\n*** End Patch"
)
PAGE = (
    b'<html><head><title>a</title></head><body><h1>x</h1><p>a <a href="/b">c</a>'
    b"<ul><li>d</ul><pre>e</pre><table><tr><td>f"
)
SAID = (
    b"=== 3 passed, 1 failed in 0.1s ===\nTests run: 12, Failures: 1, Errors: 0, Skipped: 2\n"
    b"--- PASS: TestA\nTOTAL 10 1 90%\n"
)
BATCH = b'name = "a"\nprompt = "b"\n[shards]\npaths = ["src/*"]\n'
TARGETS: dict[str, Target] = {
    "shell": Target(
        _shell, (), (b"cd a && git log | head > x", b"for x in a; do echo $(ls); done", *RUNNERS), SHELL, 16 * 1024
    ),
    "patches": Target(
        lambda data: apply_patch({"a": "one\ntwo\n", "c": ""}, _text(data)), (PatchRefused,), (PATCH, DIFF), MARKS
    ),
    "edits": Target(
        _edits, (EditRefused,), (b"a b\0c\0x a b y\n", b"def f():\n  a\0b\0def f():\n\ta\n"), (b"\0", *CODE)
    ),
    "arguments": Target(_arguments, (), (b'{"a": 1}', b"{'a': 1,}"), JSON),
    "agents": Target(_agents, (), (FRONT,), (b"---\n", *YAML)),
    "commands": Target(lambda data: parse_command("a", _text(data)), (BadSettings,), (FRONT,), (b"---\n", *YAML)),
    "skills": Target(lambda data: parse_skill("a/SKILL.md", data), (BadSkill,), (FRONT,), (b"---\n", *YAML)),
    "templates": Target(
        _templates, (), (b"a $1 ${2} @b `!ls` $ARGUMENTS",), (b"$", b"@", b"!`", b"`", b"'", b'"', b"\\", b"1")
    ),
    "reports": Target(
        lambda data: cases_of([data], "a"), (), (REPORT,), (b"<testcase ", b">", b"<!DOCTYPE a [", b"&a;", b"]]>")
    ),
    "digests": Target(digest_in, (), (b"hello 1 00ff 1 2\n1 aa 0 0 {}\n",), (b"hello ", b"1 ", b" 0 0 ", b"\n", *JSON)),
    "summaries": Target(
        _counted,
        (),
        (SAID,),
        (
            *(b"passed", b" failed", b"1", b"9" * 20, b"\n", b"===", b"--- FAIL: ", b"%", b" ", b"a", b"=1", b", "),
            *(
                b"\nRan 1 test in 0.1s\n",
                b"\nOK",
                b"FAILED (failures=1",
                b"  \xe2\x97\x8f a \xe2\x80\xba b\n",
                b"Tests: ",
            ),
            *(
                b" FAIL  a > b\n",
                b"ERROR: a (b)\n",
                b"Traceback",
                b'  File "a", line 1, in b\n',
                b"# tests 1\n",
                b"\x1b[",
            ),
        ),
        256 * 1024,
    ),
    "sources of hooks": Target(
        _hooks,
        (),
        (b"beforeEach(() => { connect(`a${b}`); });\nfunction setUp() {\n  'x'\n}\n",),
        (*CODE, b"`", b"\\", b"\\`", b"/*", b"*/", b"beforeEach(", b"function a() {", b"=> {", b".", b" "),
        256 * 1024,
    ),
    "language servers": Target(
        lambda data: list(take_messages(bytearray(data))),
        (BadMessage,),
        (b"Content-Length: 2\r\n\r\n{}",),
        (b"Content-Length: ", b"\r\n\r\n", *JSON),
    ),
    "programs": Target(_lines, (), (b'{"jsonrpc": "2.0", "id": 1, "method": "a", "params": {}}',), JSON),
    "questions": Target(
        _questions, (), (b'{"model": "a", "messages": [{"role": "user", "content": "b"}], "tools": []}',), JSON
    ),
    "frames": Target(lambda data: decode_frames(bytearray(data)), (SandboxLost,), (FRAME,), (b"\0\0\0\1", *JSON)),
    "listings": Target(_entries, (SandboxLost,), (b'[["a", 1, 2, 3.0]]',), JSON),
    "changes": Target(decode_changes, (SandboxLost,), (b'{"changed": [], "gone": [], "unreadable": []}',), JSON),
    "pages": Target(
        lambda data: (to_markdown(_text(data), "http://a/"), to_text(_text(data))),
        (),
        (PAGE,),
        (
            b"<",
            b">",
            b"<b>",
            b"<ul>",
            b"<table>",
            b"<td>",
            b"<pre>",
            b"<!--",
            b"&#",
            b"&",
            b'"',
            b"<a href=",
            b"]",
            b"\n",
        ),
        256 * 1024,
    ),
    "events": Target(
        _events, (TooLong,), (b"data: {}\n\ndata: [DONE]\n\n",), (b"data:", b"\r", b"\n", b"\xef\xbb\xbf")
    ),
    "project files": Target(
        _project, (), (PROJECT, b'{"scripts": {"test": "a"}}', b"[metadata]\na=1\n"), (*TOML, *JSON)
    ),
    "muster.toml": Target(lambda data: project_file(data, "a"), (MusterError,), (b'gate = ["a"]\nbudget = 2\n',), TOML),
    "gate settings": Target(
        _settings, (), (PROJECT, b"test: a\n\tpytest\n", b'{"scripts": {"test": "a"}}'), (*TOML, b"\t", b":")
    ),
    "batches": Target(_documents, (), (BATCH, b"name: a\nprompt: b\n", b'{"name": "a"}'), (*TOML, *YAML)),
    "plans": Target(_plans, (), (b'{"goal": "a", "steps": [{"id": "b", "prompt": "c"}]}',), (*JSON, *TOML)),
    "skill locks": Target(read_lock, (BadLock,), (b'{"version": 1, "skills": {}}',), JSON),
    "messages": Target(
        decode,
        (DecodeError,),
        (b"\x01\x93\xc4\x01\x80\xa0\xc4\x00",),
        (b"\x91", b"\xdc\xff\xff", b"\xc7", b"\x81\xa4kind"),
    ),
    "diffs": Target(
        _parts,
        (DiffRefused,),
        (DIFF,),
        (b"diff --git ", b"@@ -1 +1 @@\n", b"\n", b"rename from a\n", b"GIT binary patch\n", b'"'),
    ),
    "runner access": Target(
        _accesses,
        (),
        (b"import pytest\nsys.modules['pytest']\n", b"x = 1  # _pytest\n", b"f('os._exit now')\n"),
        (
            *CODE,
            b"from sys import ",
            b"sys.modules",
            b"_pytest",
            b"__doc__",
            b"exec",
            b'"""',
            b"\\",
            b"\t",
            b"\r",
            b"\f",
        ),
    ),
    "merge words": Target(
        _words,
        (),
        (b"def f(a: int) -> b:\n", b"from ..a import b\n", b"func (r *R) F(a int) {\n", b"test: a\n\tmake b\n"),
        (*CODE, b".", b"/", b"import ", b"export default ", b"func ", b"\t", b" ", b":", b"abstract ", b"self.a = 1"),
    ),
    "data": Target(
        _data, (), (PROJECT, b'{"a": 1}', b"a: 1\n", b"[a]\nb=1\n", b"FROM a\n"), (*TOML, *JSON, *YAML), 4096
    ),
    "sources": Target(_entities, (), (b"def a():\n    pass\n", b"function a() { return 1 }\n"), CODE, 8 * 1024),
    "symbols": Target(_symbols, (), (b"class a:\n  def b(self): 1\n", b"int a(int b) { return 1; }\n"), CODE, 8 * 1024),
}


def tried(target: Target, data: bytes) -> str:
    """How it ended, as far as that tells inputs apart; the fault is raised."""

    def too_slow(number: int, frame: FrameType | None) -> None:
        raise Slow

    before = signal.signal(signal.SIGVTALRM, too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_S)
    try:
        target.call(data)
        return "fine"
    except target.may_raise as e:
        at = e.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        return f"{type(e).__name__} {at.tb_lineno if at else 0}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def inputs(target: Target, chance: random.Random, pool: list[bytes]) -> Iterator[bytes]:
    """Without an end. `pool` may grow meanwhile."""
    while True:
        data = chance.choice(pool)
        for _ in range(chance.choice((1, 1, 2, 4, 8))):
            at, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
            piece = chance.choice(target.pieces)
            match chance.randrange(9):
                case 0:
                    data = data[:at] + piece + data[at:]
                case 1:
                    data = data[:at] + piece * chance.choice((2, 10, 100, 1000, 20_000)) + data[at:]
                case 2:
                    data = data[:at] + data[at:end] * chance.choice((2, 10, 100, 1000)) + data[end:]
                case 3:
                    data = data[:at] + data[end:]
                case 4:
                    data = data[:at] + bytes((chance.randrange(256),)) + data[at + 1 :]
                case 5:
                    data = data[:at] + chance.choice(pool)
                case 6:
                    data = b"".join(chance.choices(target.pieces, k=chance.choice((2, 10, 50))))
                case 7:
                    data = (
                        data[:at]
                        + chance.choice((b"\0", b"\xff", b"\xe2\x80\xa8", b"\r", b"\x1b[", b"\xed\xa0\x80"))
                        + data[at:]
                    )
                case _:
                    data = data[:at] + piece * 300 + data[at:end] + chance.choice(target.pieces) * 300 + data[end:]
            data = data[: target.max_bytes]
        yield data


def fuzz(
    name: str, seconds: float, chance: random.Random, last: Path | None = None
) -> tuple[int, list[tuple[bytes, str]]]:
    """How many inputs were tried, and those with a fault; of each fault one. `last` holds each while it is tried."""
    target, began_s = TARGETS[name], time.monotonic()
    pool, ends, count = list(target.examples), set[str](), 0
    faults: dict[str, tuple[bytes, str]] = {}
    for data in inputs(target, chance, pool):
        if time.monotonic() - began_s > seconds:
            break
        if last is not None:
            last.write_bytes(data)
        count += 1
        try:
            end = tried(target, data)
        except (Exception, Slow, Died) as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            key = f"{type(e).__name__} {where.filename}:{where.lineno}" if not isinstance(e, Slow) else "Slow"
            if key not in faults or len(data) < len(faults[key][0]):
                faults[key] = data, f"{key}: {str(e)[:200]}"
            continue
        if (end := f"{end} {len(data).bit_length()}") not in ends and len(pool) < MAX_POOL:
            ends.add(end)
            pool.append(data)
    return count, list(faults.values())


def main(words: list[str]) -> int:
    seconds, names = float(words[0]), words[1:] or list(TARGETS)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    seed = int(os.environ.get("MUSTER_CHAOS_SEED") or random.SystemRandom().randrange(2**32))
    _say(f"MUSTER_CHAOS_SEED={seed}")
    is_bad = False
    for name in names:
        folder = FOUND / name
        folder.mkdir(parents=True, exist_ok=True)
        count, faults = fuzz(name, seconds / len(names), random.Random(f"{seed} {name}"), folder / "last")
        (folder / "last").unlink(missing_ok=True)
        for data, fault in faults:
            file = folder / sha256(data).hexdigest()[:16]
            file.write_bytes(data)
            _say(f"{name}: {fault}\n  {file}")
        is_bad |= bool(faults)
        _say(f"{name}: {count} inputs, {len(faults)} faults")
        if report := os.environ.get("MUSTER_CHAOS_REPORT"):
            row = {"row": "fuzz", "target": name, "inputs": count, "faults": len(faults)}
            with Path(report).open("a") as lines:
                lines.write(f"{json.dumps(row)}\n")
        if not any(folder.iterdir()):
            folder.rmdir()
    return 1 if is_bad else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
