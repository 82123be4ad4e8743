"""A diff that no git wrote: what `git apply` would change, and nobody would judge, is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.gating.diff import joined, parts_of
from repo.errors import PatchRefused
from repo.patch import APPLY

HEAD = "diff --git a/src/a b/src/a\nindex 7898192..f70f10e 100644\n"
BODY = "--- a/src/a\n+++ b/src/a\n@@ -1 +1 @@\n-a\n+A\n"
TESTS = "--- a/tests/t\n+++ b/tests/t\n@@ -1 +1 @@\n-b\n+evil\n"
RENAMED = "diff --git a/src/a b/lib/a\nsimilarity index 100%\nrename from src/a\nrename to lib/a\n"
MADE = "diff --git {} {}\nnew file mode 100644\nindex 0000000..e69de29\n"
HIDDEN = {
    "before the first": TESTS + HEAD + BODY,
    "alone": TESTS,
    "behind a hunk": HEAD + BODY + TESTS,
    "behind a rename": RENAMED + TESTS,
    "behind a change of mode": "diff --git a/src/a b/src/a\nold mode 100644\nnew mode 100755\n" + TESTS,
    "by other names than its first line's": "diff --git a/src/a b/zzz/b\nindex 7898192..f70f10e 100644\n" + TESTS,
    "as a copy": "diff --git a/src/a b/tests/x\nsimilarity index 100%\ncopy from src/a\ncopy to tests/x\n",
    "as a second rename": RENAMED + "rename to tests/x\n",
    "of more lines than its hunk says": HEAD + BODY + "-x\n" + TESTS,
    "behind words": HEAD + BODY + "and\n" + TESTS,
    "behind an empty line": HEAD + BODY + "\n" + TESTS,
    "behind another first folder": MADE.format("src/tests/new", "src/tests/new"),
    "before a zero byte": MADE.format('"a/tests/new\\000.py"', '"b/tests/new\\000.py"'),
    "between two slashes": MADE.format("a//tests/new", "b//tests/new"),
    "above": MADE.format("a/src/../tests/new", "b/src/../tests/new"),
    "before a tab": "diff --git a/tests/new\tx b/tests/new\tx\nnew file mode 100644\n"
    "--- /dev/null\n+++ b/tests/new\tx\n@@ -0,0 +1 @@\n+evil\n",
    "of a rename to a zero byte": RENAMED.replace("to lib/a", 'to "tests/x\\000.py"'),
    "of a rename to two slashes": RENAMED.replace("to lib/a", "to lib//a"),
}


def git(root: Path, *words: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(["git", "-C", root, *words], input=stdin, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    for path, text in {
        "src/a": "a\n",
        "tests/t": "b\n",
        "zzz/b": "b\n",
        "odd name\té": "a\n",
        "c": "a\0b" * 99,
    }.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    git(root, "init", "-q")
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "base")
    return root


def touched(root: Path, diff: bytes) -> set[str]:
    git(root, "read-tree", "HEAD")
    git(root, *APPLY, stdin=diff)
    names = git(root, "diff", "--cached", "--no-renames", "--name-only", "-z", "HEAD")
    return set(names.decode().split("\0")) - {""}


@pytest.mark.parametrize("where", HIDDEN)
def test_no_part_is_hidden(repository: Path, where: str):
    with pytest.raises(PatchRefused, match="no diff that git writes"):
        parts_of(HIDDEN[where].encode())


@pytest.mark.parametrize(
    "where",
    ["before the first", "behind a hunk", "by other names than its first line's", "behind another first folder"],
)
def test_git_would_have_changed_what_is_hidden(repository: Path, where: str):
    assert {"tests/t", "tests/new"} & touched(repository, HIDDEN[where].encode())


def test_all_that_git_writes_is_read(repository: Path, tmp_path: Path):
    work = tmp_path / "work"
    git(repository, "worktree", "add", "--detach", str(work))
    (work / "src" / "a").write_text("\n--- a/tests/t\n+++ b/tests/t\ndiff --git a/x b/x\n\nno newline")
    (work / "tests" / "t").unlink()
    (work / "zzz").rename(work / "yyy")
    (work / "odd name\té").chmod(0o755)
    (work / "c").write_bytes(bytes(range(256)) * 40)
    (work / "new").write_text("-- a\n++ b\n")
    (work / "empty").write_text("")
    (work / 'quoted"').write_text("x")
    (work / "a b").write_text("x\r\ny\x0cz\n")
    (work / "link").symlink_to("src/a")
    git(work, "add", "--all")
    diff = git(work, "diff", "--cached", "-p", "-M", "--binary", "--full-index", "HEAD")

    parts = parts_of(diff)
    assert joined(parts) == diff
    assert {path for part in parts for path in part.paths} == touched(repository, diff) == {
        *("src/a", "tests/t", "zzz/b", "yyy/b", "odd name\té", "c", "new", "empty", "link", 'quoted"', "a b")
    }  # fmt: skip
    assert parts_of(b"") == ()
