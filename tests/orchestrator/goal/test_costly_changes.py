"""What a change or its base makes the orchestrator read costs as much as it is long: all tenants share its loop."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from envelope.gate import GateRules
from orchestrator.batch.shards import folders_of
from orchestrator.errors import BadInput
from orchestrator.gating.change import Inspection, inspect
from orchestrator.gating.cmake_files import uses_of, what_counts
from orchestrator.gating.commands import roots_in, without_files_read
from orchestrator.gating.diff import FilePatch, parts_of, without
from orchestrator.gating.followed import led_by
from orchestrator.gating.makefiles import what_goals_reach
from orchestrator.gating.names import settings_like
from orchestrator.gating.runner_access import runner_access
from orchestrator.gating.scripts import ANYTHING, invoked_by
from orchestrator.gating.settings_of import has_other_settings
from orchestrator.gating.trees import Trees
from orchestrator.project.files import ProjectFiles
from orchestrator.project.guess import guess
from orchestrator.project.python_version import oldest_python
from orchestrator.strange_ini import BadIni, read_ini
from repo.fairness import Threads
from repo.mirror import Mirror

MAX_CPU_S = 3  # of this process; what these were before took from 8 s to a minute
MAX_BYTES = 100 * 1024 * 1024  # they took from 200 MB to gigabytes
BLANKS = f"[metadata]\nname{' ' * 60_000}x\n"
DEEP = "/".join(["d" * 200] * 15)
INI = {
    "blanks before no value": BLANKS,
    "names and values of one line": "[pytest]\na = b\n" + "=" * 100_000 + "\n" + "[#" * 50_000 + "\n" + " b\n" * 50_000,
    "many options": "[pytest]\n" + "".join(f"a{n} = [#;\n" for n in range(20_000)),
    "bad lines": "[a]\n" + "x\n" * 100_000,
    "defaults of each section": "[DEFAULT]\n"
    + "".join(f"a{n} =\n" for n in range(3000))
    + "".join(f"[s{n}]\n" for n in range(3000)),
    "sections of tox": "[tox]\n" + "".join(f"[testenv:a{n}]\nb = {{[c\n" for n in range(10_000)),
}


@contextmanager
def soon() -> Iterator[None]:
    began_s = time.process_time()
    yield
    assert time.process_time() - began_s < MAX_CPU_S


@contextmanager
def little(*, max_bytes: int = MAX_BYTES) -> Iterator[None]:
    """Slow itself."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < max_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["setup.cfg", "tox.ini", "pytest.ini"])
@pytest.mark.parametrize("text", INI.values(), ids=INI)
def test_ini_files_are_read_at_once(name: str, text: str):
    with soon():
        assert has_other_settings(name, b"", text.encode(), ANYTHING)


def test_a_bases_setup_cfg_is_read_at_once():
    with soon():
        assert oldest_python({"setup.cfg": BLANKS}) is None
        guess(ProjectFiles({"setup.cfg": BLANKS}, frozenset({"setup.cfg"})))


def test_an_ini_file_is_what_configparser_reads():
    text = "# no\n[a]\nOne : 1 = x\ntwo=\n  2\n\n  3\n; no\n[b c]\nfour   =  = 4\n[DEFAULT]\none = 0\n"
    assert read_ini(text) == {"a": {"one": "1 = x", "two": "\n2\n\n3"}, "b c": {"four": "= 4"}, "DEFAULT": {"one": "0"}}
    for bad in ("a = 1\n", "[a]\nb\n", "[a]\n= 1\n", "[a]\nb = 1\nb = 2\n", "[a]\n[a]\n"):
        with pytest.raises(BadIni):
            read_ini(bad)


def _lines_that_reach() -> None:
    content = b"diff\n@@ -0,0 +1,20000 @@\n" + b"+os._exit\n" * 20_000
    assert len(runner_access(FilePatch("b.py", "A", None, content)).reached) == 20_000


def _lines_that_reach_by_many_names() -> None:
    """With what was there before: each line was held against all of it."""
    old, new = (
        b"".join(b"%spytest_runtest_%d\n" % (sign, n) for n in range(start, start + 10_000))
        for sign, start in ((b"-", 0), (b"+", 1))
    )
    content = b"diff\n@@ -1,10000 +1,10000 @@\n" + old + new
    assert len(runner_access(FilePatch("b.py", "M", None, content)).reached) == 1


def _name_of_a_cmake_project() -> None:
    text = f"project({'A' * 50_000})\nadd_library(x {'${PROJECT_NAME} ' * 5000})\n"
    assert has_other_settings("CMakeLists.txt", b"project(x)\n", text.encode(), ANYTHING)


def _targets_of_cmake_files() -> None:
    many = "".join(f"add_executable(a{n} a.c)\n" for n in range(3_000))
    for told in (
        "".join(f"x(${{L}}a{n})\n" for n in range(20_000)) + f"set(L {'b ' * 200_000})",
        "".join(f"x(${{a}}{n}a${{b}}a)\n" for n in range(19)),
        f"x({'${a}b' * 100_000})",
        f"x({'a' * 500_000})\nset({' '.join(f'a{n}' for n in range(50_000))})",
        "".join(f"set(a{n} ${{a{n + 1}}})\n" for n in range(30_000)) + "x(${a0})",
    ):
        what_counts(many, beside=uses_of([told, "x(y)\n" * 1000]))


def _rule_of_many_targets() -> None:
    names = " ".join(f"a{n:x}" for n in range(6000))
    text = f"test: a\n\tx\n{names}: {names}\n" + "\tx\n" * 6000
    assert len(what_goals_reach(text, ["test"])) < 100 < len(what_goals_reach(text, ["a0"])) < len(text)


def _many_files() -> None:
    one = b"diff --git a/t%d.py b/t%d.py\nold mode 100644\nnew mode 100755\n"
    diff = b"".join(one % (n, n) for n in range(8000))
    rest, out = without(diff, lambda part: int(part.path[1:-3]) % 2 == 0)
    assert len(out) == len(parts_of(rest)) == 4000


def _roots_in_a_deep_folder() -> None:
    assert roots_in(["[pytest]\npythonpath = " + " ".join(f"{n:x}" for n in range(40_000))], DEEP)


def _words_before_a_program() -> None:
    roots_in([f"{'a=1 ' * 100_000} python b.py"], "")


def _names_like_settings() -> None:
    for name in ("." + "a-" * 50_000, "/" * 50_000 + "config/a.json", "rc" * 50_000, "a.config." * 10_000):
        settings_like(name, {"b"})


def _files_that_a_checker_reads() -> None:
    assert without_files_read(f"ruff check{' a.py' * 100_000}").split() == ["ruff", "check"]


def _what_words_lead_to() -> None:
    for words in ("python -W ", "cd $(a) && ", "make -C a$B ", "uv run --a ", "\"'a b' ", "A=b $A ", "`", ". $A/b;"):
        for is_shell in (True, False):
            led_by(words * (100_000 // len(words)), is_shell=is_shell)


@pytest.mark.parametrize(
    "read",
    [
        _what_words_lead_to,
        _targets_of_cmake_files,
        _lines_that_reach,
        _lines_that_reach_by_many_names,
        _many_files,
        _words_before_a_program,
        _files_that_a_checker_reads,
        _names_like_settings,
    ],
    ids=lambda read: read.__name__.strip("_"),
)
def test_texts_are_read_at_once(read: Callable[[], None]):
    with soon():
        read()


@pytest.mark.parametrize(
    "read",
    [_name_of_a_cmake_project, _rule_of_many_targets, _roots_in_a_deep_folder],
    ids=lambda read: read.__name__.strip("_"),
)
def test_what_is_kept_of_texts_is_little(read: Callable[[], None]):
    with little():
        read()


def test_a_project_whose_name_is_put_in_still_has_its_tests():
    before, after = (
        f"project(calc)\nadd_executable(calc {source})\nadd_test(all ${{PROJECT_NAME}})\n".encode()
        for source in ("a.c", "b.c")
    )
    assert has_other_settings("CMakeLists.txt", before, after, ANYTHING)


def test_a_repository_of_too_deep_folders_is_refused():
    files = [f"{n}/" + "a/" * 2000 + "x" for n in range(300)]
    with little(max_bytes=2 * MAX_BYTES), pytest.raises(BadInput, match="too deep"):
        folders_of(files)


JEST = ",".join(f"'./{{n}}/{n:x}'" for n in range(2000))
BASES = {
    "settings that name many files": (
        {f"{DEEP[:1000]}/{n}/jest.config.js": f"module.exports = {{{{setupFiles: [{JEST}]}}}}" for n in range(8)},
        "npx jest",
    ),
    "a conftest of many words": (
        {f"{DEEP}/conftest.py": "sys.path.append(" + ",".join(f"'{n:x}'" for n in range(100_000)) + ")"},
        "python -m pytest -q",
    ),
    "conftests in each folder": ({f"f/{n}/conftest.py": "sys.path\n" for n in range(400)}, "python -m pytest -q"),
}


def _git(folder: Path, *words: str, given: bytes = b"") -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, input=given).stdout.decode().strip()


def _commit(folder: Path, files: dict[str, str]) -> str:
    """By `fast-import`: so many files would take long to write."""
    told = b"commit refs/heads/x\ncommitter x <x@y> 0 +0000\ndata 1\nx\n"
    for path, text in files.items():
        told += b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(text.encode()), text.encode())
    _git(folder, "fast-import", "--quiet", "--force", given=told + b"\n")
    return _git(folder, "rev-parse", "refs/heads/x")


def _change(folder: Path, before: dict[str, str], after: dict[str, str]) -> tuple[bytes, Trees]:
    _git(folder, "init", "-q")
    base, new = _commit(folder, before), _commit(folder, {**before, **after})
    diff = _git(folder, "diff", "-p", "-M", "--binary", "--full-index", base, new).encode() + b"\n"
    return diff, Trees(Mirror(folder / ".git"), base, _git(folder, "rev-parse", f"{new}^{{tree}}"))


def _inspecting(diff: bytes, trees: Trees, command: str) -> Coroutine[Any, Any, Inspection]:
    return inspect(diff, trees, commands=[command], subpath="", rules=GateRules(), scope=("edit:**",))


async def _inspected(folder: Path, files: dict[str, str], command: str) -> Inspection:
    diff, trees = _change(folder, files, {"f/1/json.py": "x = 1\n"})
    with little():
        return await _inspecting(diff, trees, command)


@pytest.mark.parametrize("name", BASES)
async def test_a_base_is_looked_at_at_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    started: list[str] = []
    start = asyncio.create_subprocess_exec

    async def counted(program: str, *words: str, **more: object) -> asyncio.subprocess.Process:
        started.append(program)
        return await start(program, *words, **more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    files, command = BASES[name]
    found = await _inspected(tmp_path, {path: text.format(n=1) for path, text in files.items()}, command)
    assert 0 < len(started) < 40
    assert bool(found.objections) == ("conftests" in name)  # the new f/1/json.py comes in the place of json


async def test_what_scripts_name_is_looked_at_at_once():
    """Folders times words times files of one name: all are the repository's own."""
    files = {f"d{n % 50}/f{n}/x.py": b"" for n in range(20_000)} | {"t.sh": b""}
    files["t.sh"] = "".join(f"cd d{n % 50}; python $A/f{n}/x.py\n" for n in range(20_000)).encode()

    async def read(path: str) -> bytes | None:
        return files[path]

    with soon():
        invoked = await invoked_by(["sh t.sh"], folder="", among=files, read=read)
    assert len(invoked.scripts) == len(files)


async def test_others_go_on_while_a_large_change_is_looked_at(tmp_path: Path):
    slow, quick = "import inspect; value = os.environ.get('NAME')\n" * 20_000, f"{'x' * 999}\n" * 1000
    diff, trees = _change(tmp_path, {"a": ""}, {"a.py": slow, **{f"p{n}.py": quick for n in range(10)}})
    looking = asyncio.create_task(
        Threads().run("a", lambda: asyncio.run(_inspecting(diff, trees, "python -m pytest -q")))
    )
    longest_s = 0.0
    while not looking.done():
        began_s = time.monotonic()
        await asyncio.sleep(0.01)
        longest_s = max(longest_s, time.monotonic() - began_s)
    [objection] = looking.result().objections
    assert longest_s < 1  # it was all of the time
    assert objection.message == "the change has more code than is looked through (8,000,000 signs): p7.py, p8.py, p9.py"
    assert "may_edit" in objection.hint


async def test_of_many_large_settings_those_that_come_last_count_as_edited(tmp_path: Path):
    before, after = (
        {f"p{n:02}/package.json": f'{{"version": "{version}", "x": "{"a" * 700_000}"}}' for n in range(25)}
        for version in ("1", "2")
    )
    found = await _inspecting(*_change(tmp_path, before, after), "npm test")
    [objection] = found.objections
    assert objection.code == "gate_edited"
    assert 0 < len(objection.names) < 12
    assert objection.names[-1] == "p24/package.json"


def test_a_long_line_is_read_in_pieces_and_no_word_of_it_is_lost_or_counted_twice():
    for at in (0, 9_990, 10_000, 10_400, 10_499, 10_500, 19_999):
        line = b"x" * at + b" os._exit " + b"x" * 500
        part = FilePatch("b.py", "M", None, b"diff\n@@ -1,1 +1,1 @@\n-%b\n+%b\n" % (line, line))
        assert runner_access(part).reached == ()
        part = FilePatch("b.py", "A", None, b"diff\n@@ -0,0 +1,1 @@\n+%b\n" % line)
        assert len(runner_access(part).reached) == 1


async def test_turns_at_threads_are_fair_and_last_until_the_work_ends():
    threads, gates, order = Threads(), [threading.Event() for _ in range(2)], list[str]()
    held = [asyncio.create_task(threads.run("a", gate.wait)) for gate in gates]
    more = [asyncio.create_task(threads.run(who, partial(order.append, who))) for who in ("a", "b")]
    await asyncio.sleep(0)
    held[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await held[0]
    assert not order  # the thread is still at work
    gates[0].set()
    await asyncio.gather(*more)
    gates[1].set()
    assert await held[1]
    assert order[0] == "b"
