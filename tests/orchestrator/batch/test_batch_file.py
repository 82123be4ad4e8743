"""Batch files: what they may say, and how what is wrong is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from envelope.budget import Budget
from orchestrator.batch.contents import with_contents
from orchestrator.batch.file import load_batch, parse_batch
from orchestrator.batch.request import batch_request
from orchestrator.batch.shards import WHOLE, Shard, refuse_empty, shards_of
from orchestrator.batch.spec import Shards
from orchestrator.batch.stages import stage_request, stages_of
from orchestrator.batch.starter import starter
from orchestrator.batch.survey import survey
from orchestrator.errors import BadBatchFile, BadInput
from orchestrator.globs import matching
from orchestrator.looking import READ_SCOPE
from orchestrator.submit import RepositoryInput

GOOD = """\
name = "modernise"
[[repositories]]
path = "."
[shards]
glob = "src/*.py"
[[steps]]
recipe = ["fix {path}", "echo {path} {other}"]
ok_exit_codes = [0, 1]
[gate]
commands = ["python -m pytest -q"]
[publish]
branch = "muster/modernise"
"""
REPOSITORY = RepositoryInput(name="demo", bundle=f"sha256:{'0' * 64}", base="0" * 40)


def test_toml_and_yaml_say_the_same():
    as_yaml = """
name: modernise
repositories: [{path: .}]
shards: {glob: "src/*.py"}
steps: [{recipe: ["fix {path}", "echo {path} {other}"], ok_exit_codes: [0, 1]}]
gate: {commands: ["python -m pytest -q"]}
publish: {branch: muster/modernise}
"""
    assert parse_batch(as_yaml, name="b.yaml") == parse_batch(GOOD, name="b.toml")


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (("name =", "nmae ="), "b.toml:1: unknown key 'nmae'", "did you mean 'name'?"),
        (("glob =", "globb ="), "b.toml:5: unknown key 'shards.globb'", "did you mean 'glob'?"),
        (("[publish]", "[publisch]"), "b.toml:11: unknown key 'publisch'", "did you mean 'publish'?"),
        (("ok_exit_codes", "ok_exitcodes"), "b.toml:8: unknown key 'steps[0].ok_exitcodes'", "'ok_exit_codes'?"),
        (('glob = "src/*.py"', 'glob = ""'), "b.toml:5: shards.glob: String should have at least 1", ""),
        (
            ('glob = "src/*.py"', ""),
            "b.toml:4: shards: say one of `glob`, `directories`, `files`, `files_from`, `match`, `symbol`, `command`,",
            "",
        ),
        (("muster/modernise", "no..way"), "b.toml:12: publish.branch: 'no..way' is not a valid branch name", ""),
        (("muster/modernise", "-rf"), "'-rf' is not a valid branch name", ""),
        (('"modernise"', '"a/b"'), "b.toml:1: name: use letters", ""),
        (("recipe = [", "agent = ["), "steps[0].agent: Input should be a valid string", ""),
        (('name = "modernise"\n', ""), "name: it is missing", ""),
        (
            ('["python -m pytest -q"]', '"make"'),
            "b.toml:10: gate.commands: a list is wanted: [ … ]",
            "muster batch init",
        ),
        (("[[steps]]", "[[steps"), "b.toml is not TOML", "muster batch init"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_field(change, message, hint):
    with pytest.raises(BadBatchFile) as caught:
        parse_batch(GOOD.replace(*change), name="b.toml")

    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert "\n" not in str(caught.value)


def test_yaml_mistakes_are_one_sentence():
    with pytest.raises(BadBatchFile, match=r"b\.yml is not YAML: .*line 1"):
        parse_batch("name: [", name="b.yml")


def test_yaml_builds_no_objects():
    with pytest.raises(BadBatchFile, match="is not YAML"):
        parse_batch("name: !!python/object/apply:os.system ['true']", name="b.yaml")


@pytest.mark.parametrize("name", ["batch.json", "batch"])
def test_other_suffixes_are_refused(name):
    with pytest.raises(BadBatchFile, match="unknown suffix"):
        parse_batch(GOOD, name=name)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadBatchFile, match=r"none\.toml cannot be read: No such file"):
        load_batch(tmp_path / "none.toml")


FILES = ["a.py", "src/a.py", "src/b.txt", "src/deep/c.py", "src/[odd].py", "tests/test_a.py"]


@pytest.mark.parametrize(
    ("glob", "matched"),
    [
        ("*.py", ["a.py"]),
        ("src/*.py", ["src/[odd].py", "src/a.py"]),
        ("./src/?.py", ["src/a.py"]),
        ("src/**/*.py", ["src/[odd].py", "src/a.py", "src/deep/c.py"]),
        ("**/*.py", ["a.py", "src/[odd].py", "src/a.py", "src/deep/c.py", "tests/test_a.py"]),
        ("src/**", ["src/[odd].py", "src/a.py", "src/b.txt", "src/deep/c.py"]),
        ("src/[ab].*", ["src/a.py", "src/b.txt"]),
        ("src/[!a].*", ["src/b.txt"]),
        ("src/[[]odd].py", ["src/[odd].py"]),
    ],
)
def test_globs_are_a_shells(glob, matched):
    assert [shard.key for shard in shards_of(FILES, Shards(glob=glob), max_shards=9, name="demo")] == matched


PIECES = ("a", "b", "/", "*", "**", "/**/", "?", "[!a]", "[ab]")


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.text("ab/", max_size=10))
def test_globs_match_what_trying_everything_would(pieces, path):
    everything = {"/**/": "/(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "[!a]": "[^a/]"}
    glob = "".join(pieces)
    assume(not re.search(r"(?<=[^/])\*\*/|\*{3}", glob) and not glob.startswith("./"))
    parts = re.findall(r"/\*\*/|\*\*/|\*\*|\[.*?\]|.", glob)
    tried = "".join(everything.get(part, "(?:.*/)?" if part == "**/" else part) for part in parts)

    assert matching(glob, [path]) == ([path] if re.fullmatch(tried, path) else [])


@pytest.mark.parametrize("glob", ["**a**a**a**a**ab", "*a" * 20 + "b", "**/*a*a*a*a*a*ab"])
def test_no_glob_takes_for_ever(glob):
    # in a process of its own: an endless match could not be interrupted
    code = "import sys; from orchestrator.globs import matching; print(matching(sys.argv[1], ['a' * 400]))"
    ran = subprocess.run([sys.executable, "-c", code, glob], capture_output=True, text=True, timeout=10, check=True)
    assert ran.stdout == "[]\n"


def test_many_globs_for_many_files_are_refused():
    paths = [f"{n}.py" for n in range(100_000)]
    with pytest.raises(BadInput, match="101 globs are too many for 100,000 files"):
        matching("**", paths, exclude=[f"{n}" for n in range(100)])
    with pytest.raises(BadInput, match="too many"):
        with_contents([], dict.fromkeys(paths, ""), [f"{n}" for n in range(100)])


def test_any_number_of_folders_begins_at_a_folder():
    with pytest.raises(BadInput, match="follows a name"):
        matching("src**/a.py", ["src/a.py"])


@pytest.mark.parametrize(
    ("glob", "exclude", "shards"),
    [
        ("*", (), {"src/": "edit:src/**", "tests/": "edit:tests/**"}),
        ("src/*/", (), {"src/deep/": "edit:src/deep/**"}),
        ("**", ("tests",), {"src/": "edit:src/**", "src/deep/": "edit:src/deep/**"}),
    ],
)
def test_folders_are_shards_with_all_below_them(glob, exclude, shards):
    found = shards_of(FILES, Shards(directories=glob, exclude=exclude), max_shards=9, name="demo")

    assert {shard.key: shard.edits for shard in found} == shards
    assert [shard.path for shard in found] == [key.rstrip("/") for key in shards]


@pytest.mark.parametrize(
    ("path", "shards"),
    [
        ("src/*.py", Shards(glob="src/**/*.py", exclude=("src/keys/**",))),
        ("src/?.py", Shards(glob="src/**/*.py")),
        ("src/a\\b.py", Shards(glob="src/**/*.py")),
        ("pkg/*/a.py", Shards(directories="pkg/*", exclude=("pkg/secret",))),
        ("src/*.py", Shards(files=("src/*.py",))),
    ],
)
def test_a_file_whose_name_is_a_pattern_is_no_shard_that_could_edit_what_it_matches(path, shards):
    with pytest.raises(BadInput, match="would be read as a pattern") as refusal:
        shards_of([*FILES, "src/keys/secret.py", path], shards, max_shards=99, name="demo")

    assert "exclude it" in refusal.value.hint


def test_a_list_beside_the_file_is_a_part_of_the_batch(tmp_path):
    (tmp_path / "list.txt").write_text("src/a.py\n\n  a.py\nsrc/a.py\n")
    (tmp_path / "b.toml").write_text(GOOD.replace('glob = "src/*.py"', 'files_from = "list.txt"'))

    spec = load_batch(tmp_path / "b.toml")

    assert spec.shards.files == ("src/a.py", "a.py")
    assert [shard.key for shard in shards_of(FILES, spec.shards, max_shards=9, name="demo")] == ["a.py", "src/a.py"]


@pytest.mark.parametrize(("content", "message"), [(None, "cannot be read"), ("\n\n", "lists no file")])
def test_a_list_that_is_missing_or_empty_is_named(tmp_path, content, message):
    (tmp_path / "b.toml").write_text(GOOD.replace('glob = "src/*.py"', 'files_from = "list.txt"'))
    if content is not None:
        (tmp_path / "list.txt").write_text(content)

    with pytest.raises(BadBatchFile, match=rf"list\.txt {message}"):
        load_batch(tmp_path / "b.toml")


def test_a_listed_file_that_no_repository_has_is_named():
    shards = Shards(files=("a.py", "b.py", "tests/none.py"), exclude=("tests/**",))
    found = {shard.key for shard in shards_of(FILES, shards, max_shards=9, name="demo")}

    with pytest.raises(BadInput, match=r"no repository of the batch has the file 'b\.py'"):
        refuse_empty(shards, found)
    refuse_empty(shards.model_copy(update={"files": ("a.py", "tests/none.py")}), found)


def test_excluded_files_are_no_shards():
    shards = Shards(glob="**/*.py", exclude=("tests/**", "src/deep/*"))

    assert [shard.key for shard in shards_of(FILES, shards, max_shards=9, name="demo")] == [
        "a.py",
        "src/[odd].py",
        "src/a.py",
    ]


def test_a_whole_repository_is_one_shard():
    [shard] = shards_of(FILES, Shards(whole=True), max_shards=9, name="demo")

    assert (shard.key, shard.edits) == (WHOLE, "edit:**")


def test_too_many_shards_are_refused():
    with pytest.raises(BadInput, match="makes 5 shards of demo, over the limit of 4"):
        shards_of(FILES, Shards(glob="**/*.py"), max_shards=4, name="demo")


def shard(keep_settings, path: str, text: str = GOOD, **of_driver):
    [shard] = shards_of([path], Shards(glob="**"), max_shards=1, name="demo")
    return request_of(keep_settings, shard, text, **of_driver)


def request_of(keep_settings, shard: Shard, text: str, **of_driver):
    spec = parse_batch(text, name="b.toml")
    driver = batch_request(spec, [REPOSITORY], settings=keep_settings)
    [stage] = stages_of(spec.steps)
    driver = driver.model_copy(update=of_driver)
    return stage_request(stage, shard, spec, REPOSITORY, driver=driver, budget=Budget(), deadline_ms=1_000)


def test_a_path_reaches_the_shell_as_one_word(keep_settings):
    task = shard(keep_settings, "src/a b; rm -rf $HOME.py")

    assert task.input.params["commands"] == [
        "fix 'src/a b; rm -rf $HOME.py'",
        "echo 'src/a b; rm -rf $HOME.py' {other}",
    ]
    assert task.input.params["ok_exit_codes"] == [0, 1]


async def test_ruff_is_told_which_python_each_package_supports(keep_settings, tmp_path):
    """The command as the batch has it, and the ruff that is installed here: `datetime.UTC` is of Python 3.11."""
    old = "from datetime import datetime, timezone\n\nNOW = datetime.now(timezone.utc)\n"
    files = {
        "pyproject.toml": '[project]\nname = "all"\nrequires-python = ">=3.7"\n',
        "of_all.py": old,
        "new/setup.cfg": "[options]\npython_requires = >=3.11\n",
        "new/src/of_new.py": old,
        "tool/pyproject.toml": "[tool.ruff]\n",
        "tool/of_tool.py": old,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "packages")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    text = GOOD.replace('recipe = ["fix {path}", "echo {path} {other}"]', 'ruff = "UP"').replace("src/*.py", "**/*.py")
    spec = parse_batch(text, name="b.toml")

    for each in await survey(spec, name="demo", git_dir=tmp_path / ".git", base="HEAD", max_shards=9):
        [command] = request_of(keep_settings, each, text).input.params["commands"]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["sh", "-c", command], cwd=tmp_path, env={"PATH": path}, check=True)

    rewritten = {path.name: "datetime.now(UTC)" in path.read_text() for path in tmp_path.rglob("of_*.py")}
    assert rewritten == {"of_all.py": False, "of_new.py": True, "of_tool.py": False}


def test_the_same_work_has_the_same_key_and_other_work_another(keep_settings):
    key = shard(keep_settings, "src/a.py").idempotency_key

    assert shard(keep_settings, "src/a.py").idempotency_key == key
    assert shard(keep_settings, "src/b.py").idempotency_key != key
    assert shard(keep_settings, "src/a.py", GOOD.replace("fix", "mend")).idempotency_key != key
    assert shard(keep_settings, "src/a.py", GOOD.replace("pytest", "unittest")).idempotency_key == key
    assert shard(keep_settings, "src/a.py", auth_scope=READ_SCOPE).idempotency_key != key


@pytest.mark.parametrize("folder", ["demo", "an ödd 'name'", ".hidden"])
def test_the_file_to_start_from_is_a_good_one(tmp_path, folder):
    repository = tmp_path / folder
    (repository / "tests").mkdir(parents=True)
    (repository / "tests/test_it.py").write_text("")

    spec = parse_batch(starter(repository, seen_from=tmp_path / "batches"), name="b.toml")

    assert spec.repositories[0].path == f"../{folder}"
    assert spec.steps[0].ruff and spec.gate and spec.gate.min_tests == 1 and spec.publish


def test_the_file_to_start_from_installs_what_the_tests_need(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nrequires-python = ">=3.6"\n[project.optional-dependencies]\ntest = ["pytest"]\n'
    )
    (tmp_path / "x").mkdir()
    (tmp_path / "x/y_test.py").write_text("")

    text = starter(tmp_path, seen_from=tmp_path)

    spec = parse_batch(text, name="b.toml")
    assert spec.setup.commands == ('pip install -e ".[test]"',)
    assert spec.gate and spec.gate.commands == ("python -m pytest -q",)
    assert spec.steps[0].ruff == "E7,W"  # they hold on every Python, and ruff's others need 3.7
    assert "UP is for Python 3.7 and newer, and this package says that it supports 3.6" in text


@pytest.mark.parametrize(
    ("files", "glob", "needs"),
    [
        (("go.mod", "uuid.go", "hash.go", "uuid_test.go", "doc/example.js"), "**/*.go", "go"),
        (("Cargo.toml", "src/lib.rs"), "**/*.rs", "cargo"),
        (("package.json", "src/index.ts", "node_modules/a.js", "node_modules/b.js"), "**/*.ts", "npm"),
        (("pom.xml", "src/main/java/A.java"), "**/*.java", ""),
        (("README.md",), "**/*.py", ""),
    ],
)
def test_the_file_to_start_from_is_for_the_language_that_is_there(tmp_path, files, glob, needs):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text('{"scripts": {"test": "jest"}}' if name == "package.json" else "")

    text = starter(tmp_path, seen_from=tmp_path)

    spec = parse_batch(text, name="b.toml")
    assert spec.shards.glob == glob
    assert bool(spec.steps[0].ruff) is (glob == "**/*.py")
    assert (f"the sandbox image must have `{needs}`" in text) is bool(needs)


@pytest.mark.parametrize(
    "files", [(), ("setup.py",), ("tests/__init__.py", ".venv/test_x.py", "node_modules/test_x.py")]
)
def test_the_file_to_start_from_says_that_there_are_no_tests(tmp_path, files):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")

    text = starter(tmp_path, seen_from=tmp_path)

    assert parse_batch(text, name="b.toml").gate is None
    assert "No tests were found here." in text and "# min_tests = 0" in text


def test_a_file_to_start_from_needs_a_folder(tmp_path):
    with pytest.raises(BadInput, match="there is no folder"):
        starter(tmp_path / "nowhere", seen_from=tmp_path)


@pytest.mark.parametrize("agent", ["verify", "recipe"])
def test_a_conflict_is_no_work_for_who_takes_commands_alone(batch_text, agent):
    with pytest.raises(BadBatchFile, match=f"merge.agent: '{agent}' takes commands and no prompt"):
        parse_batch(f'{batch_text}[merge]\nresolve = "agent"\nagent = "{agent}"\n', name="batch.toml")
