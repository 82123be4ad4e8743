"""What a diff touches: tests, the gate itself, its runner. Tables, on diffs that real git made where it matters."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envelope.gate import GateRules
from orchestrator.gating.change import Trees, inspect
from orchestrator.gating.diff import joined, parts_of, without
from orchestrator.gating.names import is_gate_file, is_test_file, shadows
from orchestrator.gating.reaching import reaching_lines
from orchestrator.gating.scripts import scripts_of
from orchestrator.gating.settings_of import has_other_settings
from repo.mirror import Mirror

NO_MIRROR = Trees(None, "", "")


@pytest.mark.parametrize(
    "path",
    [
        "tests/a.py",
        "pkg/test/data.json",
        "a/test_x.py",
        "x_test.go",
        "ui/b.spec.ts",
        "ui/b.test.mts",
        "src/FooTest.java",
    ],
)
def test_a_test_file_is_known_by_its_folder_or_name(path: str):
    assert is_test_file(path)


@pytest.mark.parametrize("path", ["src/contest.py", "latest.py", "attest/a.py", "testimony.md", "src/protest.go"])
def test_what_only_sounds_like_a_test_is_none(path: str):
    assert not is_test_file(path)


def test_a_person_may_name_more_tests():
    assert is_test_file("checks/a.py", ("checks/**",))


@pytest.mark.parametrize(
    "path",
    ["conftest.py", "tests/conftest.py", "pytest.ini", "tox.ini", "a/sitecustomize.py", "x.pth", ".coveragerc",
     "jest.config.ts", "node_modules/jest/bin/jest.js", ".venv/bin/pytest", "venv/lib/x.py", "ruff.toml",
     ".cargo/config.toml", "x.egg-info/entry_points.txt", "x-1.dist-info/entry_points.txt"],
)  # fmt: skip
def test_settings_of_runners_belong_to_the_gate(path: str):
    assert is_gate_file(path)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [("pytest.py", True), ("pytest/__init__.py", True), ("_pytest/main.py", False), ("src/unittest.py", True),
     ("tests/json.py", True), ("app/json.py", False), ("json.txt", False), ("calc.py", False),
     ("tests/__init__.py", False), ("sub/pytest.py", False)],
)  # fmt: skip
def test_a_new_module_may_stand_in_the_place_of_a_runners(path: str, is_one: bool):
    assert shadows(path) is is_one


def test_the_gates_own_folder_is_one_that_modules_are_loaded_from():
    assert shadows("sub/pytest.py", "sub")


@pytest.mark.parametrize(
    ("name", "before", "after", "is_other"),
    [
        ("pyproject.toml", '[project]\nversion = "1"\n', '[project]\nversion = "2"\n', False),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", '[tool.pytest.ini_options]\naddopts = "-k x"\n', True),
        ("pyproject.toml", "", '[project.entry-points.pytest11]\nx = "x"\n', True),
        ("pyproject.toml", '[tool.poetry]\nname = "a"\n', '[tool.poetry]\nname = "b"\n', False),
        ("pyproject.toml", "", "not toml =", True),
        ("setup.cfg", "[metadata]\nversion = 1\n", "[metadata]\nversion = 2\n", False),
        ("setup.cfg", "", "[tool:pytest]\naddopts = -x\n", True),
        ("setup.cfg", "", "[options.entry_points]\npytest11 =\n  x = x\n", True),
        ("setup.cfg", "", "[options.entry_points]\nconsole_scripts =\n  x = x:main\n", False),
        ("pyproject.toml", "", '[tool.poetry.plugins.pytest11]\nx = "x"\n', True),
        ("package.json", '{"version": "1"}', '{"version": "2"}', False),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', True),
        ("Cargo.toml", '[dependencies]\na = "1"\n', '[dependencies]\na = "2"\n', False),
        ("Cargo.toml", "", "[lib]\ntest = false\n", True),
    ],
)
def test_of_a_mixed_file_only_the_gates_part_counts(name: str, before: str, after: str, is_other: bool):
    assert has_other_settings(name, before.encode(), after.encode()) is is_other


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("./run-tests.sh --all", {"run-tests.sh", "scripts/inner.sh"}),
        ("make -s test", {"Makefile", "scripts/inner.sh"}),
        ("npm test", {"package.json", "check.js"}),
        ("python -m tools.check", {"tools/check.py"}),
        ("python -m pytest tests/test_a.py", set()),
        ("cd scripts && sh ../run-tests.sh", {"run-tests.sh", "scripts/inner.sh"}),
        ("make -C scripts", {"Makefile", "scripts/Makefile", "scripts/inner.sh"}),
        ("PYTHONPATH=tools:src python -m check", {"tools/check.py"}),
        ('PYTHONPATH="tools:$PYTHONPATH" python -m check', {"tools/check.py"}),
        ("PYTHONPATH=src python -m check", set()),
    ],
)
async def test_scripts_are_followed_from_the_commands(command: str, found: set[str]):
    files = {
        "run-tests.sh": b"sh scripts/inner.sh; python app.py",
        "scripts/inner.sh": b"pytest",
        "Makefile": b"test: app.py\n\tsh scripts/inner.sh\n",
        "package.json": b'{"main": "app.py", "scripts": {"test": "node check.js"}}',
        "check.js": b"", "app.py": b"", "tools/check.py": b"", "tests/test_a.py": b"",
        "scripts/Makefile": b"",
    }  # fmt: skip

    async def read(path: str) -> bytes | None:
        return files.get(path)

    assert await scripts_of([command], folder="", among=files, read=read) == found


def git(root: Path, *words: str) -> bytes:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    return subprocess.run(["git", *identity, "-C", str(root), *words], check=True, capture_output=True).stdout


@pytest.fixture
def diff(tmp_path: Path) -> bytes:
    """Of everything that git has a form of its own for."""
    git(tmp_path, "init", "-q")
    for name in ("edited.py", "gone.py", "old name.py", "ü.py", "mode.sh"):
        (tmp_path / name).write_text(f"{name}\n" * 9)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    (tmp_path / "edited.py").write_text("diff --git a/fake b/fake\n--- a/x\n+++ b/x\n" + "edited.py\n" * 9)
    (tmp_path / "gone.py").unlink()
    (tmp_path / "old name.py").rename(tmp_path / "new name.py")
    (tmp_path / "ü.py").write_text("other\n")
    (tmp_path / "mode.sh").chmod(0o755)
    (tmp_path / "binary").write_bytes(bytes(reversed(range(256))))
    (tmp_path / "empty.py").touch()
    git(tmp_path, "add", "-A")
    return git(tmp_path, "diff", "--cached", "-p", "-M", "--binary", "--full-index", "HEAD")


def test_a_diff_of_gits_is_split_by_file_and_put_together_again(diff: bytes):
    parts = parts_of(diff)

    assert {(part.status, part.old_path, part.path) for part in parts} == {
        ("M", None, "edited.py"), ("D", None, "gone.py"), ("R", "old name.py", "new name.py"), ("M", None, "ü.py"),
        ("M", None, "mode.sh"), ("M", None, "binary"), ("A", None, "empty.py"),
    }  # fmt: skip
    assert joined(parts) == diff


def test_a_file_is_left_out_of_a_diff_which_still_applies(diff: bytes, tmp_path: Path):
    rest, out = without(diff, lambda part: part.path in ("edited.py", "new name.py"))

    assert [part.path for part in out] == ["edited.py", "new name.py"]
    git(tmp_path, "reset", "-q", "--hard")
    subprocess.run(["git", "-C", str(tmp_path), "apply", "-"], input=rest, check=True)
    assert (tmp_path / "old name.py").exists() and (tmp_path / "edited.py").read_text() == "edited.py\n" * 9
    assert not (tmp_path / "gone.py").exists()


def edit(path: str, *lines: str, status: str = "") -> bytes:
    head = f"diff --git a/{path} b/{path}\n{status}--- a/{path}\n+++ b/{path}\n@@ -1 +1,{len(lines)} @@\n"
    return (head + "".join(f"{line}\n" for line in lines)).encode()


@pytest.mark.parametrize(
    "line",
    ["import _pytest", 'os.environ["PYTEST_ADDOPTS"] = ""', "os._exit(0)", "def pytest_runtest_makereport():",
     "unittest.TestCase.run = run", 'sys.modules["pytest"] = None', 'path = "/tmp/junitxml"'],
)  # fmt: skip
def test_code_that_reaches_for_its_runner_is_shown(line: str):
    [part] = parts_of(edit("src/a.py", f"+{line}"))
    assert reaching_lines(part) == [f"src/a.py: {line}"]


@pytest.mark.parametrize(
    "content",
    [edit("README.md", "+set PYTEST_ADDOPTS"), edit("tests/test_a.py", "+import _pytest"), edit("src/a.py", "+x = 1"),
     edit("src/a.py", "-import _pytest", "+import _pytest  # moved")],
)  # fmt: skip
def test_words_tests_and_what_was_there_before_do_not_reach(content: bytes):
    [part] = parts_of(content)
    assert reaching_lines(part) == []


async def inspected(diff: bytes, rules: GateRules = GateRules(), scope: tuple[str, ...] = ("edit:**",)):
    return await inspect(diff, NO_MIRROR, commands=["sh check.sh"], subpath="", rules=rules, scope=scope)


@pytest.mark.parametrize(
    ("diff", "rules", "named"),
    [
        (edit("check.sh", "+exit 0"), GateRules(), "check.sh"),
        (edit("conftest.py", "+x"), GateRules(), "conftest.py"),
        (edit("pyproject.toml", "+x"), GateRules(), "pyproject.toml"),
        (edit("pytest.py", "+x", status="new file mode 100644\n"), GateRules(), "pytest.py"),
        (edit("golden/a.txt", "+x"), GateRules(protect=("golden/**",)), "golden/a.txt"),
        (edit("out/report.xml", "+x"), GateRules(junit="out/*.xml"), "out/report.xml"),
    ],
)
async def test_an_edited_gate_is_an_objection(diff: bytes, rules: GateRules, named: str):
    [objection] = (await inspected(diff, rules)).objections

    assert (objection.code, objection.names) == ("gate_edited", (named,))
    assert "may_edit" in objection.hint


async def test_a_person_may_let_a_file_of_the_gate_be_edited():
    assert (await inspected(edit("check.sh", "+exit 0"), GateRules(may_edit=("check.sh",)))).objections == ()


@pytest.mark.parametrize(
    ("scope", "status", "is_judged"),
    [
        (("edit:**",), "", True),
        (("edit:src/**", "edit:tests/**"), "", False),
        (("edit:src/**", "edit:tests/test_a.py"), "", False),
        (("edit:**",), "new file mode 100644\n", True),
        (("edit:**",), "deleted file mode 100644\n", True),
    ],
)
async def test_edits_of_tests_are_judged_unless_a_grant_names_tests(scope, status: str, is_judged: bool):
    found = await inspected(edit("tests/test_a.py", "-x", "+y", status=status), scope=scope)

    assert [(file.path, file.added, file.removed) for file in found.test_files] == [("tests/test_a.py", 1, 1)]
    assert bool(found.judged) is is_judged


async def test_a_link_in_the_place_of_the_tests_belongs_to_them():
    gone = edit("tests/test_a.py", "-x", status="deleted file mode 100644\n")
    link = edit("tests", "+elsewhere", status="new file mode 120000\n")

    found = await inspected(gone + link + edit("elsewhere/test_a.py", "+x") + edit("src/a.py", "+x"))

    assert [part.path for part in found.judged] == ["tests/test_a.py", "tests", "elsewhere/test_a.py"]


@pytest.mark.parametrize(
    ("diff", "scope", "is_test", "is_judged"),
    [
        (edit("checks/check_core.py", "-x", "+y"), (), True, True),
        (edit("golden/a.txt", "-x", "+y"), (), True, True),
        (edit("golden/b.txt", "-x", "+y"), (), False, False),
        (edit("src/checking.py", "-x", "+y"), (), True, True),
        (edit("src/core.py", "-x", "+y"), (), False, False),
        (edit("checks/check_more.py", "+y", status="new file mode 100644\n"), (), True, True),
        (edit("src/more.py", "+y", status="new file mode 100644\n"), (), False, False),
        (edit("checks/check_core.py", "-x", "+y"), ("edit:checks/**",), True, False),
        (edit("checks/check_core.py", "-x", "+y"), ("edit:checks/check_core.py",), True, False),
        (edit("src/checking.py", "-x", "+y"), ("edit:src/**",), True, True),
        (edit("src/checking.py", "-x", "+y"), ("edit:src/checking.py",), True, False),
        (edit("golden/a.txt", "-x", "+y"), ("edit:golden/a.*",), True, False),
    ],
)
async def test_what_the_bases_run_took_for_tests_are_tests(
    diff: bytes, scope, is_test: bool, is_judged: bool, tmp_path
):
    git(tmp_path, "init", "-q")
    found = {"checks/check_core.py", "golden/a.txt", "src/checking.py"}
    for name in (*found, "src/core.py", "golden/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    trees = Trees(Mirror(tmp_path / ".git"), "HEAD", "HEAD")

    inspection = await inspect(
        diff, trees, commands=["pytest"], subpath="", rules=GateRules(), scope=("edit:**", *scope), found=found
    )

    assert (bool(inspection.test_files), bool(inspection.judged)) == (is_test, is_judged)
    assert inspection.touched == {part.path for part in parts_of(diff)}
