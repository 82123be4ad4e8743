"""What stands in a gate's commands: programs, the files that they run, and those that they only read. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

_WORD = re.compile(r"""(?:[^\s;|&(){}`'"]|'[^'\n]*'|"[^"\n]*")+""")
_BETWEEN = re.compile(r"[\n;|&(){}`]")
_ASSIGNMENT = re.compile(r"\w+=")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
# Programs that look at the files which they are given, and run none of them. What is not here may run what it names.
READERS = frozenset(
    (
        *("ruff", "black", "isort", "flake8", "pycodestyle", "pydocstyle", "pyflakes", "pylint", "mypy", "dmypy"),
        *("pyright", "basedpyright", "pytype", "bandit", "vulture", "codespell", "interrogate", "docformatter"),
        *("autopep8", "yapf", "pyupgrade", "autoflake", "doctest", "py_compile", "compileall", "tabnanny"),
        *("eslint", "prettier", "biome", "standard", "stylelint", "tslint", "oxlint", "jshint"),
        *("gofmt", "goimports", "golangci-lint", "staticcheck", "rustfmt", "clang-format", "clang-tidy", "cppcheck"),
        *("shellcheck", "shfmt", "hadolint", "yamllint", "markdownlint", "rubocop", "phpcs", "phpstan", "ktlint"),
    )
)
SOURCES = frozenset(
    (
        *(".py", ".pyi", ".pyx", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".css"),
        *(".go", ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".java", ".kt", ".rb", ".php", ".sh", ".bash", ".md"),
    )
)
# Their next word is a file that the program obeys.
_OBEYED = re.compile(
    r"-[cprR]|--[\w-]*(?:conf|rc|plugin|require|import|load|setup|ini|python|resolve|format|rules)[\w-]*"
)
# Programs whose arguments are a command of its own.
WRAPPERS = frozenset(("env", "time", "nice", "nohup", "command", "exec", "timeout", "uvx", "pipx", "npx", "bunx"))
RUN_OF = frozenset(("uv", "poetry", "pdm", "pipenv", "rye", "pixi", "hatch", "npm", "pnpm", "yarn", "bun"))
_SWITCH_OR_NUMBER = re.compile(r"-.*|\d+[smhd]?|\w+=.*")
# Where a folder becomes one that Python loads modules from, in commands and in pytest's settings.
_ROOT = re.compile(
    r"(?:\bcd|--start-directory|--top-level-directory|\s-[st])[ =]+([\w./@%+][\w./@%+-]*)"
    r"|\bPYTHONPATH=[\"']?([^\s\"']+)|\bpythonpath[\"']?\s*[=:]\s*(\[[^\]]*\]|[^\n]*(?:\n[ \t]+[^\n]*)*)"
)
_SEVERAL = re.compile(r"[\s,:;\"'\[\]]+")


def simple_commands(text: str) -> Iterator[list[re.Match[str]]]:
    """The words of each, with their places in the text. Quotes that hold several commands are taken apart."""
    text = text.replace("\\\n", "  ")
    at = 0
    for end in [*(match.start() for match in _BETWEEN.finditer(text)), len(text)]:
        if words := list(_WORD.finditer(text, at, end)):
            yield words
        at = end + 1


def program_of(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """What is run in the end, and its arguments: `uv run python -m ruff check a.py` is ruff."""
    while words:
        name = posixpath.basename(words[0].lstrip("@+-"))
        if _ASSIGNMENT.match(words[0]) or not name:
            words = words[1:]
        elif name in WRAPPERS or (name in RUN_OF and words[1:2] in (["run"], ["exec"])):
            words = words[1 if name in WRAPPERS else 2 :]
            while words and _SWITCH_OR_NUMBER.fullmatch(words[0]):
                words = words[1:]
        elif (_PYTHON.fullmatch(name) or (name == "coverage" and words[1:2] == ["run"])) and "-m" in words:
            before, words = words[: words.index("-m")], words[words.index("-m") + 1 :]
            if any(word.endswith(".py") for word in before):  # it belongs to that program
                return name, before[1:]
        else:
            return name, words[1:]
    return "", ()


def without_files_read(text: str) -> str:
    """The text, but for source files that programs in it are given to look at.

    >>> without_files_read("ruff check a.py && python a.py").split()
    ['ruff', 'check', '&&', 'python', 'a.py']
    """
    text = text.replace("\\\n", "  ")
    read: list[re.Match[str]] = []
    for words in simple_commands(text):
        program, given = program_of([_bare(word[0]) for word in words])
        if program in READERS or (program in ("pytest", "py.test") and any("doctest" in word for word in given)):
            arguments = words[len(words) - len(given) :]
            befores = [None, *arguments]
            read += [word for word, before in zip(arguments, befores, strict=False) if _is_read(word, before)]
    for word in reversed(read):
        text = f"{text[: word.start()]}{' ' * len(word[0])}{text[word.end() :]}"
    return text


def roots_in(texts: Iterable[str], folder: str) -> set[str]:
    """Folders that commands, scripts and settings put on Python's path, as far as they say so."""
    found: set[str] = set()
    for text in texts:
        for match in _ROOT.finditer(text):
            named = next(filter(None, match.groups()), "")
            found |= {posixpath.normpath(posixpath.join(folder, one)) for one in _SEVERAL.split(named) if one}
        for words in simple_commands(without_files_read(text)):
            program, given = program_of([_bare(word[0]) for word in words])
            paths = [posixpath.normpath(posixpath.join(folder, word)) for word in given if not word.startswith("-")]
            if _PYTHON.fullmatch(program):
                found |= {posixpath.dirname(path) for path in paths if path.endswith(".py")}
            elif program == "unittest" and "discover" in given:
                found |= set(paths)
    return {"" if root == "." else root for root in found}


def _is_read(word: re.Match[str], before: re.Match[str] | None) -> bool:
    text = _bare(word[0])
    return posixpath.splitext(text)[1] in SOURCES and not (before and _OBEYED.fullmatch(_bare(before[0])))


def _bare(word: str) -> str:
    return word.replace("'", "").replace('"', "")
